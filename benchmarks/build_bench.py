"""How fast circuits are built, gate method by gate method, beside Qiskit where it is installed.

    python benchmarks/build_bench.py [--gates 100000] [--repeats 5]

Prints the median of the repeats, in seconds and in gates a second. Both libraries run the same statements.
"""

from __future__ import annotations

import argparse
import importlib.util
import platform
import statistics
import time
from collections.abc import Callable
from typing import Any

import qdist
from qdist.circuit import Circuit, ParameterVector

NUM_QUBITS = 20


def fixed_angles(circuit: Any, num_gates: int) -> None:
    """Layers of ry and rz, then a chain of cx."""
    for k in range(num_gates // 3):
        q = k % NUM_QUBITS
        circuit.ry(0.1, q)
        circuit.rz(0.2, q)
        circuit.cx(q, (q + 1) % NUM_QUBITS)


def symbolic_angles(circuit: Any, num_gates: int, theta: Any) -> None:
    """The same with a parameter of its own in every rotation, a third of them in affine expressions."""
    for k in range(num_gates // 3):
        q = k % NUM_QUBITS
        circuit.ry(theta[2 * k], q)
        circuit.rz(2 * theta[2 * k + 1] + 0.1 if k % 3 == 0 else theta[2 * k + 1], q)
        circuit.cx(q, (q + 1) % NUM_QUBITS)


def median_seconds(build: Callable[[], object], repeats: int) -> float:
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        build()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--gates", type=int, default=100_000)
    parser.add_argument("--repeats", type=int, default=5)
    arguments = parser.parse_args()
    gates = arguments.gates
    libraries: dict[str, tuple[Any, Any]] = {f"qdist {qdist.__version__}": (Circuit, ParameterVector)}
    if importlib.util.find_spec("qiskit"):
        import qiskit
        import qiskit.circuit

        libraries[f"qiskit {qiskit.__version__}"] = (qiskit.QuantumCircuit, qiskit.circuit.ParameterVector)

    print(f"{gates} gates on {NUM_QUBITS} qubits, median of {arguments.repeats} repeats")
    print(f"Python {platform.python_version()} on {platform.machine()}, {platform.system()}")
    for name, (circuit_class, vector_class) in libraries.items():
        theta = vector_class("theta", gates)
        cases = {
            "fixed angles": lambda make=circuit_class: fixed_angles(make(NUM_QUBITS), gates),
            "symbolic angles": lambda make=circuit_class, t=theta: symbolic_angles(make(NUM_QUBITS), gates, t),
        }
        for case, build in cases.items():
            seconds = median_seconds(build, arguments.repeats)
            print(f"{name:>16}  {case:<16} {seconds:7.3f} s  {gates / seconds:12,.0f} gates/s")


if __name__ == "__main__":
    main()
