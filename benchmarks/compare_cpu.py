"""qdist beside its peers on one CPU: the same circuits, the same threads, the same run.

    python benchmarks/compare_cpu.py --check              # do all compute the same? (small circuits, no timing)
    python benchmarks/compare_cpu.py --quick              # n = 10 and 14
    python benchmarks/compare_cpu.py --save compare_cpu   # n = 20 and 24: JSON and a plot in benchmarks/results/
    python benchmarks/compare_cpu.py --peers qsim aer --only ansatz LiH --sizes 20 --dtypes complex64

Rows: the families of families.py; the molecules of molecules.py with their own sizes; latency, an ansatz with 2 layers
and new angles in every run, at n = 4, 8, 12; batch, 256 sets of angles for that ansatz at n = 10.

What is timed: "forward" is the evolution of |0...0> alone (with putting the state there). Building circuits,
transpiling, planning, binding and fusing are done before, except where a library can only do them on every run
(peers.py says where). "once" has planning, binding and fusing in it, as a circuit takes that is run one time. No
simulator is asked to copy its state out, but qsim has no other way. "energy" (molecules) is an expectation value in a
state that is there; "gradient" a value with its derivatives, forward run included: of the Heisenberg chain's energy by
every angle of a family's circuit, of a molecule's energy by the circuit's own parameters. "in forward runs" is that
over qdist's own forward run. In latency and batch a run starts from new angles in an array, and binding is part of it.

Each simulator runs at its best setting: those that it offers are tried on the circuit (at no more than 18 qubits), and
the fastest is measured. Simulators have a process each (simulator_process.py says why) and take turns, qdist among
them; after a run that warms up, the median of their turns counts, of which those over 5 s have one. Where the same run
has measured the same at fewer qubits, a peer is left out that took over 3 times the fastest peer's time there, or that
would take longer than --patience.

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
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import limits
import molecules
import numpy as np
from common import machine_line, save, table
from families import FAMILIES
from gate_lists import Work, from_qdist
from peers import SIMULATORS
from simulator import DTYPES
from simulator_process import Failed, SimulatorProcess

import qdist as qd
from qdist.plan.cost import Machine
from qdist.state import reference

EVOLVED = [name for name in FAMILIES if name != "uccsd"]
ROWS = [*EVOLVED, *molecules.MOLECULES, "latency", "batch"]
NOT_TRAINED = ("volume", "volume_cx", "grover", "clifford_t")
"""Their gates are matrices, phases of 180 degrees, or have no angles."""
MODES = {"forward": "evolve", "once": "once", "energy": "energy", "gradient": "gradient"}
LATENCY_QUBITS = (4, 8, 12)
BATCH_QUBITS, BATCH = 10, 256
TUNING_QUBITS = 18
# Turns that take longer are not repeated.
LONG_TURN = 5.0
# A peer that was slower than the fastest one by this factor at fewer qubits is not going to be the fastest.
FAR_BEHIND = 3.0
# One size that is a single tile of qdist's plans, and one that takes several sweeps.
CHECKED_QUBITS = (6, 14)


class Case(NamedTuple):
    """One row of the table."""

    circuit: str
    num_qubits: int
    dtype: str
    what: str = "forward"

    @property
    def mode(self) -> str:
        return {"latency": "bind", "batch": "batch"}.get(self.circuit, MODES[self.what])

    @property
    def name(self) -> str:
        return f"{self.circuit} n={self.num_qubits} {self.dtype} {self.what}"

    def work(self, num_qubits: int | None = None) -> Work:
        n = num_qubits or self.num_qubits
        circuit, theta = circuit_and_angles(self.circuit, n)
        if self.circuit in molecules.MOLECULES:
            return from_qdist(circuit, theta, molecules.hamiltonian(self.circuit))
        return from_qdist(circuit, theta, qd.library.heisenberg_xxz(n), each_angle=self.what == "gradient")


def circuit_and_angles(name: str, num_qubits: int) -> tuple[qd.Circuit, np.ndarray]:
    """A circuit of the benchmark and values for its parameters."""
    if name in FAMILIES:
        circuit = FAMILIES[name](num_qubits)
    elif name in molecules.MOLECULES:
        circuit = molecules.ansatz(name)
    else:
        circuit = qd.library.hardware_efficient(num_qubits, 2)
    return circuit, np.random.default_rng(7).uniform(-np.pi, np.pi, circuit.num_parameters)


def cases(options: argparse.Namespace) -> Iterator[Case]:
    for name in options.only:
        whats = ["forward"]
        if name in EVOLVED:
            sizes: Sequence[int] = sorted(options.sizes)
            whats += ["once"] + ([] if name in NOT_TRAINED else ["gradient"])
        elif name in molecules.MOLECULES:
            sizes, whats = (2 * len(molecules.MOLECULES[name]),), list(MODES)
        else:
            sizes = LATENCY_QUBITS if name == "latency" else (BATCH_QUBITS,)
        for what in whats:
            for dtype in options.dtypes:
                for num_qubits in sizes:
                    if what in options.what:
                        yield Case(name, num_qubits, dtype, what)


class Comparison:
    """The simulators that could be started, and what went wrong with those that could not or later failed."""

    def __init__(self, names: Sequence[str], options: argparse.Namespace, progress: bool) -> None:
        self.threads, self.timeout, self.progress = options.threads, options.timeout, progress
        self.patience = options.patience
        self.measured: dict[Case, dict[str, float]] = {}
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
        """Measures a case with every simulator that has its dtype and mode."""
        work = case.work()
        tune = work if case.circuit in molecules.MOLECULES else case.work(min(case.num_qubits, TUNING_QUBITS))
        key = (case.circuit, tune.num_qubits, case.dtype, case.mode)
        shape = {"bind": (work.num_parameters,), "batch": (BATCH, work.num_parameters)}.get(case.mode)
        facts: dict[str, dict[str, Any]] = {}
        turns: dict[str, list[float]] = {}
        for name in self._taking_part(case):
            self._say(f"{case.name}: preparing {name}")
            if (found := self._try(name, case, "prepare", key, tune, work, case.dtype, case.mode)) is not None:
                facts[name], turns[name] = found, []
        for turn in range(repeats):
            for name in list(turns):
                if turns[name] and turns[name][0] > LONG_TURN:
                    continue
                self._say(f"{case.name}: {name}, turn {turn + 1} of {repeats}")
                seconds = self._try(name, case, "seconds", shape)
                if seconds is None:
                    del turns[name]
                else:
                    turns[name].append(seconds)
        dense = self._dense(case, work, repeats) if case.mode == "evolve" and "qdist" in turns else []
        for name in list(turns):
            self._try(name, case, "release")
        self.measured[case] = {name: statistics.median(times) for name, times in turns.items()}
        return {
            **case._asdict(),
            "seconds": self.measured[case],
            "spread": {name: (min(times), max(times)) for name, times in turns.items()},
            "settings": {name: found["setting"] for name, found in facts.items()},
            "dense_seconds": statistics.median(dense) if dense else None,
            "forward_seconds": self.measured.get(case._replace(what="forward"), {}).get("qdist"),
            "parameters": work.num_parameters if case.what == "gradient" else None,
            "plan": {k: v for k, v in facts.get("qdist", {}).items() if k != "setting"},
        }

    def _able(self, case: Case) -> list[str]:
        """Simulators that have the case's dtype and mode."""
        return [n for n, process in self.running.items() if case.dtype in process.dtypes and case.mode in process.modes]

    def _taking_part(self, case: Case) -> list[str]:
        """Simulators that can, less the peers that fewer qubits have shown to be too slow."""
        names = self._able(case)
        smaller = [c for c in self.measured if c._replace(num_qubits=0) == case._replace(num_qubits=0)]
        if not smaller:
            return names
        last = max(smaller, key=lambda c: c.num_qubits)
        seconds = {name: s for name, s in self.measured[last].items() if name != "qdist"}
        longest = min(
            FAR_BEHIND * min(seconds.values(), default=0.0), self.patience / 2.0 ** (case.num_qubits - last.num_qubits)
        )
        return [name for name in names if name == "qdist" or seconds.get(name, np.inf) <= longest]

    def _dense(self, case: Case, work: Work, repeats: int) -> list[float]:
        """Seconds of qdist from a state without zeros."""
        if self._try("qdist", case, "prepare", (), work, work, case.dtype, "dense") is None:
            return []
        times = [self._try("qdist", case, "seconds", None) for _ in range(repeats)]
        return [seconds for seconds in times if seconds is not None]

    def check(self, case: Case) -> None:
        """Compares the states of all simulators, at all settings, with the reference, and gradients with qdist's."""
        circuit, theta = circuit_and_angles(case.circuit, case.num_qubits)
        work = case.work()
        names = self._able(case)
        if case.what == "gradient":
            own = self._try("qdist", case, "derivatives", work, case.dtype)
            for name in names if own is not None else ():
                found = self._try(name, case, "derivatives", work, case.dtype)
                if found is not None:
                    # In complex64 sums over many amplitudes are as wrong as single precision makes them.
                    self._judge(case, name, "gradient", float(np.abs(found - own).max() / (1 + np.abs(own).max())))
            return
        bound = case.mode in ("evolve", "once")
        if not bound:
            theta = theta[::-1].copy()
        expected = reference.state(circuit, theta)
        observable = qd.library.heisenberg_xxz(case.num_qubits)
        energy = reference.expectation(expected, observable)
        for name in names:
            given = None if bound else theta
            states = self._try(name, case, "states", work, case.dtype, case.mode, given) or {}
            for setting, state in states.items():
                wrong = np.abs(np.abs(state) ** 2 - np.abs(expected) ** 2).max()
                # Some simulators give out no phases; the others are held to the energy, which depends on them.
                if np.iscomplexobj(state):
                    wrong = max(wrong, abs(reference.expectation(state, observable) - energy))
                self._judge(case, name, setting, float(wrong))

    def _judge(self, case: Case, name: str, setting: str, wrong: float) -> None:
        verdict = "agrees" if wrong < {"complex64": 5e-4, "complex128": 1e-8}[case.dtype] else "DIFFERS"
        print(f"{verdict}  {case.name} {name} ({setting}): {wrong:.1e}", flush=True)
        if verdict == "DIFFERS":
            self.failures.append(f"{name} ({setting}) computes something else: {case.name}")

    def _try(self, name: str, case: Case, method: str, *arguments: Any) -> Any:
        """A request's answer, or None after reporting that it failed; a process that died is started again."""
        process = self.running.get(name)
        if process is None:
            return None
        try:
            return getattr(process, method)(*arguments)
        except Failed as error:
            self._report(f"{name} failed on {case.name} ({method}): {error}")
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
    cells: list[Any] = [row["circuit"], row["num_qubits"], row["dtype"], row["what"], "–" if own is None else own]
    cells += [peers[0][1], peers[0][0]] if peers else ["–", "–"]
    cells.append("–" if own is None or not peers else f"{peers[0][0] / own:.2f}x")
    forward = row["forward_seconds"] if row["what"] == "gradient" else None
    cells.append("–" if own is None or forward is None else f"{own / forward:.2f}")
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
    "circuit", "n", "dtype", "what", "qdist s", "fastest peer", "s", "ratio", "in forward runs", "dense s",
    "dense ratio", "% of limit", "sweeps", "flops/amplitude", "other peers, s",
]  # fmt: skip


def plot(rows: Sequence[dict[str, Any]], path: Path, measured_on: dict[str, Any] | None = None) -> None:
    """Bars of all seconds, on a logarithmic scale, one panel for each dtype and kind of work. measured_on: what their
    file says of the machine; this one by default."""
    from matplotlib.figure import Figure
    from matplotlib.patches import Patch

    panels = [
        (dtype, what, shown)
        for what in MODES
        for dtype in DTYPES
        if (shown := [row for row in rows if (row["dtype"], row["what"]) == (dtype, what)])
    ]
    names = [name for name in SIMULATORS if any(name in row["seconds"] for row in rows)]
    figure = Figure(figsize=(16, 4.5 * len(panels)), layout="constrained")
    for axes, (dtype, what, shown) in zip(figure.subplots(len(panels), 1, squeeze=False)[:, 0], panels):
        width = 0.85 / len(names)
        for k, name in enumerate(names):
            places = [(i, row["seconds"][name]) for i, row in enumerate(shown) if name in row["seconds"]]
            x, y = zip(*places) if places else ((), ())
            axes.bar(np.array(x) + (k - (len(names) - 1) / 2) * width, y, width, color=f"C{k}")
        axes.set(yscale="log", ylabel="seconds", title=f"{what}, {dtype}")
        labels = [f"{row['circuit']} {row['num_qubits']}" for row in shown]
        axes.set_xticks(range(len(shown)), labels, fontsize=8, rotation=90 if len(shown) > 12 else 0)
        axes.grid(axis="y", alpha=0.3)
    # Of all simulators, also of those that have no bar in a panel.
    handles = [Patch(color=f"C{k}", label=name) for k, name in enumerate(names)]
    figure.legend(handles=handles, loc="outside lower center", ncols=len(names), frameon=False)
    figure.suptitle(machine_line(measured_on), fontsize=9)
    figure.savefig(path, dpi=100)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--only",
        nargs="+",
        choices=ROWS,
        default=ROWS,
        metavar="NAME",
        help=f"rows to run: {', '.join(ROWS)} (default: all)",
    )
    parser.add_argument("--sizes", nargs="+", type=int, metavar="N", help="qubits of the families (default 20 24)")
    peers = [name for name in SIMULATORS if name != "qdist"]
    parser.add_argument(
        "--peers",
        nargs="*",
        choices=peers,
        default=peers,
        metavar="NAME",
        help=f"simulators beside qdist: {', '.join(peers)} (default: all that are installed)",
    )
    parser.add_argument("--what", nargs="+", choices=list(MODES), default=list(MODES), help="(default: all)")
    parser.add_argument("--quick", action="store_true", help="n = 10 and 14 only")
    parser.add_argument("--dtypes", nargs="+", choices=DTYPES, default=DTYPES, help="(default: both)")
    parser.add_argument("--repeats", type=int, default=3, metavar="R", help="turns of each simulator (default 3)")
    parser.add_argument(
        "--threads", type=int, default=len(os.sched_getaffinity(0)), metavar="T", help="of every simulator (all cores)"
    )
    parser.add_argument(
        "--patience", type=float, default=30.0, metavar="S", help="longest run of a peer (default 30 s)"
    )
    parser.add_argument("--timeout", type=float, default=900.0, metavar="S", help="for one request (default 900 s)")
    parser.add_argument("--check", action="store_true", help="compare states and gradients at small n, time nothing")
    parser.add_argument("--save", metavar="NAME", help="write results/NAME.json and, with matplotlib, results/NAME.png")
    parser.add_argument("--progress", action="store_true", help="show progress even if stderr is not a terminal")
    options = parser.parse_args()
    if options.sizes is None:
        options.sizes = CHECKED_QUBITS if options.check else [10, 14] if options.quick else [20, 24]
    return options


def said(row: dict[str, Any]) -> str:
    """A row as it is told as soon as it has been measured."""
    times = ", ".join(f"{name} {1e3 * seconds:.4g} ms" for name, seconds in row["seconds"].items())
    return f"{row['circuit']} n={row['num_qubits']} {row['dtype']} {row['what']}: {times}"


def written(
    comparison: Comparison, rows: Sequence[dict[str, Any]], bounds: dict[str, float], options: argparse.Namespace
) -> Path:
    """Writes what has been measured so far: a run that is broken off keeps its rows."""
    facts = {"threads": options.threads, "limits": bounds, "versions": comparison.versions}
    return save(options.save, facts | {"failures": comparison.failures, "rows": list(rows)})


def main() -> int:
    options = arguments()
    started = time.monotonic()
    progress = options.progress or sys.stderr.isatty()
    comparison = Comparison(["qdist", *options.peers], options, progress)
    try:
        print(f"{machine_line()}; {options.threads} threads; molecules' integrals: {molecules.source()}")
        for name, version in comparison.versions.items():
            print(f"  {name} {version}")
        if options.check:
            for case in cases(options):
                if case.circuit not in molecules.MOLECULES and case.what != "energy":
                    comparison.check(case)
            return bool(comparison.failures)
        before = limits.measure(options.threads)
        rows: list[dict[str, Any]] = []
        for case in cases(options):
            rows.append(comparison.row(case, options.repeats))
            print(said(rows[-1]), flush=True)
            if options.save:
                written(comparison, rows, before, options)
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
    print(f"took {(time.monotonic() - started) / 60:.0f} minutes")
    if options.save:
        path = written(comparison, rows, best, options)
        print(f"written: {path}")
        try:
            plot(rows, path.with_suffix(".png"))
        except ImportError:
            print("no plot: matplotlib is not installed")
    return 0


if __name__ == "__main__":
    sys.exit(main())
