"""Compiles all CUDA sources ahead, so that no program waits for a compiler.

    python -m qdist.backends.cuda.compiling                  # for the common architectures, into this installation
    python -m qdist.backends.cuda.compiling --arch 90        # for one

Needs NVRTC (pip install nvidia-cuda-nvrtc-cu12), no GPU and no CUDA toolkit. All four take about ten minutes of a core
and 6 MB.
"""

from __future__ import annotations

import argparse
import os
import sys
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

from qdist.backends.cuda.compiling.nvrtc import Nvrtc
from qdist.backends.cuda.compiling.packs import ARCHITECTURES, FOLDER, digest, write
from qdist.backends.cuda.compiling.texts import Text, all_texts

_AS_CUPY = ("-ftz=true",)
"""What CuPy adds to the options of all that it compiles."""


def compiled(text: Text, architecture: int) -> tuple[str, bytes]:
    """The digest and the machine code of a source. Raises CompileError."""
    code, options = text
    return digest(code, options), Nvrtc().cubin(code, (*options, *_AS_CUPY), architecture)


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m qdist.backends.cuda.compiling",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--arch", type=int, nargs="+", default=list(ARCHITECTURES), metavar="NN", help="90 for 9.0")
    parser.add_argument("--to", type=Path, default=FOLDER, help="folder; by default where programs look")
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)), help="processes")
    options = parser.parse_args(arguments)
    nvrtc = Nvrtc()
    unknown = sorted(set(options.arch) - set(nvrtc.architectures))
    if unknown:
        major, minor = nvrtc.version
        sys.exit(f"NVRTC {major}.{minor} cannot compile for {unknown}; it knows {nvrtc.architectures}")
    texts = list(all_texts())
    with ProcessPoolExecutor(options.jobs) as pool:
        for architecture in options.arch:
            path = write(architecture, pool.map(partial(compiled, architecture=architecture), texts), options.to)
            print(f"{path}: {len(texts)} kernels, {path.stat().st_size / 1e6:.1f} MB", flush=True)


if __name__ == "__main__":
    main()
