"""Lets the tests here, also those on several ranks, import programs.py."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parent))
