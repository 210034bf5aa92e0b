"""A program on several ranks: python -m qdist.interop.paddle.distributed.launch --gpus=0,1 --log_dir logs x.py"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from ....comm.errors import CommError
from ....comm.launch import run

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line; returns the exit code."""
    parser = argparse.ArgumentParser(
        prog="launch", description="Runs a program on several ranks of this machine.", allow_abbrev=False
    )
    parser.add_argument(
        "--gpus", "--devices", metavar="LIST", help="GPUs, a rank each: 0,1; ranks without GPUs where there are none"
    )
    parser.add_argument("--nproc_per_node", type=int, metavar="N", help="ranks, where no GPUs are named (default 1)")
    parser.add_argument("--log_dir", metavar="DIR", help="write each rank's output to DIR/workerlog.<rank>")
    parser.add_argument("program", nargs=argparse.REMAINDER, help="script.py and its arguments")
    options = parser.parse_args(arguments)
    try:
        ranks = _ranks(options.gpus, options.nproc_per_node)
        output = None
        if options.log_dir is not None:
            Path(options.log_dir).mkdir(parents=True, exist_ok=True)
            output = str(Path(options.log_dir) / "workerlog")
        return run(options.program, ranks, output=output)
    except (CommError, OSError, ValueError) as error:
        print(f"launch: {error}", file=sys.stderr)
        return 2


def _ranks(gpus: str | None, count: int | None) -> int:
    """How many ranks; the GPUs that are named become the only ones that they see."""
    if gpus is None:
        if count is not None and count < 1:
            raise ValueError(f"--nproc_per_node={count}: at least 1")
        return count or 1
    names = gpus.split(",")
    if not all(name.isdigit() for name in names) or len(set(names)) < len(names):
        raise ValueError(f"--gpus={gpus}: different numbers, separated by commas")
    if count not in (None, len(names)):
        raise ValueError(f"--nproc_per_node={count} and {len(names)} GPUs: a rank for each of them")
    os.environ["CUDA_VISIBLE_DEVICES"] = gpus
    return len(names)


if __name__ == "__main__":
    sys.exit(main())
