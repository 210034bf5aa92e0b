"""Lets these tests import their reference."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parent))
