"""Qiskit's primitives and gradients: qdist beside Qiskit's state-vector primitives and Aer's, in the same run.

    python benchmarks/qiskit_bench.py [--cases estimator sampler vqe qnn] [--small] [--repeats 5] [--save]

estimator: 100 bindings of a 16-qubit EfficientSU2 with a 500-term Hamiltonian. sampler: 100,000 shots of 24 qubits.
vqe: energy and gradient of H2O (14 qubits, 1,086 terms, EfficientSU2), by the adjoint method, by qiskit-algorithms'
reverse mode, and by parameter shifts on each estimator. qnn: the gradient of an EstimatorQNN of 8 qubits for 64 rows,
by the adjoint method and by its default. Every peer's numbers are compared with qdist's. Prints the median of the
repeats, or one run where that takes longer than ten seconds; what is not installed, or finds no room in memory, is
left out.
"""

from __future__ import annotations

import argparse
import importlib.util
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from common import machine_line, save, table
from molecules import hamiltonian
from qiskit.circuit import QuantumCircuit
from qiskit.circuit.library import efficient_su2, real_amplitudes, zz_feature_map
from qiskit.primitives import StatevectorEstimator, StatevectorSampler
from qiskit.quantum_info import SparsePauliOp

import qdist as qd
from qdist.interop.qiskit import Estimator, Sampler

Row = tuple[str, str, float, float, float]
LONG = 10.0
"""Seconds after which a run is not repeated."""


def installed(package: str) -> bool:
    return importlib.util.find_spec(package) is not None


def median_seconds(run: Callable[[], object], repeats: int) -> float:
    times: list[float] = []
    for _ in range(repeats + 1):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
        if times[0] > LONG:
            return times[0]
    return statistics.median(times[1:])


def compared(case: str, runs: dict[str, Callable[[], Any]], repeats: int) -> list[Row]:
    """Seconds of each, how many times qdist's, and the largest difference from qdist's numbers."""
    rows: list[Row] = []
    reference, own = None, 0.0
    for name, run in runs.items():
        print(f"{case}: {name} ...", flush=True)
        found: list[Any] = []
        try:
            seconds = median_seconds(lambda run=run, found=found: found.append(run()), repeats)
        except MemoryError as error:
            print(f"{case}: {name} left out: {error}", flush=True)
            continue
        numbers = np.concatenate([np.ravel(one) for one in found[-1]])
        if reference is None:
            reference, own = numbers, seconds
        rows.append((case, name, seconds, seconds / own, float(np.abs(numbers - reference).max())))
    return rows


def estimators() -> dict[str, Any]:
    found: dict[str, Any] = {"qdist": Estimator(), "StatevectorEstimator": StatevectorEstimator()}
    if installed("qiskit_aer"):
        from qiskit_aer.primitives import EstimatorV2

        found["Aer EstimatorV2"] = EstimatorV2()
    return found


def strings(qubits: int, count: int) -> SparsePauliOp:
    rng = np.random.default_rng(2)
    labels = {"".join(rng.choice(list("IXYZ"), qubits)) for _ in range(count)}
    return SparsePauliOp(sorted(labels), rng.normal(size=len(labels)))


def estimator_case(small: bool, repeats: int) -> list[Row]:
    qubits, bindings, terms = (6, 10, 50) if small else (16, 100, 500)
    circuit = efficient_su2(qubits, reps=3)
    theta = np.random.default_rng(1).uniform(-2, 2, (bindings, circuit.num_parameters))
    pub = (circuit, strings(qubits, terms), theta)
    runs = {
        name: (lambda one=one: [one.run([pub], precision=0.0).result()[0].data.evs])
        for name, one in estimators().items()
    }
    return compared("estimator", runs, repeats)


def sampler_case(small: bool, repeats: int) -> list[Row]:
    qubits, shots = (10, 10**4) if small else (24, 10**5)
    circuit = efficient_su2(qubits, reps=2)
    theta = np.random.default_rng(1).uniform(-0.2, 0.2, circuit.num_parameters)
    circuit.measure_all()
    samplers: dict[str, Any] = {"qdist": Sampler(seed=1)}
    if installed("qiskit_aer"):
        from qiskit_aer.primitives import SamplerV2

        samplers["Aer SamplerV2"] = SamplerV2(seed=1)
    samplers["StatevectorSampler"] = StatevectorSampler(seed=1)

    def means(sampler: Any) -> list[Any]:
        """The mean of each bit: the part of two samples that can be compared."""
        bits = sampler.run([(circuit, theta)], shots=shots).result()[0].data.meas.to_bool_array()
        return [bits.reshape(shots, qubits).mean(axis=0)]

    return compared("sampler", {name: (lambda one=one: means(one)) for name, one in samplers.items()}, repeats)


def to_operator(observable: qd.PauliSum, qubits: int) -> SparsePauliOp:
    letters = {(0, 0): "I", (1, 0): "X", (1, 1): "Y", (0, 1): "Z"}
    labels = {
        "".join(letters[string.x >> q & 1, string.z >> q & 1] for q in reversed(range(qubits))): np.real(coefficient)
        for string, coefficient in observable
    }
    return SparsePauliOp(list(labels), list(labels.values()))


def vqe_case(small: bool, repeats: int) -> list[Row]:
    if not installed("qiskit_algorithms"):
        return []
    from qiskit_algorithms.gradients import ParamShiftEstimatorGradient, ReverseEstimatorGradient

    from qdist.interop.qiskit.algorithms import AdjointEstimatorGradient

    qubits = 6 if small else 14
    observable = strings(6, 40) if small else to_operator(hamiltonian("H2O"), qubits)
    circuit = efficient_su2(qubits, reps=2)
    theta = np.random.default_rng(1).uniform(-0.5, 0.5, circuit.num_parameters)

    def step(estimator: Any, gradient: Any) -> list[Any]:
        value = estimator.run([(circuit, observable, theta)], precision=0.0).result()[0].data.evs
        return [value, gradient.run([circuit], [observable], [theta]).result().gradients[0]]

    runs: dict[str, Callable[[], Any]] = {}
    for name, one in estimators().items():
        if name == "qdist":
            gradient = AdjointEstimatorGradient(one)
            runs[name] = lambda one=one, gradient=gradient: step(one, gradient)
            continue
        shifts = ParamShiftEstimatorGradient(one, precision=0.0)
        runs[f"{name}, shifts"] = lambda one=one, shifts=shifts: step(one, shifts)
    runs["reverse mode"] = lambda: step(StatevectorEstimator(), ReverseEstimatorGradient())
    return compared("vqe", runs, repeats)


def qnn_case(small: bool, repeats: int) -> list[Row]:
    if not installed("qiskit_machine_learning"):
        return []
    from qiskit_machine_learning.neural_networks import EstimatorQNN

    from qdist.interop.qiskit.machine_learning import AdjointEstimatorGradient

    qubits, rows = (3, 4) if small else (8, 64)
    inputs, ansatz = zz_feature_map(qubits, reps=1), real_amplitudes(qubits, reps=3)
    circuit = QuantumCircuit(qubits)
    circuit.compose(inputs, inplace=True)
    circuit.compose(ansatz, inplace=True)
    rng = np.random.default_rng(1)
    data, weights = rng.uniform(0, 1, (rows, qubits)), rng.uniform(-1, 1, ansatz.num_parameters)

    def network(estimator: Any, gradient: Any) -> Any:
        return EstimatorQNN(
            circuit=circuit,
            estimator=estimator,
            input_params=inputs.parameters,
            weight_params=ansatz.parameters,
            gradient=gradient,
            default_precision=0.0,
        )

    own = Estimator()
    ours, default = network(own, AdjointEstimatorGradient(own)), network(StatevectorEstimator(), None)
    runs = {
        "qdist": lambda: [ours.backward(data, weights)[1]],
        "default (shifts)": lambda: [default.backward(data, weights)[1]],
    }
    return compared("qnn", runs, repeats)


CASES = {"estimator": estimator_case, "sampler": sampler_case, "vqe": vqe_case, "qnn": qnn_case}


def main(argv: list[str] | None = None) -> list[Row]:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", nargs="+", choices=CASES, default=list(CASES))
    parser.add_argument("--small", action="store_true", help="sizes that take seconds")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--save", action="store_true", help="write benchmarks/results/qiskit.json")
    args = parser.parse_args(argv)
    print(machine_line())
    rows = [row for case in args.cases for row in CASES[case](args.small, args.repeats)]
    header = ("case", "what", "seconds", "times qdist's", "difference")
    print(table(header, rows))
    if args.save:
        print(save("qiskit", [dict(zip(header, row)) for row in rows]))
    return rows


if __name__ == "__main__":
    main()
