"""Run by CMake while a wheel is built: compiles the CUDA sources ahead (qdist.backends.cuda.compiling).

    python at_build.py FOLDER

The package itself cannot be imported yet: its C++ is being compiled, and what it depends on need not be installed. So
its folders stand in for its packages, without their __init__.py.
"""

import sys
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).resolve().parents[4]

for name in ("qdist", "qdist.plan", "qdist.backends", "qdist.backends.cuda", "qdist.backends.cuda.lowering"):
    package = sys.modules[name] = ModuleType(name)
    package.__path__ = [str(ROOT.joinpath(*name.split(".")))]

from qdist.backends.cuda.compiling.__main__ import main  # noqa: E402

if __name__ == "__main__":
    main(["--to", sys.argv[1]])
