"""Noisy circuits beside Qiskit Aer and qsim, in the same run: trajectories, and density matrices.

    python noise_bench.py                                 # all cases; peers that are not installed are left out
    python noise_bench.py --cases pauli --qubits 10 16 --repeats 3 --save

The circuit: layers of RY and RZ on every qubit and CZ along a line, a channel behind every gate on each of its qubits,
angles from a seed. Trajectories: the time for SHOTS measurements of all qubits, each from a trajectory of its own
("pauli": depolarising, "damping": amplitude damping). "density": the time for the probabilities of all basis states.
"weak" and "strong" are the probabilities 0.001 and 0.01.

Each simulator is timed with its circuit built and its first run over; the median of --repeats, or one run where that
takes longer than ten seconds. A peer is left out of sizes where it would take longer than --limit. `ratio` is the
fastest peer's time over ours. All compute in single precision (of Aer it is set), with the threads that each takes by
default.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from common import machine_line, save, table

import qdist as qd

STRENGTHS = {"weak": 0.001, "strong": 0.01}
CASES = ("pauli", "damping", "density")
SIZES = {"pauli": [10, 16, 20], "damping": [10, 16], "density": [6, 8, 10]}
LAYERS = 5
LONG = 10.0
"""Seconds after which a run is not repeated."""


def channel(case: str, strength: float) -> Any:
    return qd.noise.amplitude_damping(strength) if case == "damping" else qd.noise.depolarizing(strength)


def circuit_of(num_qubits: int) -> qd.Circuit:
    angles = iter(np.random.default_rng(7).uniform(0, 2 * np.pi, 2 * num_qubits * LAYERS))
    circuit = qd.Circuit(num_qubits)
    for _ in range(LAYERS):
        for q in range(num_qubits):
            circuit.ry(next(angles), q).rz(next(angles), q)
        for q in range(num_qubits - 1):
            circuit.cz(q, q + 1)
    return circuit


def ours(case: str, circuit: qd.Circuit, strength: float, shots: int) -> Callable[[], Any]:
    model = qd.noise.NoiseModel().add(channel(case, strength))
    if case == "density":
        exact = qd.noise.compile(circuit, model, method="density_matrix")
        return exact.probabilities
    program = qd.noise.compile(circuit, model)
    return lambda: program.sample(shots)


def aer(case: str, circuit: qd.Circuit, strength: float, shots: int) -> Callable[[], Any]:
    import qiskit
    from qiskit_aer import AerSimulator
    from qiskit_aer.noise import NoiseModel, amplitude_damping_error, depolarizing_error

    made = qiskit.QuantumCircuit(circuit.num_qubits)
    error = amplitude_damping_error(strength) if case == "damping" else depolarizing_error(strength, 1)
    model = NoiseModel()
    model.add_all_qubit_quantum_error(error, ["ry", "rz"])
    model.add_all_qubit_quantum_error(error.tensor(error), ["cz"])
    for gate, qubits, params, *_ in circuit:
        getattr(made, gate.name)(*params, *qubits)
    if case == "density":
        made.save_probabilities()
    else:
        made.measure_all()
    method = "density_matrix" if case == "density" else "statevector"
    backend = AerSimulator(method=method, noise_model=model, precision="single")
    ready = qiskit.transpile(made, backend, optimization_level=0)
    return lambda: backend.run(ready, shots=1 if case == "density" else shots).result().data()


def qsim(case: str, circuit: qd.Circuit, strength: float, shots: int) -> Callable[[], Any] | None:
    import cirq
    import qsimcirq

    if case == "density":
        return None
    qubits = cirq.LineQubit.range(circuit.num_qubits)
    # Cirq's p is the probability of an error, three quarters of ours.
    noise = cirq.amplitude_damp(strength) if case == "damping" else cirq.depolarize(0.75 * strength)
    gates = {"ry": cirq.ry, "rz": cirq.rz}
    made = cirq.Circuit()
    for gate, places, params, *_ in circuit:
        operation = gates[gate.name](*params) if params else cirq.CZ
        made.append(operation(*(qubits[q] for q in places)))
        made.append([noise(qubits[q]) for q in places])
    made.append(cirq.measure(*qubits, key="m"))
    simulator = qsimcirq.QSimSimulator()
    return lambda: simulator.run(made, repetitions=shots)


PEERS = {"aer": aer, "qsim": qsim}


def seconds(run: Callable[[], Any] | None, repeats: int) -> float:
    if run is None:
        return float("nan")
    times: list[float] = []
    for _ in range(repeats + 1):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
        if times[0] > LONG:
            return times[0]
    return statistics.median(times[1:])


class Limit:
    """Leaves a peer out of the larger sizes that would take it too long, by what the last size took it."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._taken: dict[tuple[str, str], tuple[int, float]] = {}

    def allows(self, name: str, case: str, num_qubits: int) -> bool:
        qubits, seconds = self._taken.get((name, case), (num_qubits, 0.0))
        return seconds * (4 if case == "density" else 2) ** (num_qubits - qubits) <= self._seconds

    def took(self, name: str, case: str, num_qubits: int, seconds: float) -> None:
        self._taken[name, case] = num_qubits, seconds


def measured(
    case: str, num_qubits: int, strength: str, shots: int, repeats: int, peers: list[str], limit: Limit
) -> dict[str, Any]:
    circuit, p = circuit_of(num_qubits), STRENGTHS[strength]
    row: dict[str, Any] = {"case": case, "noise": strength, "qubits": num_qubits}
    row["channels"] = sum(len(i.qubits) for i in circuit)
    row["qdist"] = seconds(ours(case, circuit, p, shots), repeats)
    for name in peers:
        row[name] = float("nan")
        if limit.allows(name, case, num_qubits):
            try:
                row[name] = seconds(PEERS[name](case, circuit, p, shots), repeats)
            except ImportError:
                continue
            limit.took(name, case, num_qubits, row[name])
    found = [row[name] for name in peers if row[name] == row[name]]
    row["ratio"] = min(found) / row["qdist"] if found else float("nan")
    return row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", nargs="+", choices=CASES, default=list(CASES))
    parser.add_argument("--qubits", nargs="+", type=int, help="of all cases; by default each has its own")
    parser.add_argument("--shots", type=int, default=1000, help="trajectories (default 1000)")
    parser.add_argument("--repeats", type=int, default=3, help="timed runs, of which the median counts (default 3)")
    parser.add_argument("--peers", nargs="*", choices=list(PEERS), default=list(PEERS))
    parser.add_argument("--limit", type=float, default=60, help="seconds that a peer's run may take (default 60)")
    parser.add_argument("--save", action="store_true", help="write results/noise.json")
    options = parser.parse_args()
    print(machine_line())
    print(f"{options.shots} trajectories; {LAYERS} layers; seconds, median of {options.repeats}\n")
    rows, limit = [], Limit(options.limit)
    for case in options.cases:
        for num_qubits in options.qubits or SIZES[case]:
            for strength in STRENGTHS:
                rows.append(measured(case, num_qubits, strength, options.shots, options.repeats, options.peers, limit))
                print(
                    " ".join(f"{k}={v:.3g}" if isinstance(v, float) else f"{k}={v}" for k, v in rows[-1].items()),
                    flush=True,
                )
    header = ["case", "noise", "qubits", "channels", "qdist", *options.peers, "ratio"]
    print("\n" + table(header, [[row[name] for name in header] for row in rows]))
    if options.save:
        print(save("noise", {"shots": options.shots, "layers": LAYERS, "rows": rows}))


if __name__ == "__main__":
    main()
