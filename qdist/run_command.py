"""`qdist run`, and `vqnetrun`, the same under VQNet's name."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from qdist.comm.errors import CommError
from qdist.comm.launch import run, run_node
from qdist.comm.launch.hosts import parse_hostfile, parse_hosts
from qdist.comm.launch.job import GRACE
from qdist.comm.launch.restarts import BACKOFF, Restarts
from qdist.comm.launch.supervisor import START_TIMEOUT

__all__ = ["add_options", "add_run_command", "start", "vqnetrun"]

_MASTER_PORT = 29500
"""Where ranks of several launchers meet if no port is given: the default of torch's launcher."""


def add_run_command(commands: Any) -> None:
    """Adds the sub-command."""
    parser = commands.add_parser(
        "run",
        help="run a program on several ranks",
        description="Runs a program on several ranks, here or on several hosts.",
        epilog="Examples: `qdist run -n 8 train.py --epochs 3`; `qdist run -H node0:4,node1:4 train.py`; on each of "
        "two machines `qdist run --nproc-per-node 4 --nnodes 2 --node-rank 0 --master-addr node0 train.py`, with "
        "--node-rank 1 on the second. Plain `mpirun -n 8 python train.py` works just as well. The exit code is that of "
        "the rank that failed first, 128 + N where signal N ended it. How a rank ended cannot be known where it was on "
        "another host that mpirun started it on, or where Linux is older than 6.15: then the exit code is mpirun's, "
        "and that of MPICH's, which the bundled one is, has no 128: it is N, ORed with those of other ranks that ended "
        "by signals, such as the 9 with which it ends them.",
    )
    add_options(parser)
    parser.set_defaults(command=start)


def add_options(parser: argparse.ArgumentParser) -> None:
    """Adds the options of `qdist run`, and the program."""
    parser.add_argument(
        "-n", "-np", "--ranks", type=int, metavar="N", help="ranks (default: all slots of the hosts, or 1)"
    )
    where = parser.add_mutually_exclusive_group()
    where.add_argument("-H", "--hosts", metavar="LIST", help="hosts and ranks on each: node0:4,node1:4")
    where.add_argument("-f", "-hostfile", "--hostfile", metavar="FILE", help="file with lines `host slots=N`")
    parser.add_argument(
        "--output-filename", metavar="BASE", help="write each rank's output to BASE.<rank>; restarts go on in it"
    )
    parser.add_argument(
        "--verbose",
        action="store_true",
        help="show what is done; check first that the hosts can talk to each other",
    )
    parser.add_argument(
        "--start-timeout",
        type=float,
        metavar="S",
        help=f"seconds for all ranks to start (default {START_TIMEOUT:g})",
    )
    parser.add_argument(
        "--mpi",
        default="auto",
        metavar="WHICH",
        help="auto (a cluster's mpirun if on PATH, else the bundled), bundled, or the path of an mpirun",
    )
    again = parser.add_argument_group("jobs that survive: programs that go on from their newest checkpoint")
    again.add_argument(
        "--restarts", type=int, default=0, metavar="N", help="start a job that fails again, up to N times (default 0)"
    )
    again.add_argument(
        "--min-ranks",
        type=int,
        metavar="M",
        help="go on without hosts that are gone while the others have slots for M ranks (default: all ranks)",
    )
    again.add_argument(
        "--backoff", type=float, metavar="S", help=f"seconds before the first restart, then doubled ({BACKOFF:g})"
    )
    again.add_argument(
        "--grace",
        type=float,
        default=GRACE,
        metavar="S",
        help=f"seconds for ranks to finish a step and save it when SIGTERM or SIGUSR1 comes ({GRACE:g})",
    )
    one = parser.add_argument_group("as torch's launcher: one on each machine, which starts that machine's ranks")
    one.add_argument("--nproc-per-node", "--nproc_per_node", type=int, metavar="N", help="ranks on this machine")
    one.add_argument("--nnodes", type=int, metavar="N", help="machines (default 1)")
    one.add_argument("--node-rank", "--node_rank", type=int, metavar="I", help="this machine's number (default 0)")
    one.add_argument(
        "--master-addr", "--master_addr", metavar="HOST", help="the first machine, as the others reach it (127.0.0.1)"
    )
    one.add_argument(
        "--master-port",
        "--master_port",
        type=int,
        metavar="PORT",
        help=f"of it ({_MASTER_PORT}; or a free one)",
    )
    parser.add_argument("program", nargs=argparse.REMAINDER, help="script.py or a command, and its arguments")


def start(options: argparse.Namespace, local_rank_option: str = "") -> int:
    """Does what the options say; returns the exit code. Raises ValueError and CommError.

    local_rank_option: an option of the program that tells each rank its number on its machine.
    """
    if options.min_ranks is not None and not options.restarts:
        raise ValueError(f"--min-ranks {options.min_ranks} is for restarts: give --restarts N too")
    if options.backoff is not None and not options.restarts:
        raise ValueError(f"--backoff {options.backoff:g} is for restarts: give --restarts N too")
    if options.master_port is not None and not 0 < options.master_port < 1 << 16:
        raise ValueError(f"--master-port {options.master_port}: from 1 to {(1 << 16) - 1}")
    backoff = BACKOFF if options.backoff is None else options.backoff
    restarts = Restarts(options.restarts, options.min_ranks, backoff) if options.restarts else None
    nodes = 1 if options.nnodes is None else options.nnodes
    a_machine = options.nproc_per_node
    if a_machine is not None or nodes != 1 or options.node_rank is not None:
        for name in ("ranks", "hosts", "hostfile"):
            if getattr(options, name) is not None:
                raise ValueError(f"--nproc-per-node, --nnodes and --node-rank take the place of --{name}")
        a_machine = 1 if a_machine is None else a_machine
        if a_machine < 1 or nodes < 1:
            raise ValueError(f"--nproc-per-node {a_machine} --nnodes {nodes}: at least 1 of each")
        if not 0 <= (options.node_rank or 0) < nodes:
            raise ValueError(f"--node-rank {options.node_rank} of --nnodes {nodes}: from 0 to {nodes - 1}")
    if nodes > 1:
        if restarts is not None:
            raise ValueError("--restarts is for one launcher that starts all ranks (-H): leave out --nnodes")
        if options.grace != GRACE:
            raise ValueError("--grace is for one launcher that starts all ranks (-H): leave out --nnodes")
        if options.verbose or options.mpi != "auto":
            raise ValueError("--verbose and --mpi are for one launcher that starts all ranks: leave out --nnodes")
        if options.start_timeout is not None:
            raise ValueError("--start-timeout is for one launcher that starts all ranks (-H): leave out --nnodes")
        master = options.master_addr or "127.0.0.1", options.master_port or _MASTER_PORT
        return run_node(
            options.program,
            a_machine,
            nodes,
            options.node_rank or 0,
            master,
            output=options.output_filename,
            local_rank_option=local_rank_option,
        )
    hosts = parse_hosts(options.hosts) if options.hosts is not None else []
    if options.hostfile:
        hosts = parse_hostfile(options.hostfile)
    return run(
        options.program,
        options.ranks if a_machine is None else a_machine,
        hosts=hosts,
        output=options.output_filename,
        verbose=options.verbose,
        start_timeout=START_TIMEOUT if options.start_timeout is None else options.start_timeout,
        mpi=options.mpi,
        master=(options.master_addr, options.master_port),
        local_rank_option=local_rank_option,
        restarts=restarts,
        grace=options.grace,
    )


def vqnetrun() -> int:
    """The command of this name."""
    parser = argparse.ArgumentParser(
        prog="vqnetrun",
        description="Runs a program on several ranks, here or on several hosts: `qdist run` under VQNet's name.",
        epilog="Examples: `vqnetrun -n 2 python test.py`; `vqnetrun -np 4 -H node0:1,node2:1 python test.py`.",
    )
    add_options(parser)
    try:
        return start(parser.parse_args())
    except (CommError, OSError, ValueError) as error:
        print(f"vqnetrun: {error}", file=sys.stderr)
        return 2
