"""Exchanges, bytes and seconds of three schedules on the circuits of VQE: in-order, the paper's tiles, and lazy.

    python papers/lazy_qubit_reordering/measure.py                     # counts alone: no amplitude is touched
    python papers/lazy_qubit_reordering/measure.py --run 8 --save      # and seconds on 8 ranks of this machine

Counts are of plans for --qubits on --ranks, as many as the paper has GPUs. State update: the ansatz (and QFT and
quantum volume, which mix qubits in other ways). Expectation: the strings of a Hamiltonian that flip qubits; in order,
each that flips a far one swaps it in and back; covered, those that a layout permits are done together.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).parent
BENCHMARKS = HERE.parents[1] / "benchmarks"
sys.path.insert(0, str(BENCHMARKS))
from common import machine, machine_line, table  # noqa: E402
from qsim_bench import circuit_of  # noqa: E402

import qdist as qd  # noqa: E402
from qdist.comm import launch  # noqa: E402
from qdist.plan.layout import Layout  # noqa: E402
from qdist.plan.observables.cover import cover  # noqa: E402
from qdist.plan.planner import make_plan  # noqa: E402

SCHEDULES = ("in-order", "paper", "lazy")


def state_updates(num_qubits: int, ranks: int) -> list[dict[str, Any]]:
    """Exchanges and bytes of the plans."""
    rows = []
    far = (ranks - 1).bit_length()
    for name in ("hea", "qft", "qv"):
        for schedule in SCHEDULES:
            plan = make_plan(circuit_of(name, num_qubits), np.dtype("complex64"), None, far, schedule=schedule)
            row = {"circuit": name, "schedule": schedule, "exchanges": plan.exchanges, "GB sent": plan.bytes_sent / 1e9}
            rows.append(row)
    return rows


def expectations(num_qubits: int, ranks: int) -> list[dict[str, Any]]:
    """Exchanges that the strings of a Hamiltonian need, one after the other and covered by few layouts."""
    far = (ranks - 1).bit_length()
    sums = {
        f"Heisenberg chain, {num_qubits} qubits": (qd.library.heisenberg_xxz(num_qubits), num_qubits),
        "LiH, 12 qubits": (qd.library.lih().hamiltonian(), 12),
    }
    rows = []
    for name, (hamiltonian, size) in sums.items():
        close = size - far
        flips = [string.x for string, _ in hamiltonian]
        served = [mask for mask in flips if mask.bit_count() <= close]
        in_order = 2 * sum(bool(mask >> close) for mask in served)
        legs = cover(sorted(set(served)), Layout.identity(size), close)
        row = {"Hamiltonian": name, "strings": len(hamiltonian), "in order": in_order, "covered": len(legs) - 1}
        rows.append({**row, "too wide": len(flips) - len(served)})
    return rows


def run_here(ranks: int, num_qubits: int, repeats: int) -> list[dict[str, Any]]:
    """The rows of benchmarks/qsim_bench.py on ranks of this machine."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "bench.json"
        command = [sys.executable, str(BENCHMARKS / "qsim_bench.py"), "--json", str(file), "--repeats", str(repeats)]
        if code := launch.run([*command, "--qubits", str(num_qubits), "--circuits", "hea", "qft", "qv", "vqe"], ranks):
            raise SystemExit(code)
        return json.loads(file.read_text())["results"]


def plot(results: dict[str, Any], path: Path) -> None:
    """Exchanges of the plans and, where they ran, seconds: bars, one colour a schedule."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    shown = [("exchanges", results["plans"])]
    if results["runs"]:
        shown.append(("seconds", results["runs"]))
    figure, panels = plt.subplots(1, len(shown), figsize=(5 * len(shown), 4), squeeze=False)
    for panel, (what, rows) in zip(panels[0], shown):
        circuits = list(dict.fromkeys(row["circuit"] for row in rows))
        for k, schedule in enumerate(SCHEDULES):
            heights = {row["circuit"]: row[what] for row in rows if row["schedule"] == schedule}
            panel.bar(np.arange(len(circuits)) + (k - 1) * 0.27, [heights[c] for c in circuits], 0.25, label=schedule)
        panel.set(yscale="log", ylabel=what)
        panel.set_xticks(range(len(circuits)), circuits)
        panel.legend()
    figure.suptitle(machine_line(), fontsize=8)
    figure.tight_layout()
    figure.savefig(path, dpi=120)


def show(rows: list[dict[str, Any]]) -> None:
    print(table(list(rows[0]), [list(row.values()) for row in rows]), end="\n\n")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--qubits", type=int, default=34, metavar="N", help="of the plans that are counted (34)")
    parser.add_argument("--ranks", type=int, default=32, metavar="N", help="of the plans that are counted (32)")
    parser.add_argument("--run", type=int, metavar="N", help="also run on so many ranks of this machine")
    parser.add_argument("--run-qubits", type=int, default=22, metavar="N", help="how many qubits to run (22)")
    parser.add_argument("--repeats", type=int, default=3, metavar="R", help="runs of which the median counts (3)")
    parser.add_argument("--save", action="store_true", help="write results.json and results.png beside this file")
    options = parser.parse_args()
    print(f"Plans of {options.qubits} qubits on {options.ranks} ranks, complex64; bytes are those of one rank")
    plans = state_updates(options.qubits, options.ranks)
    show(plans)
    covers = expectations(options.qubits, options.ranks)
    show(covers)
    runs: list[dict[str, Any]] = []
    if options.run:
        runs = run_here(options.run, options.run_qubits, options.repeats)
        print(f"{options.run_qubits} qubits on {options.run} ranks of {machine_line()}")
        kept = ("circuit", "schedule", "exchanges", "bytes_sent", "seconds", "compute", "pack", "network")
        show([{name: row[name] for name in kept} for row in runs])
    if options.save:
        counted = {"qubits": options.qubits, "ranks": options.ranks}
        results = {"machine": machine(), "counted": counted, "plans": plans, "expectations": covers, "runs": runs}
        (HERE / "results.json").write_text(json.dumps(results, indent=1) + "\n")
        plot(results, HERE / "results.png")
    return 0


if __name__ == "__main__":
    sys.exit(main())
