"""A program on several ranks: python -m qdist.interop.paddle.distributed.launch --gpus=0,1 --log_dir logs x.py

On several machines the same command is given on each, with --ips or with --master, --nnodes and --rank.
"""

from __future__ import annotations

import argparse
import os
import socket
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from ....comm.errors import CommError
from ....comm.launch import run, run_node

__all__ = ["main"]

_PORT = 6070


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line; returns the exit code."""
    parser = argparse.ArgumentParser(
        prog="launch", description="Runs a program on several ranks, here or on several machines.", allow_abbrev=False
    )
    parser.add_argument(
        "--gpus", "--devices", metavar="LIST", help="GPUs, a rank each: 0,1; ranks without GPUs where there are none"
    )
    parser.add_argument("--nproc_per_node", type=int, metavar="N", help="ranks, where no GPUs are named (default 1)")
    parser.add_argument("--log_dir", metavar="DIR", help="write each rank's output to DIR/workerlog.<rank>")
    machines = parser.add_argument_group("several machines, each with this command; QDIST_SECRET is the same on all")
    machines.add_argument("--ips", metavar="LIST", help="their addresses, the first machine's first: 10.0.0.1,10.0.0.2")
    machines.add_argument("--nnodes", type=int, metavar="N", help="how many there are, without --ips (default 1)")
    machines.add_argument("--rank", "--node_rank", type=int, metavar="I", help="this machine's number")
    machines.add_argument("--master", metavar="HOST:PORT", help="the first machine, as the others reach it")
    parser.add_argument("program", nargs=argparse.REMAINDER, help="script.py and its arguments")
    options = parser.parse_args(arguments)
    try:
        ranks = _ranks(options.gpus, options.nproc_per_node)
        machine = _machine(options.ips, options.nnodes, options.rank, options.master)
        output = None
        if options.log_dir is not None:
            Path(options.log_dir).mkdir(parents=True, exist_ok=True)
            output = str(Path(options.log_dir) / "workerlog")
        if machine.machines > 1:
            return run_node(options.program, ranks, machine.machines, machine.number, machine.master, output=output)
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


class _Machine(NamedTuple):
    machines: int
    number: int
    master: tuple[str, int]


def _machine(ips: str | None, count: int | None, number: int | None, master: str | None) -> _Machine:
    """Which of how many machines this is, and where the ranks of all meet."""
    host, _, port = (master or "").rpartition(":")
    if master is not None and not (host and port.isdigit()):
        raise ValueError(f"--master={master}: HOST:PORT")
    if ips is None:
        count = 1 if count is None else count
        if count < 1:
            raise ValueError(f"--nnodes={count}: at least 1")
        if count > 1 and (master is None or number is None):
            raise ValueError(f"--nnodes={count} takes --master=HOST:PORT and this machine's --rank, or --ips alone")
        if count == 1 and (master is not None or number not in (None, 0)):
            raise ValueError("--master and --rank are for several machines: give --nnodes too")
        return _Machine(count, number or 0, (host, int(port or 0)))
    addresses = ips.split(",")
    if "" in addresses or len(set(addresses)) < len(addresses):
        raise ValueError(f"--ips={ips}: different addresses, separated by commas")
    if count not in (None, len(addresses)):
        raise ValueError(f"--nnodes={count}, but --ips has {len(addresses)} addresses")
    if number is None:
        own = [i for i, address in enumerate(addresses) if _is_here(address)]
        if len(own) != 1 and len(addresses) > 1:
            raise ValueError(f"--ips={ips}: {len(own)} of them are this machine's: say which it is with --rank")
        number = own[0] if own else 0
    return _Machine(len(addresses), number, (host or addresses[0], int(port or _PORT)))


def _is_here(address: str) -> bool:
    """Whether an address is one of this machine's: nobody else may listen there."""
    try:
        family, kind, protocol, _, place = socket.getaddrinfo(address, 0, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, kind, protocol) as s:
            s.bind(place)
    except OSError:
        return False
    return True


if __name__ == "__main__":
    sys.exit(main())
