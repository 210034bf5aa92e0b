"""qdist beside its peers on one CPU: the same circuits, the same threads, the same run.

    python benchmarks/compare_cpu.py --check            # do all compute the same states? (small circuits, no timing)
    python benchmarks/compare_cpu.py --quick            # n = 10 and 14, a few minutes
    python benchmarks/compare_cpu.py --save compare_cpu # n = 16, 20, 24: JSON and a plot in benchmarks/results/
    python benchmarks/compare_cpu.py --only qdist aer --circuits hea --qubits 20 --dtypes complex64

Circuits: hea, 8 layers of RY and RZ on every qubit and a CX chain; qft, without final swaps, of the basis state |1>;
qv, 10 layers of random SU(4) on random pairs; latency, the ansatz with 2 layers and new angles in every run, at
n = 4, 8, 12; batch, 256 sets of angles for that ansatz at n = 10.

What is timed: in hea, qft and qv the evolution of |0...0> alone (with putting the state there). Building circuits,
transpiling, planning, binding and fusing are done before, except where a library can only do them on every run
(peers.py says where). In latency and batch a run starts from new angles in an array, and binding is part of it.
No simulator is asked to copy its state out, but qsim has no other way.

Each simulator runs at its best setting: those that it offers are tried on the circuit (at no more than 20 qubits), and
the fastest is measured. Simulators have a process each (simulator_process.py says why) and take turns, qdist among
them; after a run that warms up, the median of their turns counts.

After |0...0> much of the state stays zero for a while and qdist does not compute it; "dense s" is what it takes from a
state without zeros, and "dense ratio" the fastest peer's seconds over that, on the assumption that a peer takes as long
from any state. "% of limit" is what the plan of qdist would take if only the memory bandwidth or the arithmetic of this
machine bounded it, over "dense s", since the plan counts every amplitude; limits.py measures both bounds in the same
run. States that fit in a cache can pass 100% of a bandwidth limit.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import limits
import numpy as np
from common import machine_line, save, table
from peers import SIMULATORS
from simulator import DTYPES, Work, from_qdist
from simulator_process import Failed, SimulatorProcess

import qdist as qd
from qdist.plan.cost import Machine
from qdist.state import reference

EVOLVED = ("hea", "qft", "qv")
CIRCUITS = (*EVOLVED, "latency", "batch")
LATENCY_QUBITS = (4, 8, 12)
BATCH_QUBITS, BATCH = 10, 256
TUNING_QUBITS = 20
# One size that is a single tile of qdist's plans, and one that takes several sweeps.
CHECKED_QUBITS = (5, 14)


class Case(NamedTuple):
    """One row of the table."""

    circuit: str
    num_qubits: int
    dtype: str

    @property
    def mode(self) -> str:
        return {"latency": "bind", "batch": "batch"}.get(self.circuit, "evolve")

    def work(self, num_qubits: int | None = None) -> Work:
        return from_qdist(*circuit_and_angles(self.circuit, num_qubits or self.num_qubits))


def circuit_and_angles(name: str, num_qubits: int) -> tuple[qd.Circuit, np.ndarray]:
    """A circuit of the benchmark and values for its parameters."""
    if name == "qft":
        # One X, so that the phases are not all 1 and a wrong one would show.
        circuit = qd.Circuit(num_qubits).x(0).compose(qd.library.qft(num_qubits, swaps=False))
    elif name == "qv":
        circuit = qd.library.quantum_volume(num_qubits, 10, seed=5)
    else:
        circuit = qd.library.hardware_efficient(num_qubits, 8 if name == "hea" else 2)
    return circuit, np.random.default_rng(7).uniform(-np.pi, np.pi, circuit.num_parameters)


def cases(options: argparse.Namespace) -> Iterator[Case]:
    for name in options.circuits:
        if name in EVOLVED:
            sizes = options.qubits
        else:
            sizes = LATENCY_QUBITS if name == "latency" else (BATCH_QUBITS,)
        for num_qubits in sizes:
            for dtype in options.dtypes:
                yield Case(name, num_qubits, dtype)


class Comparison:
    """The simulators that could be started, and what went wrong with those that could not or later failed."""

    def __init__(self, names: Sequence[str], threads: int, timeout: float, progress: bool) -> None:
        self.threads, self.timeout, self.progress = threads, timeout, progress
        self.running: dict[str, SimulatorProcess] = {}
        self.versions: dict[str, str] = {}
        self.failures: list[str] = []
        for name in names:
            self._start(name)

    def _start(self, name: str) -> None:
        self._say(f"starting {name}")
        try:
            self.running[name] = SimulatorProcess(name, self.threads, self.timeout)
            self.versions[name] = self.running[name].version
        except Failed as error:
            self.running.pop(name, None)
            self._report(f"{name} skipped: {error}")

    def close(self) -> None:
        for process in self.running.values():
            process.close()

    def row(self, case: Case, repeats: int) -> dict[str, Any]:
        """Measures a case with every simulator that has its dtype."""
        work, tune = case.work(), case.work(min(case.num_qubits, TUNING_QUBITS))
        key = (case.circuit, tune.num_qubits, case.dtype)
        count = len({g.parameter for g in work.gates if g.parameter is not None})
        shape = {"evolve": None, "bind": (count,), "batch": (BATCH, count)}[case.mode]
        facts: dict[str, dict[str, Any]] = {}
        turns: dict[str, list[float]] = {}
        for name in [name for name, process in self.running.items() if case.dtype in process.dtypes]:
            self._say(f"{case.circuit} n={case.num_qubits} {case.dtype}: preparing {name}")
            if (found := self._try(name, case, "prepare", key, tune, work, case.dtype, case.mode)) is not None:
                facts[name], turns[name] = found, []
        for turn in range(repeats):
            for name in list(turns):
                self._say(f"{case.circuit} n={case.num_qubits} {case.dtype}: {name}, turn {turn + 1} of {repeats}")
                seconds = self._try(name, case, "seconds", shape)
                if seconds is None:
                    del turns[name]
                else:
                    turns[name].append(seconds)
        dense = self._dense(case, work, repeats) if case.mode == "evolve" and "qdist" in turns else []
        for name in list(turns):
            self._try(name, case, "release")
        return {
            **case._asdict(),
            "seconds": {name: statistics.median(times) for name, times in turns.items()},
            "spread": {name: (min(times), max(times)) for name, times in turns.items()},
            "settings": {name: found["setting"] for name, found in facts.items()},
            "dense_seconds": statistics.median(dense) if dense else None,
            "plan": {k: v for k, v in facts.get("qdist", {}).items() if k != "setting"},
        }

    def _dense(self, case: Case, work: Work, repeats: int) -> list[float]:
        """Seconds of qdist from a state without zeros."""
        if self._try("qdist", case, "prepare", (), work, work, case.dtype, "dense") is None:
            return []
        times = [self._try("qdist", case, "seconds", None) for _ in range(repeats)]
        return [seconds for seconds in times if seconds is not None]

    def check(self, case: Case) -> None:
        """Compares the states of all simulators, at all settings, with the reference."""
        circuit, theta = circuit_and_angles(case.circuit, case.num_qubits)
        work = case.work()
        if case.mode != "evolve":
            theta = theta[::-1].copy()
        expected = reference.state(circuit, theta)
        observable = qd.library.heisenberg_xxz(case.num_qubits)
        energy = reference.expectation(expected, observable)
        for name in [name for name, process in self.running.items() if case.dtype in process.dtypes]:
            given = None if case.mode == "evolve" else theta
            states = self._try(name, case, "states", work, case.dtype, case.mode, given) or {}
            for setting, state in states.items():
                wrong = np.abs(np.abs(state) ** 2 - np.abs(expected) ** 2).max()
                # Some simulators give out no phases; the others are held to the energy, which depends on them.
                if np.iscomplexobj(state):
                    wrong = max(wrong, abs(reference.expectation(state, observable) - energy))
                verdict = "agrees" if wrong < 1e-4 else "DIFFERS"
                print(f"{verdict}  {case.circuit} n={case.num_qubits} {case.dtype} {name} ({setting}): {wrong:.1e}")
                if verdict == "DIFFERS":
                    self.failures.append(f"{name} ({setting}) computes another state of {case.circuit}")

    def _try(self, name: str, case: Case, method: str, *arguments: Any) -> Any:
        """A request's answer, or None after reporting that it failed; a process that died is started again."""
        process = self.running.get(name)
        if process is None:
            return None
        try:
            return getattr(process, method)(*arguments)
        except Failed as error:
            self._report(f"{name} failed on {case.circuit} n={case.num_qubits} {case.dtype} ({method}): {error}")
            if process.ended:
                self._start(name)
            return None

    def _report(self, line: str) -> None:
        self.failures.append(line)
        self._say("")
        print(line, file=sys.stderr)

    def _say(self, text: str) -> None:
        if self.progress:
            print(f"\r\x1b[K{text}", end="", file=sys.stderr, flush=True)


def line(row: dict[str, Any], machine: Machine) -> list[Any]:
    """A row of the table."""
    own = row["seconds"].get("qdist")
    peers = sorted((s, name) for name, s in row["seconds"].items() if name != "qdist")
    cells: list[Any] = [row["circuit"], row["num_qubits"], row["dtype"], "–" if own is None else own]
    cells += [peers[0][1], peers[0][0]] if peers else ["–", "–"]
    cells.append("–" if own is None or not peers else f"{peers[0][0] / own:.2f}x")
    dense = row["dense_seconds"]
    if dense is None:
        cells += ["–"] * 5
    else:
        plan = row["plan"]
        cells += [dense, f"{peers[0][0] / dense:.2f}x" if peers else "–"]
        limit = machine.seconds(plan["bytes"], plan["flops"], np.dtype(row["dtype"]))
        row["limit_seconds"] = limit
        cells += [f"{100 * limit / dense:.0f}%", plan["sweeps"], f"{plan['flops'] / 2 ** row['num_qubits']:.0f}"]
    return [*cells, ", ".join(f"{name} {seconds:.3g}" for seconds, name in peers[1:])]


HEADER = [
    "circuit", "n", "dtype", "qdist s", "fastest peer", "s", "ratio", "dense s", "dense ratio", "% of limit", "sweeps",
    "flops/amplitude", "other peers, s",
]  # fmt: skip


def plot(rows: Sequence[dict[str, Any]], path: Path) -> None:
    """Bars of all seconds, on a logarithmic scale, one panel a dtype."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    dtypes = [d for d in DTYPES if any(row["dtype"] == d for row in rows)]
    figure, panels = plt.subplots(len(dtypes), 1, figsize=(12, 4.5 * len(dtypes)), squeeze=False)
    names = [name for name in SIMULATORS if any(name in row["seconds"] for row in rows)]
    for panel, dtype in zip(panels[:, 0], dtypes):
        shown = [row for row in rows if row["dtype"] == dtype]
        width = 0.85 / len(names)
        for k, name in enumerate(names):
            places = [(i, row["seconds"][name]) for i, row in enumerate(shown) if name in row["seconds"]]
            if places:
                x, y = zip(*places)
                panel.bar(np.array(x) + (k - (len(names) - 1) / 2) * width, y, width, label=name, color=f"C{k}")
        panel.set_yscale("log")
        panel.set_ylabel("seconds")
        panel.set_title(dtype)
        panel.set_xticks(range(len(shown)), [f"{row['circuit']}\n{row['num_qubits']}" for row in shown])
        panel.grid(axis="y", alpha=0.3)
        panel.legend(ncols=len(names), fontsize=8, loc="lower center", bbox_to_anchor=(0.5, -0.24))
    figure.suptitle(machine_line(), fontsize=9)
    figure.tight_layout()
    figure.savefig(path, dpi=120)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--only",
        nargs="+",
        choices=list(SIMULATORS),
        default=list(SIMULATORS),
        metavar="NAME",
        help=f"simulators to run: {', '.join(SIMULATORS)} (default: all that are installed)",
    )
    parser.add_argument(
        "--circuits",
        nargs="+",
        choices=CIRCUITS,
        default=CIRCUITS,
        metavar="NAME",
        help=f"rows to run: {', '.join(CIRCUITS)} (default: all)",
    )
    parser.add_argument(
        "--qubits", nargs="+", type=int, metavar="N", help="sizes of hea, qft and qv (default 16 20 24)"
    )
    parser.add_argument("--large", action="store_true", help="n = 26 as well")
    parser.add_argument("--quick", action="store_true", help="n = 10 and 14 only")
    parser.add_argument("--dtypes", nargs="+", choices=DTYPES, default=DTYPES, help="(default: both)")
    parser.add_argument("--repeats", type=int, default=3, metavar="R", help="turns of each simulator (default 3)")
    parser.add_argument(
        "--threads", type=int, default=os.cpu_count(), metavar="T", help="of every simulator (all cores)"
    )
    parser.add_argument("--timeout", type=float, default=900.0, metavar="S", help="for one request (default 900 s)")
    parser.add_argument(
        "--check", action="store_true", help="compare states at small n with the reference, time nothing"
    )
    parser.add_argument("--save", metavar="NAME", help="write results/NAME.json and, with matplotlib, results/NAME.png")
    parser.add_argument("--progress", action="store_true", help="show progress even if stderr is not a terminal")
    options = parser.parse_args()
    if options.qubits is None:
        options.qubits = [10, 14] if options.quick else [16, 20, 24]
    if options.large:
        options.qubits.append(26)
    return options


def main() -> int:
    options = arguments()
    progress = options.progress or sys.stderr.isatty()
    comparison = Comparison(options.only, options.threads, options.timeout, progress)
    try:
        print(f"{machine_line()}; {options.threads} threads")
        for name, version in comparison.versions.items():
            print(f"  {name} {version}")
        if options.check:
            for circuit in options.circuits:
                for dtype in options.dtypes:
                    for num_qubits in CHECKED_QUBITS:
                        comparison.check(Case(circuit, num_qubits, dtype))
            return bool(comparison.failures)
        before = limits.measure(options.threads)
        rows = [comparison.row(case, options.repeats) for case in cases(options)]
        # Whatever else the machine did at one time makes its limits look lower, so the better of two counts.
        after = limits.measure(options.threads)
    finally:
        comparison.close()
    print("\r\x1b[K" if progress else "", end="", file=sys.stderr)
    best = {name: max(before[name], after[name]) for name in before}
    machine = Machine(**best)
    print(
        f"limits: copy {machine.bandwidth / 1e9:.1f} GB/s; matrix products, GFLOP/s: "
        f"{machine.flops_single / 1e9:.1f} in float32, {machine.flops_double / 1e9:.1f} in float64"
    )
    print(table(HEADER, [line(row, machine) for row in rows]))
    for failure in comparison.failures:
        print(f"! {failure}")
    if options.save:
        results = {"threads": options.threads, "limits": best, "versions": comparison.versions}
        path = save(options.save, results | {"failures": comparison.failures, "rows": rows})
        print(f"written: {path}")
        try:
            plot(rows, path.with_suffix(".png"))
        except ImportError:
            print("no plot: matplotlib is not installed")
    return 0


if __name__ == "__main__":
    sys.exit(main())
