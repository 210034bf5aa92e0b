"""How large a circuit runs here, and how fast: the state spread over ranks, three schedules side by side.

    mpirun -n 8 python qsim_bench.py                            # picks a size that fits
    mpirun -n 8 python qsim_bench.py --qubits 26 --circuits qft --schedules lazy
    python qsim_bench.py --json - --plot bench.png              # one rank

Circuits: hea, 8 layers of RY and RZ on every qubit and a CX chain; qft, of the basis state |1>, without final swaps;
qv, quantum volume of depth 10; vqe, the ansatz and the energy of a Heisenberg chain in its state.

A run starts from |0...0> and binds nothing. `seconds` is the slowest rank's median; `pack` and `network` are what the
average rank spent in copying amplitudes for exchanges and in waiting for messages; `compute` is the rest. `GB/s` is
what a rank sent over the time it packed and waited. `/ lazy` is the row's time over that of the lazy schedule,
in the same run. Ranks that share cores are marked by an asterisk. The last line says in words what the numbers mean.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from common import machine, machine_line, table

import qdist as qd
from qdist.backends.memory import free_memory
from qdist.progress import Progress

CIRCUITS = ("hea", "qft", "qv", "vqe")
SCHEDULES = ("lazy", "paper", "in-order")
MOST_CLOSE = 21
"""Without --qubits a rank gets at most 2**21 amplitudes, so that the slow schedules come to an end as well."""
HEADER = [
    "circuit", "schedule", "qubits", "ranks", "exchanges", "MB sent", "seconds", "compute", "pack", "network", "GB/s",
    "/ lazy",
]  # fmt: skip


class Case(NamedTuple):
    """What is run: a circuit by name, and how its gates are scheduled."""

    circuit: str
    schedule: str


def circuit_of(name: str, num_qubits: int) -> qd.Circuit:
    if name == "qft":
        return qd.Circuit(num_qubits).x(0).compose(qd.library.qft(num_qubits, swaps=False))
    if name == "qv":
        return qd.library.quantum_volume(num_qubits, 10, seed=5)
    return qd.library.hardware_efficient(num_qubits, 8)


def size_that_fits(comm: qd.comm.Communicator, dtype: str) -> int:
    """Qubits whose shards and buffers take at most half of the free memory, and no more than MOST_CLOSE a rank."""
    far = (comm.size - 1).bit_length()
    share = free_memory() // comm.local_size // 2
    # Two shards where the ranks are no power of two; a quarter more for buffers and the rest.
    shard = share * 4 // 5 // (2 if comm.size & (comm.size - 1) else 1)
    close = min(MOST_CLOSE, (shard // np.dtype(dtype).itemsize).bit_length() - 1)
    return int(comm.all_reduce(np.array(close + far), "min"))


def finish(state: qd.StateVector) -> None:
    """Waits for a GPU, which is only told what to do by a run."""
    if state.device != "cpu":
        import cupy

        cupy.cuda.get_current_stream().synchronize()


def measure(case: Case, num_qubits: int, comm: qd.comm.Communicator, options: argparse.Namespace) -> dict[str, Any]:
    """Runs a case `options.repeats` times after one that warms up."""
    circuit = circuit_of(case.circuit, num_qubits)
    angles = np.random.default_rng(7).uniform(-np.pi, np.pi, circuit.num_parameters)
    program = qd.compile(circuit, comm=comm, device=options.device, dtype=options.dtype, schedule=case.schedule)
    energy = qd.library.heisenberg_xxz(num_qubits) if case.circuit == "vqe" else None
    state = program.run(angles)
    finish(state)
    turns = []
    for _ in range(options.repeats):
        before = (state.traffic.pack_seconds, state.traffic.network_seconds)
        counts = (state.traffic.exchanges, state.traffic.bytes_sent)
        comm.barrier()
        start = time.perf_counter()
        program.run(out=state)
        if energy is not None:
            state.expectation(energy)
        finish(state)
        seconds = time.perf_counter() - start
        after = (state.traffic.pack_seconds, state.traffic.network_seconds)
        turns.append([seconds, after[0] - before[0], after[1] - before[1]])
    exchanges, sent = state.traffic.exchanges - counts[0], state.traffic.bytes_sent - counts[1]
    medians = np.array([statistics.median(column) for column in zip(*turns)])
    slowest = float(comm.all_reduce(medians[:1], "max")[0])
    pack, network = (comm.all_reduce(medians[1:]) / comm.size).tolist()
    sent_by_average = float(comm.all_reduce(np.array(float(sent)))) / comm.size
    return {
        **case._asdict(),
        "qubits": num_qubits,
        "ranks": comm.size,
        "share_cores": shares_cores(comm),
        "exchanges": exchanges,
        "bytes_sent": sent_by_average,
        "sweeps": program.plan.sweeps,
        "seconds": slowest,
        "pack": pack,
        "network": network,
        "compute": slowest - pack - network,
    }


def row(result: dict[str, Any], results: list[dict[str, Any]]) -> list[Any]:
    lazy = next((r for r in results if r["circuit"] == result["circuit"] and r["schedule"] == "lazy"), None)
    waiting = result["pack"] + result["network"]
    return [
        *(result[name] for name in ("circuit", "schedule", "qubits")),
        f"{result['ranks']}*" if result["share_cores"] else result["ranks"],
        result["exchanges"],
        result["bytes_sent"] / 1e6,
        *(result[name] for name in ("seconds", "compute", "pack", "network")),
        result["bytes_sent"] / waiting / 1e9 if result["bytes_sent"] else "–",
        "–" if lazy is None or lazy is result else f"{result['seconds'] / lazy['seconds']:.2f}",
    ]


def threads_of_a_rank() -> int:
    return int(os.environ.get("OMP_NUM_THREADS", qd.native.kernels.max_threads()))


def shares_cores(comm: qd.comm.Communicator) -> bool:
    """Whether the ranks of a node have more threads than it has cores: they then take turns."""
    return comm.size > 1 and comm.local_size * threads_of_a_rank() > qd.comm.cores()


def words(results: list[dict[str, Any]], cores: int) -> str:
    """What the numbers mean, in a sentence or two. cores: of the node."""
    lazy = [r for r in results if r["schedule"] == "lazy"] or results
    quick, slow = min(lazy, key=lambda r: r["seconds"]), max(lazy, key=lambda r: r["seconds"])
    ranks, which = lazy[0]["ranks"], "lazy" if lazy[0]["schedule"] == "lazy" else "given"
    took = f"{quick['seconds']:.2g} s ({quick['circuit']})"
    if slow is not quick:
        took += f" to {slow['seconds']:.2g} s ({slow['circuit']})"
    if ranks == 1:
        return (
            f"In words: one rank runs {lazy[0]['qubits']} qubits in {took}, and there is nothing to exchange; "
            "`mpirun -n 4 python qsim_bench.py` spreads a state over ranks."
        )
    exchanging = statistics.mean((r["pack"] + r["network"]) / r["seconds"] for r in lazy)
    text = (
        f"In words: {ranks} ranks, each with its part of the state, run {lazy[0]['qubits']} qubits in {took} by the "
        f"{which} schedule, {100 * exchanging:.0f} % of it for exchanges between ranks"
    )
    for schedule in dict.fromkeys(r["schedule"] for r in results if which == "lazy" and r["schedule"] != "lazy"):
        pairs = [(r, other) for r in results if r["schedule"] == schedule for other in lazy if same_circuit(r, other)]
        times = statistics.median(r["seconds"] / other["seconds"] for r, other in pairs)
        sent = sum(r["bytes_sent"] for r, _ in pairs) / max(1.0, sum(other["bytes_sent"] for _, other in pairs))
        text += f"; the schedule {schedule} sends {sent:.1f} times as much and takes {times:.1f} times as long"
    if any(r["share_cores"] for r in results):
        text += (
            f". * These ranks share {cores} cores and take turns: their times show that the work is divided, not how "
            f"fast {ranks} machines would be"
        )
    return text + "."


def same_circuit(one: dict[str, Any], other: dict[str, Any]) -> bool:
    return one["circuit"] == other["circuit"]


def plot(results: list[dict[str, Any]], path: str) -> None:
    """Stacked bars of compute, pack and network, one a circuit and schedule."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(9, 4.5))
    bottom = np.zeros(len(results))
    for part in ("compute", "pack", "network"):
        heights = [r[part] for r in results]
        axes.bar(range(len(results)), heights, bottom=bottom, label=part)
        bottom += heights
    axes.set_xticks(range(len(results)), [f"{r['circuit']}\n{r['schedule']}" for r in results], fontsize=8)
    axes.set_ylabel("seconds")
    axes.set_title(f"{results[0]['qubits']} qubits on {results[0]['ranks']} ranks\n{machine_line()}", fontsize=9)
    axes.legend()
    figure.tight_layout()
    figure.savefig(path, dpi=120)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--qubits", type=int, metavar="N", help="size of the circuits (default: one that fits)")
    parser.add_argument("--circuits", nargs="+", choices=CIRCUITS, default=CIRCUITS, metavar="NAME",
                        help=f"of {', '.join(CIRCUITS)} (default: all)")  # fmt: skip
    parser.add_argument("--schedules", nargs="+", choices=SCHEDULES, default=SCHEDULES, metavar="NAME",
                        help=f"of {', '.join(SCHEDULES)} (default: all)")  # fmt: skip
    parser.add_argument("--dtype", choices=("complex64", "complex128"), default="complex64", help="(default complex64)")
    parser.add_argument("--device", default="auto", help="auto, cpu, cuda or cuda:N (default auto)")
    parser.add_argument("--repeats", type=int, default=3, metavar="R", help="runs a case, of which the median counts")
    parser.add_argument("--json", metavar="FILE", help="write the numbers and the machine to a file, - for stdout")
    parser.add_argument("--plot", metavar="FILE", help="draw where the time went (needs matplotlib)")
    return parser.parse_args()


def main() -> int:
    options = arguments()
    comm = qd.comm.init()
    first = comm.rank == 0
    num_qubits = options.qubits or size_that_fits(comm, options.dtype)
    schedules = options.schedules if comm.size > 1 else ["lazy"]
    cases = [Case(circuit, schedule) for circuit in options.circuits for schedule in schedules]
    results = []
    with Progress("circuits", len(cases), shown=first and sys.stderr.isatty()) as bar:
        for case in cases:
            bar.what = f"{case.circuit} ({case.schedule})"
            results.append(measure(case, num_qubits, comm, options))
            bar.advance()
    if not first:
        return 0
    threads = threads_of_a_rank()
    about = {"ranks": comm.size, "nodes": comm.num_nodes, "threads_a_rank": threads, "dtype": options.dtype}
    written = json.dumps({"machine": machine(), **about, "results": results}, indent=1)
    if options.plot:
        plot(results, options.plot)
    if options.json == "-":
        print(written)
        return 0
    print(f"{comm.size} ranks on {comm.num_nodes} nodes, {threads} threads a rank, {options.dtype}; {machine_line()}")
    print(table(HEADER, [row(result, results) for result in results]))
    if options.json:
        Path(options.json).write_text(written + "\n")
    print(words(results, qd.comm.cores()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
