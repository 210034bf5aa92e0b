"""The `qdist` command."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from qdist import __version__
from qdist.comm.errors import CommError
from qdist.comm.launch import parse_hostfile, parse_hosts, run

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line; returns the exit code."""
    options = _parser().parse_args(arguments)
    try:
        return options.command(options)
    except (CommError, ValueError) as error:
        print(f"qdist {options.name}: {error}", file=sys.stderr)
        return 2


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="qdist", description="Distributed quantum-circuit simulation and training.")
    parser.add_argument("--version", action="version", version=f"qdist {__version__}")
    commands = parser.add_subparsers(dest="name", required=True, metavar="command")

    start = commands.add_parser(
        "run",
        help="run a program on several ranks",
        description="Runs a program on several ranks, here or on several hosts.",
        epilog="Examples: `qdist run -n 8 train.py --epochs 3`; `qdist run -H node0:4,node1:4 train.py`. "
        "Plain `mpirun -n 8 python train.py` works just as well.",
    )
    start.add_argument(
        "-n", "-np", "--ranks", type=int, metavar="N", help="ranks (default: all slots of the hosts, or 1)"
    )
    where = start.add_mutually_exclusive_group()
    where.add_argument("-H", "--hosts", metavar="LIST", help="hosts and ranks on each: node0:4,node1:4")
    where.add_argument("-f", "-hostfile", "--hostfile", metavar="FILE", help="file with lines `host slots=N`")
    start.add_argument("--output-filename", metavar="BASE", help="write each rank's output to BASE.<rank>")
    start.add_argument(
        "--verbose",
        action="store_true",
        help="show what is done; check first that the hosts can talk to each other",
    )
    start.add_argument(
        "--start-timeout",
        type=float,
        default=30.0,
        metavar="S",
        help="seconds for all ranks to start (default 30)",
    )
    start.add_argument(
        "--mpi",
        default="auto",
        metavar="WHICH",
        help="auto (a cluster's mpirun if on PATH, else the bundled), bundled, or the path of an mpirun",
    )
    start.add_argument("program", nargs=argparse.REMAINDER, help="script.py or a command, and its arguments")
    start.set_defaults(command=_run)

    info = commands.add_parser("info", help="print what this machine has and what is missing")
    info.set_defaults(command=_info)
    return parser


def _run(options: argparse.Namespace) -> int:
    hosts = parse_hosts(options.hosts) if options.hosts else []
    if options.hostfile:
        hosts = parse_hostfile(options.hostfile)
    return run(
        options.program,
        options.ranks,
        hosts=hosts,
        output=options.output_filename,
        verbose=options.verbose,
        start_timeout=options.start_timeout,
        mpi=options.mpi,
    )


def _info(options: argparse.Namespace) -> int:
    from qdist.info import report

    print(report())
    return 0
