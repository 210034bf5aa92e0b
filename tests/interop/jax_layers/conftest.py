"""Lets these tests use what the tests of frameworks share; without JAX there is nothing to test."""

import os
import sys
from pathlib import Path

import pytest

# A folder without folders: one named jax would be taken for the package.
sys.path.append(str(Path(__file__).parents[1] / "torch_layers"))
# Two devices of the CPU, for shard_map; read when JAX first runs something.
os.environ.setdefault("XLA_FLAGS", "--xla_force_host_platform_device_count=2")

try:
    import jax
except ImportError:
    collect_ignore_glob = ["test_*.py"]


@pytest.fixture(autouse=True)
def _double():
    before = jax.config.jax_enable_x64
    jax.config.update("jax_enable_x64", True)
    yield
    jax.config.update("jax_enable_x64", before)
