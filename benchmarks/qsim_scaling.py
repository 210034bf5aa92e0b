"""Strong and weak scaling of the distributed machine: qsim_bench.py on 1, 2, 4 and 8 ranks of this machine.

    python benchmarks/qsim_scaling.py --save qsim_scaling

Strong: the same circuit on more ranks. Weak: a rank keeps its share of amplitudes, so each doubling adds a qubit. Ranks
share the cores of one machine here, which stand beside the numbers: more ranks than cores cannot be faster, and ranks
within one memory exchange through it what one rank with threads need not exchange at all.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

from common import RESULTS, machine_line, save, table

from qdist.comm import launch

BENCH = Path(__file__).parent / "qsim_bench.py"


def run(ranks: int, num_qubits: int, options: argparse.Namespace) -> list[dict[str, Any]]:
    """The rows of qsim_bench.py on so many ranks."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "bench.json"
        command = [sys.executable, str(BENCH), "--qubits", str(num_qubits), "--schedules", "lazy", "--json", str(file)]
        command += ["--dtype", options.dtype, "--repeats", str(options.repeats), "--circuits", *options.circuits]
        if code := launch.run(command, ranks):
            raise SystemExit(code)
        found = json.loads(file.read_text())
    return [{**result, "threads_a_rank": found["threads_a_rank"]} for result in found["results"]]


def scaling(kind: str, options: argparse.Namespace) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    alone: dict[str, float] = {}
    for ranks in options.ranks:
        far = (ranks - 1).bit_length()
        num_qubits = options.qubits if kind == "strong" else options.close + far
        for result in run(ranks, num_qubits, options):
            alone.setdefault(result["circuit"], result["seconds"])
            speed = alone[result["circuit"]] / result["seconds"]
            rows.append({"kind": kind, **result, "speed": speed})
    return rows


def plot(rows: list[dict[str, Any]], path: Path) -> None:
    """Seconds over ranks, one panel a kind."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, panels = plt.subplots(1, 2, figsize=(10, 4), sharey=True)
    for panel, kind in zip(panels, ("strong", "weak")):
        for circuit in dict.fromkeys(r["circuit"] for r in rows):
            shown = [r for r in rows if r["kind"] == kind and r["circuit"] == circuit]
            panel.plot([r["ranks"] for r in shown], [r["seconds"] for r in shown], "o-", label=circuit)
        panel.set(title=kind, xlabel="ranks", xscale="log", yscale="log")
        ticks = sorted({r["ranks"] for r in rows})
        panel.set_xticks(ticks, [str(t) for t in ticks])
    panels[0].set_ylabel("seconds")
    panels[0].legend()
    figure.suptitle(machine_line(), fontsize=9)
    figure.tight_layout()
    figure.savefig(path, dpi=120)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", type=int, nargs="+", default=[1, 2, 4, 8], metavar="N", help="(default 1 2 4 8)")
    parser.add_argument("--qubits", type=int, default=24, metavar="N", help="of the strong runs (default 24)")
    parser.add_argument("--close", type=int, default=21, metavar="N", help="qubits of one rank in the weak runs (21)")
    parser.add_argument("--circuits", nargs="+", default=["hea", "qft", "qv", "vqe"], metavar="NAME")
    parser.add_argument("--dtype", default="complex64", help="(default complex64)")
    parser.add_argument("--repeats", type=int, default=3, metavar="R")
    parser.add_argument("--save", metavar="NAME", help="write results/NAME.json and, with matplotlib, results/NAME.png")
    options = parser.parse_args()
    rows = [row for kind in ("strong", "weak") for row in scaling(kind, options)]
    header = ["kind", "circuit", "qubits", "ranks", "threads_a_rank", "seconds", "compute", "pack", "network", "speed"]
    print(machine_line())
    print(table(header, [[row[name] for name in header] for row in rows]))
    if options.save:
        print(f"written: {save(options.save, rows)}")
        try:
            plot(rows, RESULTS / f"{options.save}.png")
        except ModuleNotFoundError:
            print("no plot: matplotlib is not installed")
    return 0


if __name__ == "__main__":
    sys.exit(main())
