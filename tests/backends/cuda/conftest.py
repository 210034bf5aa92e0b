"""Lets these tests use the strategies that the circuit tests define."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[2] / "circuit"))
