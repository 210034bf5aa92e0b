"""`qdist plan`: how a circuit would run on a cluster, and how long, without a single amplitude."""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from qdist.backends.cuda.target import cuda_target
from qdist.commands.checks import check_can_be_written, check_ranks, program_in
from qdist.options import number, whole
from qdist.plan.cost import SERVERS_OF_GPUS, Cluster, Machine
from qdist.plan.levels import inside_bits
from qdist.plan.page import html_page
from qdist.plan.picture import text_picture
from qdist.plan.plan import Plan, readable_size, several
from qdist.plan.planner import SCHEDULES, make_plan
from qdist.plan.stages.cpu_target import cpu_target
from qdist.plan.stages.target import Target
from qdist.plan.timeline import timeline
from qdist.state.moves.exchange import BUFFER_SHARE
from qdist.terminal import stdout_writes

__all__ = ["add_plan_command"]

_TARGETS: dict[str, Callable[[np.dtype], Target]] = {"cuda": cuda_target, "cpu": cpu_target}


def add_plan_command(commands: Any) -> None:
    """Adds `plan` to the subparsers of the command line."""
    plan = commands.add_parser(
        "plan",
        help="show how an OpenQASM file would run on many ranks, and how long it would take",
        description="Plans an OpenQASM program for a cluster and prints which qubits are far in which stage, the "
        "exchanges, bytes and memory of a rank, and the predicted time. Nothing is computed.",
        epilog="Example: `qdist plan ansatz.qasm --ranks 1024 --per-node 8 --html plan.html`.",
    )
    plan.add_argument("file", help="the OpenQASM program, - for stdin; measurements at its end are left out")
    plan.add_argument("--ranks", type=whole(1), required=True, metavar="N", help="ranks of the cluster")
    plan.add_argument("--per-node", type=whole(1), default=1, metavar="N", help="ranks in a node (default 1)")
    plan.add_argument("--dtype", choices=("complex64", "complex128"), default="complex64", help="(complex64)")
    plan.add_argument(
        "--device",
        choices=tuple(_TARGETS),
        default="cuda",
        help="what sweeps are planned for (default cuda)",
    )
    plan.add_argument("--schedule", choices=SCHEDULES, default="lazy", help="when amplitudes travel (default lazy)")
    plan.add_argument(
        "--html", metavar="FILE", help="write a page that shows when each sweep and exchange runs; open it in a browser"
    )
    plan.add_argument("--json", metavar="FILE", help="write the numbers as JSON; - prints them instead of the text")
    rank = plan.add_argument_group("what a rank has (by default a GPU like an H200 in a server of several)")
    usual, gpu = SERVERS_OF_GPUS, SERVERS_OF_GPUS.machine
    for option, unit, default, text in (
        ("--memory-bandwidth", "GB/S", gpu.bandwidth / 1e9, "of its memory"),
        ("--gflops", "GFLOP/S", gpu.flops_single / 1e9, "in single precision"),
        ("--gflops-double", "GFLOP/S", gpu.flops_double / 1e9, "in double precision"),
        ("--inside", "GB/S", usual.inside / 1e9, "to ranks of its node"),
        ("--between", "GB/S", usual.between / 1e9, "to other nodes"),
        ("--latency", "US", usual.latency * 1e6, "of a message, in microseconds"),
    ):
        rank.add_argument(
            option, type=number(above=0), default=default, metavar=unit, help=f"{text} (default {default:g})"
        )
    plan.set_defaults(command=_plan)


def _plan(options: argparse.Namespace) -> int:
    for option, name in (("--html", options.html), ("--json", options.json)):
        if name and (option, name) != ("--json", "-"):
            check_can_be_written(name, option)
    circuit = program_in(options.file).remove_final_measurements()
    far = (options.ranks - 1).bit_length()
    check_ranks(circuit.num_qubits, options.ranks)
    inside = inside_bits(options.ranks, range(options.per_node, options.ranks, options.per_node))
    started = time.perf_counter()
    dtype, cluster = np.dtype(options.dtype), _cluster(options)
    target = _TARGETS[options.device](dtype)
    plan = make_plan(circuit, dtype, far=far, target=target, inside=inside, schedule=options.schedule, cluster=cluster)
    numbers = _numbers(plan, options.ranks, cluster, time.perf_counter() - started)
    if options.html:
        events = timeline(plan, cluster, options.ranks)
        page = html_page(plan, Path(options.file).name, _lines(plan, options, numbers), events)
        Path(options.html).write_text(page, encoding="utf-8")
    if options.json == "-":
        print(json.dumps(numbers))
        return 0
    if options.json:
        Path(options.json).write_text(json.dumps(numbers) + "\n")
    print(*_lines(plan, options, numbers), "", text_picture(plan, ascii_only=not stdout_writes("·▒█")), sep="\n")
    return 0


def _cluster(options: argparse.Namespace) -> Cluster:
    machine = Machine(options.memory_bandwidth * 1e9, options.gflops * 1e9, options.gflops_double * 1e9)
    return Cluster(machine, options.inside * 1e9, options.between * 1e9, options.latency * 1e-6)


def _numbers(plan: Plan, ranks: int, cluster: Cluster, plan_seconds: float) -> dict[str, float]:
    """What --json shows: bytes and seconds are those of the rank that holds most."""
    shards = plan.shards_per_rank(ranks)
    return {
        "stages": len(plan.segments),
        "exchanges": plan.exchanges,
        "exchanges_between_nodes": plan.exchanges_between_nodes,
        "bytes_per_rank": int(shards * plan.bytes_sent),
        "memory_per_rank": shards * plan.shard_bytes + (shards * plan.shard_bytes // BUFFER_SHARE if plan.far else 0),
        "seconds": plan.seconds_on(cluster, ranks),
        "plan_seconds": plan_seconds,
    }


def _lines(plan: Plan, options: argparse.Namespace, numbers: dict[str, float]) -> list[str]:
    nodes = -(-options.ranks // options.per_node)
    return [
        f"{several(plan.num_qubits, 'qubit')}, {plan.dtype}, {several(options.ranks, 'rank')} on "
        f"{several(nodes, 'node')}, schedule {plan.schedule}",
        f"{several(int(numbers['stages']), 'stage')}, {several(plan.sweeps, 'sweep')}, "
        f"{several(int(numbers['exchanges']), 'exchange')}, of which "
        f"{numbers['exchanges_between_nodes']} between nodes",
        f"each rank: {readable_size(numbers['memory_per_rank'])} of memory, sends "
        f"{readable_size(numbers['bytes_per_rank'])}",
        f"about {numbers['seconds']:.3g} s (planned in {numbers['plan_seconds']:.2g} s)",
    ]
