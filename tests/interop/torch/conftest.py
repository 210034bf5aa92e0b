"""Lets these tests use what the tests of frameworks share; without torch there is nothing to test."""

import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[1]))
torch = pytest.importorskip("torch")
torch.set_num_threads(1)
