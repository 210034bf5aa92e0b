"""Does a gradient cost more with more parameters? Layers of the benchmark's ansatz, and a Heisenberg chain.

    python papers/adjoint/measure.py [--qubits 18] [--layers 1 2 4 8 16 32] [--repeats 5] [--save]

Seconds are those of the processor, on one thread, so that other work on the machine counts little; the least of the
repeats counts. A ratio is the gradient over a run from |0...0>; over such a run and the energy, which is what is
differentiated; and over a run from a state without zeros. "shift" is what parameter shifts would take: two runs and two
energies a parameter. "states" is the memory that a gradient takes at its peak, in units of one state vector.
"""

from __future__ import annotations

import argparse
import sys
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import numpy as np

import qdist as qd
from qdist.native import kernels

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))
from common import machine_line, save, table


def seconds(call: Callable[[], object], repeats: int) -> float:
    best = float("inf")
    for _ in range(repeats):
        start = time.process_time()
        call()
        best = min(best, time.process_time() - start)
    return best


def row(num_qubits: int, layers: int, dtype: str, repeats: int) -> dict[str, object]:
    circuit = qd.library.hardware_efficient(num_qubits, layers)
    theta = np.random.default_rng(7).uniform(-np.pi, np.pi, circuit.num_parameters)
    program, observable = qd.compile(circuit, dtype=dtype), qd.library.heisenberg_xxz(num_qubits)
    state = program.run(theta)
    forward = seconds(lambda: program.run(theta), repeats)
    dense = seconds(lambda: program.run(theta, initial=state, out=state), repeats)
    energy = seconds(lambda: state.expectation(observable), repeats)
    gradient = seconds(lambda: program.value_and_grad(observable, theta), repeats)
    # Programs keep small states for their next gradient: what one takes shows at the first.
    fresh = qd.compile(circuit, dtype=dtype)
    fresh.expectation(observable, theta)
    tracemalloc.start()
    fresh.value_and_grad(observable, theta)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return {
        "dtype": dtype,
        "parameters": circuit.num_parameters,
        "forward s": forward,
        "gradient s": gradient,
        "ratio": gradient / forward,
        "energy ratio": gradient / (forward + energy),
        "dense ratio": gradient / dense,
        "shift s": 2 * circuit.num_parameters * (forward + energy),
        "states": peak / state.local.nbytes,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--qubits", type=int, default=18)
    parser.add_argument("--layers", type=int, nargs="+", default=[1, 2, 4, 8, 16, 32])
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--save", action="store_true", help="write benchmarks/results/adjoint_paper.json")
    options = parser.parse_args()
    kernels.set_threads(1)
    print(f"{machine_line()}; 1 thread, {options.qubits} qubits")
    rows = [
        row(options.qubits, layers, dtype, options.repeats)
        for dtype in ("complex64", "complex128")
        for layers in options.layers
    ]
    print(table(list(rows[0]), [list(r.values()) for r in rows]))
    if options.save:
        print(save("adjoint_paper", {"qubits": options.qubits, "rows": rows}))


if __name__ == "__main__":
    main()
