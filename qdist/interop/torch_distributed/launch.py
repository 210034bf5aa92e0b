"""`python -m qdist.interop.torch_distributed.launch`: as `python -m torch.distributed.launch`.

It is `qdist run` for a script that takes its number on the machine as an option, --local-rank, of its own.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from ...comm.errors import CommError
from ...run_command import add_options, start

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m qdist.interop.torch_distributed.launch", description=__doc__)
    parser.add_argument(
        "--use-env", "--use_env", action="store_true", help="only set LOCAL_RANK in the environment; pass no option"
    )
    parser.add_argument(
        "--local-rank-name",
        default="local-rank",
        choices=["local-rank", "local_rank"],
        help="the script's option: local_rank for scripts from before torch 2 (default local-rank)",
    )
    add_options(parser)
    options = parser.parse_args(arguments)
    try:
        return start(options, "" if options.use_env else f"--{options.local_rank_name}")
    except (CommError, OSError, ValueError) as error:
        print(f"launch: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
