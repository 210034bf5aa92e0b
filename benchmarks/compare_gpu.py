"""qdist on one GPU: seconds, and the share of the card's bandwidth and arithmetic that they are.

    python benchmarks/compare_gpu.py [--qubits 28 30] [--dtypes complex64 complex128] [--repeats 5] [--save NAME]

Circuits: the families of families.py. The evolution of the state is timed, with CUDA events, the median of the repeats:
`zero` from |0...0>, where what must still be zero is passed over, `dense` from a state without zeros. `gradient` is the
Heisenberg energy with its derivatives by all parameters, in runs from |0...0>.

`bandwidth` and `flops` are those of the dense run, in percent of what this card reaches in a copy, which is timed
first, and of 132 x 128 FMA (64 in double) at the clock the driver names.

cuStateVec gate by gate and cuStateVecEx with its own fusing updater run beside it where cuquantum-python is installed
(custatevec.py). Where it is not, their times are those of version 1.15 on one H200, measured in November 2026 with such
circuits, and say nothing about another card; `source` says which.
"""

from __future__ import annotations

import argparse
import importlib.util
import itertools
import statistics
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import custatevec as peers
import numpy as np
from common import RESULTS, machine_line, save, table
from families import FAMILIES

import qdist as qd
from qdist.backends.cuda import custatevec

# Milliseconds on one H200: {(circuit, qubits, dtype): (gate by gate, cuStateVecEx)}.
CUSTATEVEC = {
    ("ansatz", 30, "complex64"): (3047, 274),
    ("qft", 30, "complex64"): (1425, 158),
    ("volume", 30, "complex64"): (612, 277),
    ("ansatz", 30, "complex128"): (4926, 389),
    ("qft", 30, "complex128"): (2392, 221),
    ("volume", 30, "complex128"): (1224, 383),
    ("ansatz", 28, "complex64"): (None, 62),
    ("qft", 28, "complex64"): (None, 38),
    ("volume", 28, "complex64"): (None, 67),
    ("qaoa", 28, "complex64"): (None, 60.7),
    ("heisenberg", 28, "complex64"): (None, 73.7),
    ("layers", 28, "complex64"): (None, 75.4),
    ("grid", 28, "complex64"): (None, 70.8),
    ("zz_map", 28, "complex64"): (None, 293),
    ("grover", 28, "complex64"): (None, 251),
    # Pauli rotations one by one: no fusing updater takes them.
    ("doubles", 28, "complex64"): (974, None),
    ("ansatz", 26, "complex64"): (None, 16),
    ("qft", 26, "complex64"): (None, 14),
    ("volume", 26, "complex64"): (None, 14),
}

CIRCUITS = {name: circuit for name, circuit in FAMILIES.items() if name != "uccsd"}


def milliseconds(run: Callable[[], Any], repeats: int) -> float:
    """The median of some runs after one that is not counted."""
    import cupy

    times = []
    for _ in range(repeats + 1):
        start, end = cupy.cuda.Event(), cupy.cuda.Event()
        start.record()
        run()
        end.record()
        end.synchronize()
        times.append(cupy.cuda.get_elapsed_time(start, end))
    return statistics.median(times[1:])


def copy_bandwidth(repeats: int) -> float:
    """Bytes a second, read and written, of a copy of 4 GiB."""
    import cupy

    source = cupy.zeros(1 << 32, np.uint8)
    target = cupy.empty_like(source)
    return 2 * source.nbytes / (1e-3 * milliseconds(lambda: cupy.copyto(target, source), repeats))


def peak_flops(dtype: str) -> float:
    import cupy

    card = cupy.cuda.runtime.getDeviceProperties(0)
    clock = cupy.cuda.Device(0).attributes["ClockRate"] * 1e3
    return 2 * (128 if dtype == "complex64" else 64) * card["multiProcessorCount"] * clock


def measure(
    name: str, n: int, dtype: str, repeats: int, gradients: bool, gate_by_gate: bool, bandwidth: float
) -> dict[str, Any]:
    circuit = CIRCUITS[name](n)
    program = qd.compile(circuit, device="cuda", dtype=dtype)
    program.bind(np.linspace(-2, 2, circuit.num_parameters))
    plan = program.plan
    state = qd.StateVector(n, dtype, device="cuda", layout=plan.layout)
    zero = milliseconds(lambda: program.run(out=state), repeats)
    # The state of the last run has no zeros to pass over.
    dense = milliseconds(lambda: program.run(initial=state, out=state), repeats)
    gradient = None
    if gradients and circuit.num_parameters:
        energy, theta = qd.library.heisenberg_xxz(n), np.linspace(-2, 2, circuit.num_parameters)
        gradient = milliseconds(lambda: program.value_and_grad(energy, theta), repeats) / zero
    gates, fused, source = peer_milliseconds(name, n, dtype, repeats, gate_by_gate)
    fastest = min((ms for ms in (gates, fused) if ms is not None), default=None)
    return {
        "circuit": name,
        "n": n,
        "dtype": dtype,
        "sweeps": plan.sweeps,
        "zero ms": zero,
        "dense ms": dense,
        "gradient": gradient,
        "bandwidth %": 100 * plan.bytes_moved / (1e-3 * dense) / bandwidth,
        "flops %": 100 * plan.flops / (1e-3 * dense) / peak_flops(dtype),
        "cuStateVec ms": gates,
        "cuStateVecEx ms": fused,
        "ratio": None if fastest is None else fastest / zero,
        "source": source,
    }


def peer_milliseconds(name: str, n: int, dtype: str, repeats: int, gate_by_gate: bool) -> tuple[Any, Any, str]:
    """(cuStateVec gate by gate, cuStateVecEx, where both come from); None for what is not known."""
    if not custatevec.is_installed():
        return *CUSTATEVEC.get((name, n, dtype), (None, None)), "H200, November 2026"
    circuit = CIRCUITS[name](n)
    bound = circuit.bind(np.linspace(-2, 2, circuit.num_parameters))
    gates = fused = None
    # Gate by gate is the slower one by far, but where no updater takes the gates.
    if gate_by_gate or peers.has_wide_rotations(bound):
        gates = milliseconds(peers.gate_by_gate(bound, dtype), repeats)
    if not peers.has_wide_rotations(bound):
        with peers.fused(bound, dtype) as run:
            fused = milliseconds(run, repeats)
    return gates, fused, "this run"


def plot(rows: Sequence[dict[str, Any]], path: Path, card: str) -> None:
    """How many times faster than cuStateVec each circuit is, one panel for each dtype."""
    from matplotlib.figure import Figure

    dtypes, sizes = (list(dict.fromkeys(row[key] for row in rows)) for key in ("dtype", "n"))
    figure = Figure(figsize=(12, 3.5 * len(dtypes)), layout="constrained")
    for axes, dtype in zip(figure.subplots(len(dtypes), 1, squeeze=False)[:, 0], dtypes):
        own = [row for row in rows if row["dtype"] == dtype and row["ratio"] is not None]
        names = list(dict.fromkeys(row["circuit"] for row in own))
        for k, n in enumerate(sizes):
            shown = [(names.index(row["circuit"]), row["ratio"]) for row in own if row["n"] == n]
            x, y = zip(*shown) if shown else ((), ())
            axes.bar(
                np.array(x) + (k - (len(sizes) - 1) / 2) * 0.8 / len(sizes), y, 0.8 / len(sizes), label=f"{n} qubits"
            )
        axes.axhline(1, color="black", linewidth=0.8)
        axes.set(yscale="log", ylabel="times cuStateVec", title=f"{dtype}, from |0...0>")
        axes.set_xticks(range(len(names)), names, fontsize=8)
        axes.grid(axis="y", alpha=0.3)
        axes.legend(frameon=False)
    figure.suptitle(card, fontsize=9)
    figure.savefig(path, dpi=100)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--qubits", type=int, nargs="+", default=[28, 30])
    parser.add_argument("--dtypes", nargs="+", default=["complex64", "complex128"])
    parser.add_argument("--circuits", nargs="+", choices=CIRCUITS, default=list(CIRCUITS))
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--no-gradients", dest="gradients", action="store_false", help="forward runs alone")
    parser.add_argument(
        "--gate-by-gate", action="store_true", help="time cuStateVec without its updater for every circuit"
    )
    parser.add_argument(
        "--save", nargs="?", const="compare_gpu", metavar="NAME", help="write results/NAME.json and NAME.png"
    )
    chosen = parser.parse_args()
    try:
        import cupy
    except ImportError:
        sys.exit("this measures a GPU, with CuPy: `qdist info` has the line that installs it")

    card = cupy.cuda.runtime.getDeviceProperties(0)["name"].decode()
    bandwidth = copy_bandwidth(chosen.repeats)
    print(f"{card}, copy {bandwidth / 1e12:.2f} TB/s; {machine_line()}; CuPy {cupy.__version__}")
    results = []
    for dtype, n, name in itertools.product(chosen.dtypes, chosen.qubits, chosen.circuits):
        results.append(measure(name, n, dtype, chosen.repeats, chosen.gradients, chosen.gate_by_gate, bandwidth))
        told = {
            key: value
            for key, value in results[-1].items()
            if value is not None and ("ms" in key or key in {"ratio", "gradient"})
        }
        print(
            f"{name} n={n} {dtype}:",
            *(f"{key} {value:.3g}" for key, value in told.items()),
            file=sys.stderr,
            flush=True,
        )
        # As they are measured: a run that is broken off leaves what it has.
        if chosen.save:
            save(chosen.save, {"card": card, "copy_bytes_per_second": bandwidth, "rows": results})
        cupy.get_default_memory_pool().free_all_blocks()
    print(table(list(results[0]), [["-" if v is None else v for v in r.values()] for r in results]))
    if chosen.save:
        path = RESULTS / f"{chosen.save}.png"
        if importlib.util.find_spec("matplotlib") is not None:
            plot(results, path, card)
        print(f"written: results/{chosen.save}.json")


if __name__ == "__main__":
    main()
