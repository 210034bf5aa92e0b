"""The libraries that gradient_bench.py measures, each in a process of its own: one small class a library.

The circuit is the benchmark's ansatz (layers of RY and RZ on every qubit, then a chain of CX), the observable a
Heisenberg chain (XX, YY and ZZ on neighbours). A gradient is the energy with its derivatives by all angles, from new
angles in an array; a forward run is the evolution of |0...0> with new angles to a state, without the energy; an energy
is both.

Run as a program (`gradient_peers.py NAME QUBITS LAYERS DTYPE THREADS REPEATS`) this file measures a library and prints
one line of JSON: the seconds of each gradient, forward run and energy, the bytes of memory at the peak of the gradients
beyond those before the first, and the gradient at the benchmark's angles. Everything is made once before the clock
starts.
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import resource
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray


def parameters(num_qubits: int, layers: int) -> NDArray[np.float64]:
    return np.random.default_rng(7).uniform(-np.pi, np.pi, 2 * num_qubits * layers)


class Library:
    """What is asked of each."""

    package: str
    dtypes: tuple[str, ...] = ("complex64", "complex128")

    def __init__(self, num_qubits: int, layers: int, dtype: str, threads: int) -> None:
        raise NotImplementedError

    def version(self) -> str:
        return importlib.metadata.version(self.package)

    def memory(self, peak: bool) -> int:
        """Bytes that this process has in memory now, or had at the peak."""
        if peak:
            return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    def forward(self, theta: NDArray[np.float64]) -> None:
        raise NotImplementedError

    def energy(self, theta: NDArray[np.float64]) -> None:
        raise NotImplementedError

    def gradient(self, theta: NDArray[np.float64]) -> Any:
        raise NotImplementedError


class QDist(Library):
    package, device = "qdist", "cpu"

    def __init__(self, num_qubits: int, layers: int, dtype: str, threads: int) -> None:
        import qdist as qd
        from qdist.native import kernels

        kernels.set_threads(threads)
        self.program = qd.compile(qd.library.hardware_efficient(num_qubits, layers), device=self.device, dtype=dtype)
        terms = {f"{p}{q} {p}{q + 1}": 1.0 for q in range(num_qubits - 1) for p in "XYZ"}
        self.observable = qd.PauliSum(terms)
        self.new_state = lambda: qd.StateVector(num_qubits, dtype, device=self.device)
        self.state: Any = None

    def version(self) -> str:
        import qdist as qd

        return qd.__version__

    def forward(self, theta: NDArray[np.float64]) -> None:
        self.program.run(theta)

    def energy(self, theta: NDArray[np.float64]) -> None:
        self.program.expectation(self.observable, theta)

    def dense_forward(self, theta: NDArray[np.float64]) -> None:
        """From a state without zeros, none of which a run may pass over."""
        if self.state is None:
            self.state = self.new_state()
            self.state.local[:] = len(self.state.local) ** -0.5
        self.program.run(theta, initial=self.state, out=self.state)

    def gradient(self, theta: NDArray[np.float64]) -> Any:
        return self.program.value_and_grad(self.observable, theta)[1]


class QDistOnCuda(QDist):
    """The same on a GPU. Its memory is what CuPy's pool has taken from the card, which it keeps."""

    device = "cuda"

    def memory(self, peak: bool) -> int:
        import cupy

        return cupy.get_default_memory_pool().total_bytes()

    def forward(self, theta: NDArray[np.float64]) -> None:
        super().forward(theta)
        self._wait()

    def dense_forward(self, theta: NDArray[np.float64]) -> None:
        super().dense_forward(theta)
        self._wait()

    def _wait(self) -> None:
        import cupy

        cupy.cuda.Device().synchronize()


class Lightning(Library):
    """PennyLane Lightning: the device's adjoint Jacobian, with the tape made anew for new angles, as its users do."""

    device: str

    def __init__(self, num_qubits: int, layers: int, dtype: str, threads: int) -> None:
        import pennylane as qml

        self.qml, self.num_qubits, self.layers = qml, num_qubits, layers
        self.made = qml.device(self.device, wires=num_qubits, c_dtype=np.dtype(dtype).type)
        self.config = qml.devices.ExecutionConfig(gradient_method="adjoint", use_device_gradient=True)
        self.config = self.made.setup_execution_config(self.config)
        pauli = {"X": qml.PauliX, "Y": qml.PauliY, "Z": qml.PauliZ}
        terms = [pauli[p](q) @ pauli[p](q + 1) for q in range(num_qubits - 1) for p in "XYZ"]
        self.measured = qml.expval(qml.Hamiltonian([1.0] * len(terms), terms))

    def _tape(self, theta: NDArray[np.float64], measured: list[Any]) -> Any:
        angles, operations, n, qml = iter(theta.tolist()), [], self.num_qubits, self.qml
        for _ in range(self.layers):
            for gate in (qml.RY, qml.RZ):
                operations += [gate(next(angles), wires=q) for q in range(n)]
            operations += [qml.CNOT(wires=[q, q + 1]) for q in range(n - 1)]
        return qml.tape.QuantumScript(operations, measured, trainable_params=range(len(theta)))

    def forward(self, theta: NDArray[np.float64]) -> None:
        # The device gives no state without a copy of it; one probability is the least it can be asked for.
        one = self.qml.probs(wires=[0])
        self.made.execute(self._tape(theta, [one]), self.config)

    def energy(self, theta: NDArray[np.float64]) -> None:
        self.made.execute(self._tape(theta, [self.measured]), self.config)

    def gradient(self, theta: NDArray[np.float64]) -> Any:
        tape = self._tape(theta, [self.measured])
        return self.made.execute_and_compute_derivatives(tape, self.config)[1]


class LightningQubit(Lightning):
    package, device = "pennylane-lightning", "lightning.qubit"


class LightningKokkos(Lightning):
    package, device = "pennylane-lightning-kokkos", "lightning.kokkos"


class Qulacs(Library):
    """Qulacs: ParametricQuantumCircuit.backprop, which gives derivatives without the energy."""

    package, dtypes = "qulacs", ("complex128",)

    def __init__(self, num_qubits: int, layers: int, dtype: str, threads: int) -> None:
        import qulacs

        self.circuit = qulacs.ParametricQuantumCircuit(num_qubits)
        for _ in range(layers):
            for add in (self.circuit.add_parametric_RY_gate, self.circuit.add_parametric_RZ_gate):
                for q in range(num_qubits):
                    add(q, 0.0)
            for q in range(num_qubits - 1):
                self.circuit.add_CNOT_gate(q, q + 1)
        self.observable = qulacs.Observable(num_qubits)
        for q in range(num_qubits - 1):
            for p in "XYZ":
                self.observable.add_operator(1.0, f"{p} {q} {p} {q + 1}")
        self.new_state = lambda: qulacs.QuantumState(num_qubits)
        self.state: Any = None

    def _set(self, theta: NDArray[np.float64]) -> None:
        # Its parametric gates turn the other way: exp(+i angle/2 P).
        for k, angle in enumerate(theta.tolist()):
            self.circuit.set_parameter(k, -angle)

    def forward(self, theta: NDArray[np.float64]) -> None:
        if self.state is None:
            self.state = self.new_state()
        self._set(theta)
        self.state.set_zero_state()
        self.circuit.update_quantum_state(self.state)

    def energy(self, theta: NDArray[np.float64]) -> None:
        self.forward(theta)
        self.observable.get_expectation_value(self.state)

    def gradient(self, theta: NDArray[np.float64]) -> Any:
        self._set(theta)
        return -np.array(self.circuit.backprop(self.observable))


LIBRARIES: dict[str, type[Library]] = {
    "qdist": QDist,
    "qdist-cuda": QDistOnCuda,
    "lightning.qubit": LightningQubit,
    "lightning.kokkos": LightningKokkos,
    "qulacs": Qulacs,
}


def _seconds(call: Any, theta: NDArray[np.float64], repeats: int, rng: np.random.Generator) -> list[float]:
    call(theta)  # Warms up.
    found = []
    for _ in range(repeats):
        new = rng.uniform(-np.pi, np.pi, len(theta))
        started = time.perf_counter()
        call(new)
        found.append(time.perf_counter() - started)
    return found


def measure(name: str, num_qubits: int, layers: int, dtype: str, threads: int, repeats: int) -> dict[str, Any]:
    library = LIBRARIES[name](num_qubits, layers, dtype, threads)
    theta, rng = parameters(num_qubits, layers), np.random.default_rng(1)
    before = library.memory(peak=False)
    gradient = np.ravel(np.asarray(library.gradient(theta), dtype=np.float64))
    seconds = _seconds(library.gradient, theta, repeats, rng)
    peak = library.memory(peak=True) - before
    found = {
        "version": library.version(),
        "gradient_seconds": seconds,
        "peak_bytes": peak,
        "forward_seconds": _seconds(library.forward, theta, repeats, rng),
        "energy_seconds": _seconds(library.energy, theta, repeats, rng),
        "gradient": gradient.tolist(),
    }
    if isinstance(library, QDist):
        library.state = None
        found["dense_seconds"] = _seconds(library.dense_forward, theta, repeats, rng)
    return found


if __name__ == "__main__":
    _, name, *numbers = sys.argv
    num_qubits, layers, threads, repeats = (int(numbers[k]) for k in (0, 1, 3, 4))
    try:
        print(json.dumps(measure(name, num_qubits, layers, numbers[2], threads, repeats)))
    except ImportError as error:
        sys.exit(f"not installed ({error})")
