"""Energy gradients over all parameters of the 8-layer ansatz, beside peers: seconds, gradient/forward, peak memory.

    python benchmarks/gradient_bench.py                       # n = 12, 16, 20
    python benchmarks/gradient_bench.py --large --save        # n = 24 too; JSON and a plot in benchmarks/results/
    python benchmarks/gradient_bench.py --only qdist --qubits 20 --layers 1 2 4 8 16
    python benchmarks/gradient_bench.py --device cuda --qubits 28 --only qdist --repeats 2 --turns 1

gradient_peers.py says what a library is asked for, and runs each in a process of its own, with the threads set, so
that neither their thread pools nor their memory meet. They take turns; the median over all turns counts. Gradients must
agree with qdist's, or the run ends.

"gradient s" is the energy with all its derivatives from new angles, "ratio" that over a forward run from |0...0> to a
state, "energy ratio" over the energy alone, each with new angles; for qdist, whose runs pass over what is still zero,
"dense ratio" is over a forward run from a state without zeros. "states" is the memory at the peak of the gradient in
units of one state vector, beyond what the library took before. Qulacs gives no energy with its gradient and has no
complex64.

With --device cuda qdist runs on a GPU as well (qdist-cuda), beside the CPU and the peers of --only; its memory is the
card's.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
from common import RESULTS, machine_line, save, table
from gradient_peers import LIBRARIES

from qdist.comm import cuda_devices

TOLERANCE = {"complex64": 2e-4, "complex128": 1e-9}


def turn(name: str, num_qubits: int, layers: int, dtype: str, options: argparse.Namespace) -> dict[str, Any] | None:
    """What one process of a library found; None, and a line on stderr, where it failed."""
    count = str(options.threads)
    command = [sys.executable, str(Path(__file__).parent / "gradient_peers.py"), name]
    done = subprocess.run(
        [*command, str(num_qubits), str(layers), dtype, count, str(options.repeats)],
        env=os.environ | {"OMP_NUM_THREADS": count, "OMP_PROC_BIND": "false", "OPENBLAS_NUM_THREADS": count},
        capture_output=True,
        text=True,
        timeout=options.timeout,
    )
    if done.returncode:
        reason = done.stderr.strip().splitlines()[-1:] or [f"code {done.returncode}"]
        print(f"{name} failed at {num_qubits} qubits in {dtype}: {reason[0]}", file=sys.stderr)
        return None
    return json.loads(done.stdout.splitlines()[-1])


def case(num_qubits: int, layers: int, dtype: str, options: argparse.Namespace) -> list[dict[str, Any]]:
    """A row for each library that could be measured, qdist first."""
    names = [name for name in options.only if dtype in LIBRARIES[name].dtypes]
    turns: dict[str, list[dict[str, Any]]] = {name: [] for name in names}
    for _ in range(options.turns):
        for name in names:
            found = turn(name, num_qubits, layers, dtype, options)
            if found is not None:
                turns[name].append(found)
    rows = []
    for name, found in turns.items():
        if not found:
            continue
        gradient, forward, energy = (
            statistics.median(s for t in found for s in t[f"{key}_seconds"])
            for key in ("gradient", "forward", "energy")
        )
        dense = [s for t in found for s in t.get("dense_seconds", ())]
        rows.append(
            {
                "qubits": num_qubits,
                "layers": layers,
                "parameters": len(found[0]["gradient"]),
                "dtype": dtype,
                "library": f"{name} {found[0]['version']}",
                "gradient_seconds": gradient,
                "forward_seconds": forward,
                "energy_seconds": energy,
                "ratio": gradient / forward,
                "energy_ratio": gradient / energy,
                "dense_ratio": gradient / statistics.median(dense) if dense else None,
                "peak_states": max(t["peak_bytes"] for t in found) / (np.dtype(dtype).itemsize << num_qubits),
                "gradient": found[0]["gradient"],
            }
        )
    return rows


def check(rows: list[dict[str, Any]]) -> None:
    """Ends the run where two libraries disagree."""
    for row in rows[1:]:
        difference = np.max(np.abs(np.subtract(row["gradient"], rows[0]["gradient"])))
        if difference > TOLERANCE[row["dtype"]]:
            sys.exit(f"the gradients of {row['library']} and {rows[0]['library']} differ by {difference:.3g}")


def plot(rows: list[dict[str, Any]], path: Path) -> None:
    from matplotlib.figure import Figure

    dtypes = sorted({row["dtype"] for row in rows})
    figure = Figure(figsize=(5 * len(dtypes), 4), layout="constrained")
    for axes, dtype in zip(np.atleast_1d(figure.subplots(1, len(dtypes), sharey=True)), dtypes):
        own = [row for row in rows if row["dtype"] == dtype]
        for library in dict.fromkeys(row["library"] for row in own):
            points = [(row["qubits"], row["gradient_seconds"]) for row in own if row["library"] == library]
            axes.semilogy(*zip(*points), marker="o", label=library)
        axes.set(title=dtype, xlabel="qubits", xticks=sorted({row["qubits"] for row in own}))
        axes.grid(alpha=0.3)
        axes.legend()
    figure.axes[0].set_ylabel("seconds for the energy and all derivatives")
    figure.savefig(path, dpi=150)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--qubits", type=int, nargs="+", default=[12, 16, 20])
    parser.add_argument("--large", action="store_true", help="24 qubits too")
    parser.add_argument("--layers", type=int, nargs="+", default=[8])
    parser.add_argument("--dtypes", nargs="+", default=["complex64", "complex128"], choices=["complex64", "complex128"])
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu", help="cuda: qdist on a GPU too")
    on_cpu = [name for name in LIBRARIES if name != "qdist-cuda"]
    parser.add_argument("--only", nargs="*", default=on_cpu, choices=on_cpu, help="qdist comes first")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--repeats", type=int, default=3, help="gradients in a turn")
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--timeout", type=float, default=1800)
    parser.add_argument("--save", nargs="?", const="gradient_bench", help="write results/NAME.json and NAME.png")
    options = parser.parse_args()
    if options.device == "cuda":
        if not cuda_devices():
            parser.error("there is no GPU, or no CuPy: `qdist info` says what is missing")
        options.only.insert(0, "qdist-cuda")
    print(f"{machine_line()}; {options.threads} threads", flush=True)
    ratios = ["ratio", "energy ratio", "dense ratio"]
    header = ["qubits", "parameters", "dtype", "library", "gradient s", *ratios, "states", "speed-up"]
    rows: list[dict[str, Any]] = []
    for num_qubits in options.qubits + ([24] if options.large else []):
        for layers in options.layers:
            for dtype in options.dtypes:
                found = case(num_qubits, layers, dtype, options)
                if not found:
                    continue
                check(found)
                peers = [row["gradient_seconds"] for row in found if not row["library"].startswith("qdist")]
                for row in found:
                    row["speed_up"] = min(peers) / row["gradient_seconds"] if peers else None
                    del row["gradient"]
                rows += found
                print(f"{num_qubits} qubits, {layers} layers, {dtype}: done", file=sys.stderr)
    print(table(header, [_cells(row) for row in rows]))
    if options.save:
        card = {"card": _card()} if options.device == "cuda" else {}
        print(save(options.save, {"threads": options.threads, **card, "rows": rows}))
        plot(rows, RESULTS / f"{options.save}.png")


def _card() -> str:
    import cupy

    return cupy.cuda.runtime.getDeviceProperties(0)["name"].decode()


def _cells(row: dict[str, Any]) -> list[Any]:
    keys = (
        "qubits",
        "parameters",
        "dtype",
        "library",
        "gradient_seconds",
        "ratio",
        "energy_ratio",
        "dense_ratio",
        "peak_states",
        "speed_up",
    )
    return ["" if row[key] is None else row[key] for key in keys]


if __name__ == "__main__":
    main()
