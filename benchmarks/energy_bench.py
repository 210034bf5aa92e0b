"""Energies in a given state, products H|psi>, and both at once: Heisenberg chains, and Hamiltonians like molecules'.

    python benchmarks/energy_bench.py [--qubits 20 24] [--molecules LiH H2O N2] [--repeats 5] [--threads 2] [--save]

A pass reads the whole state once. Beside the seconds stands the share of them that the passes would take at the speed
of a plain copy, measured in the same run with the same threads; the rest is arithmetic. The time does not depend on
the state, so a random product state stands for the ansatz's.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from common import machine_line, save, table
from molecules import MOLECULES, hamiltonian

from qdist.circuit import PauliSum
from qdist.native import kernels
from qdist.state import StateVector
from qdist.state.measuring.expectation import apply_and_expect, lowered


def median_seconds(run: Callable[[], object], repeats: int) -> float:
    run()
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def copy_bandwidth(threads: int, repeats: int) -> float:
    """Bytes a second, read and written, of copies of 256 MiB."""
    source, target = np.ones(1 << 25), np.ones(1 << 25)
    parts = [slice(k * len(source) // threads, (k + 1) * len(source) // threads) for k in range(threads)]
    with ThreadPoolExecutor(threads) as pool:
        seconds = median_seconds(lambda: list(pool.map(lambda p: np.copyto(target[p], source[p]), parts)), repeats)
    return 2 * source.nbytes / seconds


def heisenberg(num_qubits: int) -> PauliSum:
    return PauliSum({f"{p}{q} {p}{q + 1}": 1.0 for q in range(num_qubits - 1) for p in "XYZ"})


def times(sv: StateVector, observable: PauliSum, repeats: int) -> tuple[float, float, float]:
    """Seconds of an expectation value, of a product, and of both in the same passes."""
    out = sv.copy()
    energy = median_seconds(lambda: sv.expectation(observable), repeats)
    product = median_seconds(lambda: sv.apply_pauli_sum(observable, out=out), repeats)
    return energy, product, median_seconds(lambda: apply_and_expect(sv, [observable], [1.0], out), repeats)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--qubits", type=int, nargs="+", default=[20, 24])
    parser.add_argument("--molecules", nargs="*", choices=MOLECULES, default=list(MOLECULES))
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--threads", type=int, default=kernels.max_threads())
    parser.add_argument("--save", action="store_true", help="write results/energy.json")
    arguments = parser.parse_args()
    kernels.set_threads(arguments.threads)
    bandwidth = copy_bandwidth(arguments.threads, arguments.repeats)
    print(f"{machine_line()}; {arguments.threads} threads, copy {bandwidth / 1e9:.1f} GB/s")
    header = [
        "system",
        "qubits",
        "dtype",
        "terms",
        "energy s",
        "passes",
        "MB/pass",
        "% bandwidth",
        "H|psi> s",
        "both s",
    ]
    rows = []
    systems = [("chain", heisenberg(num_qubits)) for num_qubits in arguments.qubits]
    systems += [(name, hamiltonian(name)) for name in arguments.molecules]
    for system, observable in systems:
        num_qubits = observable.num_qubits
        factors = np.random.default_rng(num_qubits).normal(size=(num_qubits, 2))
        for dtype in ("complex64", "complex128"):
            sv = StateVector.product(factors, dtype, device="cpu").normalize()
            energy, product, both = times(sv, observable, arguments.repeats)
            passes = lowered(sv, (observable,), real=True).kernels[0].passes
            share = 100 * passes * sv.local.nbytes / bandwidth / energy
            size = sv.local.nbytes / 1e6
            rows.append([system, num_qubits, dtype, len(observable), energy, passes, size, share, product, both])
    print(table(header, rows))
    if arguments.save:
        print(save("energy", {"copy_gb_s": bandwidth / 1e9, "rows": [dict(zip(header, row)) for row in rows]}))


if __name__ == "__main__":
    main()
