"""Steps of training use the memory that the steps before have freed."""

import os
import platform
import subprocess
import sys

import pytest

STEPS = """
import resource
import numpy as np
from qdist import nn, optim

model = nn.Sequential(*(layer for _ in range(6) for layer in (nn.Linear(256, 256), nn.GELU())))
optimizer = optim.Adam(model.parameters(), lr=1e-3)
x = np.ones((2048, 256), np.float32)


def step():
    optimizer.zero_grad()
    model(x).mean().backward()
    optimizer.step()


for _ in range(3):
    step()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(4):
    step()
print((resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before) / 4 * resource.getpagesize())
"""


def mapped_anew(**environment: str) -> float:
    """Bytes a step."""
    names = ("MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_", "GLIBC_TUNABLES")
    plain = {name: value for name, value in os.environ.items() if name not in names}
    done = subprocess.run(
        [sys.executable, "-c", STEPS], env=plain | environment, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    return float(done.stdout)


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other allocators give memory back in ways of their own")
def test_a_step_maps_hardly_any_memory_anew() -> None:
    # Twelve activations of 2 MiB each, and their cotangents.
    assert mapped_anew() < 2 << 20


def test_a_setting_of_the_users_own_stays() -> None:
    assert mapped_anew(MALLOC_TRIM_THRESHOLD_="1000000", MALLOC_MMAP_THRESHOLD_="1000000") > 12 << 20
