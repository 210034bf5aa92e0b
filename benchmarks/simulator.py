"""What compare_cpu.py asks of a simulator, and qdist behind it; peers.py has the others.

A simulator is one small class that imports its library when it is made, so that those that are not installed can
be told from those that fail. Circuits come as plain lists of gates, so that each library builds them in its own way
and is not charged for a translation. Three modes are measured:

    evolve   the circuit is built, bound and fused beforehand; a run is the evolution of |0...0> alone
    bind     a run takes new angles: whatever the library must do with them is part of it
    batch    a run takes one row of angles a state and makes all the states
    dense    as evolve, but from a state without zeros; of qdist alone, which skips what is still zero after |0...0>

Qubit 0 is the least significant bit of an amplitude's index, here as in qdist; libraries that count from the other
end get their qubits reversed, which changes nothing else.
"""

from __future__ import annotations

import importlib.metadata
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

DTYPES = ("complex64", "complex128")


class Gate(NamedTuple):
    """One gate: x, h, ry, rz, cx, cp by name, or "unitary" with a matrix that has qubits[0] as bit 0."""

    name: str
    qubits: tuple[int, ...]
    angle: float | None = None
    parameter: int | None = None
    """The parameter that the angle is, where it is one; `angle` is then its value."""
    matrix: NDArray[np.complex128] | None = None


class Work(NamedTuple):
    """A circuit to run."""

    num_qubits: int
    gates: list[Gate]


class Simulator:
    """What the benchmark asks of each library."""

    package: str
    dtypes: Sequence[str] = DTYPES

    def __init__(self, threads: int) -> None:
        """Imports the library (raises ImportError) and sets its threads."""
        self.threads = threads

    def version(self) -> str:
        return importlib.metadata.version(self.package)

    def settings(self, mode: str) -> Sequence[str]:
        """The ways to run that are worth trying in this mode; the fastest of them is measured."""
        return ("plain",)

    def prepare(self, work: Work, dtype: str, mode: str, setting: str) -> dict[str, Any]:
        """Does all that is not timed; returns what there is to report about it."""
        raise NotImplementedError

    def run(self, theta: NDArray[np.float64] | None = None) -> float | None:
        """One run; returns the seconds that the library itself counted for it, where they are the fairer number."""
        raise NotImplementedError

    def run_batch(self, thetas: NDArray[np.float64]) -> None:
        """A loop, for libraries without a call for batches."""
        for theta in thetas:
            self.run(theta)

    def amplitudes(self) -> NDArray[Any]:
        """The state after the last run."""
        raise NotImplementedError


class QDist(Simulator):
    """qdist: `Program.run` into one StateVector; batches by `run_batch`."""

    package = "qdist"

    def __init__(self, threads: int) -> None:
        super().__init__(threads)
        import qdist
        from qdist.native import kernels

        kernels.set_threads(threads)
        self.qd = qdist

    def prepare(self, work: Work, dtype: str, mode: str, setting: str) -> dict[str, Any]:
        circuit, theta = to_qdist(work)
        self.program = self.qd.compile(circuit, device="cpu", dtype=dtype).bind(theta)
        self.state = self.program.run()
        self.dense = mode == "dense"
        if self.dense:
            self.state.local[:] = (1 << work.num_qubits) ** -0.5
        plan = self.program.plan
        return {"sweeps": plan.sweeps, "flops": plan.flops, "bytes": plan.bytes_moved}

    def run(self, theta: NDArray[np.float64] | None = None) -> None:
        # A dense run goes on from the state that the last one left.
        self.program.run(theta, out=self.state, initial=self.state if self.dense else None)

    def run_batch(self, thetas: NDArray[np.float64]) -> None:
        self.program.run_batch(thetas)

    def amplitudes(self) -> NDArray[Any]:
        return self.state.amplitudes()


def angles(work: Work, theta: NDArray[np.float64]) -> list[float]:
    """The angle of every gate for these parameters; 0.0 for gates without one."""
    values = theta.tolist()
    return [values[g.parameter] if g.parameter is not None else g.angle or 0.0 for g in work.gates]


def from_qdist(circuit: Any, theta: NDArray[np.float64]) -> Work:
    """A circuit of qdist as a list of gates, its parameters with the values theta."""
    position = {parameter: k for k, parameter in enumerate(circuit.parameters)}
    gates = []
    for symbolic, bound in zip(circuit, circuit.bind(theta)):
        name, qubits, params = bound.gate.name, tuple(bound.qubits), bound.params
        if name == "unitary":
            gates.append(Gate(name, qubits, matrix=np.array(bound.gate.matrix())))
        elif params:
            # The benchmark's circuits have one parameter as the whole angle of a gate.
            terms = getattr(symbolic.params[0], "terms", {})
            gates.append(Gate(name, qubits, float(params[0]), next((position[p] for p in terms), None)))
        else:
            gates.append(Gate(name, qubits))
    return Work(circuit.num_qubits, gates)


def to_qdist(work: Work) -> tuple[Any, NDArray[np.float64]]:
    """The circuit of qdist for a list of gates, and the values of its parameters."""
    import qdist

    values = {g.parameter: g.angle for g in work.gates if g.parameter is not None}
    theta = qdist.ParameterVector("theta", len(values))
    circuit = qdist.Circuit(work.num_qubits)
    for gate in work.gates:
        if gate.matrix is not None:
            circuit.unitary(gate.matrix, list(gate.qubits))
        elif gate.angle is None:
            getattr(circuit, gate.name)(*gate.qubits)
        else:
            angle = gate.angle if gate.parameter is None else theta[gate.parameter]
            getattr(circuit, gate.name)(angle, *gate.qubits)
    return circuit, np.array([values[k] for k in range(len(values))], dtype=np.float64)
