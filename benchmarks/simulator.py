"""What compare_cpu.py asks of a simulator, and qdist behind it; peers.py has the others.

A simulator is one small class that imports its library when it is made, so that those that are not installed can
be told from those that fail. Circuits come as plain lists of gates (gate_lists.py), so that each library builds them in
its own way and is not charged for a translation. Modes that are measured:

    evolve    the circuit is built, bound and fused beforehand; a run is the evolution of |0...0> alone
    once      the circuit is built beforehand; planning, binding and fusing are part of the run, as of one that has one
    dense     as evolve, but from a state without zeros; of qdist alone, which skips what is still zero after |0...0>
    energy    a run is the expectation value of the work's observable in the circuit's state, which is made beforehand
    gradient  a run is that expectation value from |0...0> with its derivatives by all angles
    bind      a run takes new angles: whatever the library must do with them is part of it
    batch     a run takes one row of angles a state and makes all the states

Qubit 0 is the least significant bit of an amplitude's index, here as in qdist; libraries that count from the other
end get their qubits reversed, which changes nothing else.
"""

from __future__ import annotations

import importlib.metadata
from collections.abc import Sequence
from typing import Any

import numpy as np
from gate_lists import Work, to_qdist
from numpy.typing import NDArray

DTYPES = ("complex64", "complex128")


class Simulator:
    """What the benchmark asks of each library."""

    package: str
    dtypes: Sequence[str] = DTYPES
    modes: Sequence[str] = ("evolve", "once", "bind", "batch")

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

    def derivatives(self) -> NDArray[np.float64]:
        """Of the energy by the work's parameters, after a run of the mode gradient."""
        raise NotImplementedError


class QDist(Simulator):
    """qdist: `Program.run` into one StateVector; batches by `run_batch`."""

    package = "qdist"
    modes = ("evolve", "once", "dense", "energy", "gradient", "bind", "batch")

    def __init__(self, threads: int) -> None:
        super().__init__(threads)
        import qdist
        from qdist.native import kernels

        kernels.set_threads(threads)
        self.qd = qdist

    def version(self) -> str:
        return str(self.qd.__version__)

    def prepare(self, work: Work, dtype: str, mode: str, setting: str) -> dict[str, Any]:
        circuit, self.theta = to_qdist(work)
        self.mode = mode
        if mode == "once":
            self.circuit, self.options = circuit, {"device": "cpu", "dtype": dtype}
            return {}
        self.program = self.qd.compile(circuit, device="cpu", dtype=dtype)
        if mode != "gradient":
            self.program = self.program.bind(self.theta)
            self.state = self.program.run()
        if mode == "dense":
            self.state.local[:] = (1 << work.num_qubits) ** -0.5
        if work.observable:
            terms = {" ".join(f"{p}{q}" for p, q in zip(letters, qubits)): c for c, letters, qubits in work.observable}
            self.observable = self.qd.PauliSum(terms)
        plan = self.program.plan
        return {"sweeps": plan.sweeps, "flops": plan.flops, "bytes": plan.bytes_moved}

    def run(self, theta: NDArray[np.float64] | None = None) -> None:
        if self.mode == "once":
            self.state = self.qd.simulate(self.circuit, self.theta, **self.options)
        elif self.mode == "energy":
            self.state.expectation(self.observable)
        elif self.mode == "gradient":
            self.found = self.program.value_and_grad(self.observable, self.theta)[1]
        else:
            # A dense run goes on from the state that the last one left.
            self.program.run(theta, out=self.state, initial=self.state if self.mode == "dense" else None)

    def run_batch(self, thetas: NDArray[np.float64]) -> None:
        self.program.run_batch(thetas)

    def derivatives(self) -> NDArray[np.float64]:
        return np.asarray(self.found)

    def amplitudes(self) -> NDArray[Any]:
        return self.state.amplitudes()
