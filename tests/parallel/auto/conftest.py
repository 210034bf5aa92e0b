"""Where the tests of this folder find what others share: ranks made of threads, models, and cases of all operations."""

import sys
from pathlib import Path

TESTS = Path(__file__).parents[2]
sys.path += [str(TESTS / "parallel"), str(TESTS / "parallel" / "ranks"), str(TESTS / "tensor")]
