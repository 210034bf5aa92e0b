"""NoisyProgram: a circuit with channels, compiled once: exact by density matrices, or by trajectories."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from qdist.backends.errors import StateError
from qdist.circuit import Circuit, PauliSum
from qdist.circuit.binding import ParameterValues, flat_values
from qdist.circuit.circuit import checked_circuit
from qdist.comm import Communicator
from qdist.hints import hinted
from qdist.noise.density import DensityMatrix
from qdist.noise.frames import Frames
from qdist.noise.jumps import Jumps
from qdist.noise.model import NoiseModel
from qdist.noise.noisy import Noisy
from qdist.noise.readout import as_read
from qdist.progress import Progress, is_shown, showing
from qdist.state.checking import checks, same
from qdist.state.measuring.estimates import Estimate, Estimates, mean_of_runs
from qdist.state.measuring.expectation import Observable, as_hermitian_sum, checked_observables
from qdist.state.measuring.measure import Seed, generator
from qdist.state.measuring.rotated import flipped
from qdist.state.measuring.shots import tally

__all__ = ["METHODS", "NoisyProgram", "compile"]

METHODS = ("trajectories", "density_matrix")


class NoisyProgram:
    """A noisy circuit, made by ``qdist.noise.compile``, whose arguments it takes.

    Method "trajectories" runs states of n qubits, each with errors of its own; results are means over ``shots`` of them
    with a ``standard_error``. Channels of Pauli strings are drawn before anything runs, equal trajectories run once,
    and the others as one batch. Method "density_matrix" is exact and runs a state of 2n qubits once.

    Errors of readout change what is read: ``sample``, ``counts`` and expectation values, which are means of what is
    read, and the outcomes that gates depend on. ``density_matrix`` and ``probabilities`` are those of the state before
    it is read. A classical bit that is measured before the end takes the memory of one more qubit, by trajectories only
    where something depends on it or it is measured under a condition.
    """

    def __init__(
        self,
        circuit: Circuit,
        noise: NoiseModel | None = None,
        *,
        method: str = "trajectories",
        comm: Communicator | None = None,
        device: str = "auto",
        dtype: Any = "complex64",
    ) -> None:
        if method not in METHODS:
            raise StateError(f"method={method!r}: there are {', '.join(map(repr, METHODS))}")
        circuit = checked_circuit(circuit)
        if noise is not None and not isinstance(noise, NoiseModel):
            raise StateError(
                f"noise is a NoiseModel, not {type(noise).__name__}: NoiseModel().add(depolarizing(0.01)) makes one "
                "of a channel"
            )
        checks.checked_num_qubits(circuit.num_qubits)
        self.circuit = (circuit if noise is None else noise.applied(circuit)).frozen()
        self.method, self.comm = method, comm
        self._noisy = Noisy.of(self.circuit, recorded=method == "trajectories")
        kind = checks.checked_dtype(dtype)
        same.circuit(comm, self.circuit, kind.name, method)
        self._exact = DensityMatrix(self._noisy, comm, device, kind) if method == "density_matrix" else None
        self._drawn: Frames | Jumps | None = None
        if self._exact is None:
            paulis = all(channel.paulis is not None for channel in dict.fromkeys(self._noisy.channels))
            self._drawn = (Frames if paulis else Jumps)(self._noisy, comm, device, kind)

    @property
    def num_qubits(self) -> int:
        """Of the circuit."""
        return self.circuit.num_qubits

    def __repr__(self) -> str:
        return f"<NoisyProgram: {self.num_qubits} qubits, {len(self._noisy.channels)} channels, {self.method}>"

    @hinted
    def expectation(
        self,
        observable: Observable,
        params: Any = None,
        *,
        shots: int | None = None,
        seed: Seed = None,
        progress: bool | None = None,
    ) -> Any:
        """The expectation value after the circuit: a float, or by trajectories an ``Estimate``, which also has its
        ``standard_error``; for a batch of parameter sets (2-D) one a row.

        Args:
            observable: Hermitian, in any form that ``StateVector.expectation`` takes.
            params: values of the circuit's parameters, as for ``qdist.compile``'s programs; or a batch of them.
            shots: how many trajectories; for method "trajectories", and needed there. Where an error is so rare that a
                handful of trajectories have it, the standard error is too small as often as too large: two of them
                then cover the exact value in some 90 % of cases, not 95.
            seed: of the random numbers; the same seed gives the same numbers on any number of ranks and any device.
            progress: whether progress is shown on stderr if it takes longer than a second; by default in terminals and
                notebooks.
        """
        found = self.expectations([observable], params, shots=shots, seed=seed, progress=progress)
        if not isinstance(found, Estimates):
            return float(found[0]) if found.ndim == 1 else found[:, 0]
        if found.ndim == 2:
            return Estimates.of(found[:, 0], found.standard_error[:, 0], found.shots)
        return Estimate(float(found[0]), float(found.standard_error[0]), found.shots)

    @hinted
    def expectations(
        self,
        observables: Sequence[Observable],
        params: Any = None,
        *,
        shots: int | None = None,
        seed: Seed = None,
        progress: bool | None = None,
    ) -> NDArray[np.float64]:
        """The expectation values of several observables, from the same trajectories: (observables,), for a batch
        (batch, observables). params, shots, seed and progress are those of ``expectation``."""
        sums = [self._read(observable) for observable in checked_observables(observables)]
        number = self._checked(shots, seed)
        batch, rows = self._rows(params)
        if self._exact is not None:
            found = [self._exact.values(sums, row) for row in self._counted(rows, progress)]
            exact = np.array(found).reshape(len(rows), len(sums))
            return exact if batch else exact[0]
        assert self._drawn is not None
        rng = generator(self.comm, seed)
        means, errors = np.zeros((2, len(rows), len(sums)))
        for k, row in enumerate(self._counted(rows, progress)):
            means[k], errors[k] = mean_of_runs(self._drawn.values(sums, row, number, rng))
        return Estimates.of(means, errors, number) if batch else Estimates.of(means[0], errors[0], number)

    @hinted
    def value_and_grad(
        self,
        observable: Observable,
        params: Any = None,
        *,
        shots: int | None = None,
        seed: Seed = None,
        progress: bool | None = None,
    ) -> tuple[Any, NDArray[np.float64]]:
        """The expectation value, and its derivatives by all parameters: as ``expectation`` gives it, and float64 in the
        order of ``circuit.parameters``; for a batch both with the batch in front. observable, params, shots, seed and
        progress are those of ``expectation``.

        Density matrices: exact, by an adjoint sweep that takes the state before each channel from memory, since
        channels cannot be undone; that is a density matrix a layer of channels. Trajectories: of Pauli channels, the
        derivatives of the very mean that the seed gives; of others an unbiased estimate, which counts how the
        probabilities of jumps change too.
        """
        one = self._read(observable)
        number = self._checked(shots, seed)
        batch, rows = self._rows(params)
        gradients = np.zeros((len(rows), len(self._noisy.parameters)))
        if self._exact is not None:
            found = np.zeros(len(rows))
            for k, row in enumerate(self._counted(rows, progress)):
                found[k], gradients[k] = self._exact.value_and_gradient(one, row)
            return (found, gradients) if batch else (float(found[0]), gradients[0])
        assert self._drawn is not None
        rng = generator(self.comm, seed)
        means, errors = np.zeros((2, len(rows)))
        for k, row in enumerate(self._counted(rows, progress)):
            values, gradients[k] = self._drawn.value_and_gradient(one, row, number, rng)
            means[k], errors[k] = mean_of_runs(values)
        if batch:
            return Estimates.of(means, errors, number), gradients
        return Estimate(float(means[0]), float(errors[0]), number), gradients[0]

    @hinted
    def sample(
        self,
        shots: int,
        params: ParameterValues | None = None,
        *,
        seed: Seed = None,
        qubits: int | Sequence[int] | None = None,
        progress: bool | None = None,
    ) -> NDArray[np.int64]:
        """`shots` basis states of ``qubits`` (all without) as they are read: int64 indices, qubits[0] as bit 0. By
        trajectories each is from one of its own. params: values of the circuit's parameters; seed: of the
        random numbers. progress: as for ``expectation``."""
        number = checks.checked_shots(shots)
        chosen = checks.checked_qubits(qubits, self.num_qubits)
        indices, _ = self._sampled(number, params, seed, progress)
        result = np.zeros_like(indices)
        for k, qubit in enumerate(chosen):
            result |= (indices >> qubit & 1) << k
        return result

    @hinted
    def counts(
        self,
        shots: int,
        params: ParameterValues | None = None,
        *,
        seed: Seed = None,
        progress: bool | None = None,
    ) -> dict[str, int]:
        """How often each setting of the classical bits came (bit strings, highest bit first), or of the qubits where
        the circuit measures nothing. shots, params, seed and progress are those of ``sample``."""
        number = checks.checked_shots(shots)
        indices, outcomes = self._sampled(number, params, seed, progress)
        if self._noisy.readings or outcomes:
            return tally(indices, self._noisy.readings, self._noisy.num_clbits, outcomes)
        return tally(indices, {q: q for q in range(self.num_qubits)}, self.num_qubits)

    def density_matrix(self, params: ParameterValues | None = None) -> NDArray[Any]:
        """The density matrix after the circuit, (2**n, 2**n), qubit 0 as the lowest bit of both indices, on every rank.

        For method "density_matrix"; raises StateError for the other.
        """
        whole = self._the_exact("density_matrix()").matrix(self._values(params))
        size = 1 << self.num_qubits
        # Behind the circuit's qubits are those that keep outcomes, over which the trace is taken.
        return np.einsum("kikj->ij", whole.reshape(-1, size, len(whole) // size, size))

    def probabilities(self, params: ParameterValues | None = None) -> NDArray[np.float64]:
        """The probabilities of all basis states, (2**n,), on every rank; for method "density_matrix"."""
        whole = self._the_exact("probabilities()").probabilities(self._values(params))
        return whole.reshape(-1, 1 << self.num_qubits).sum(axis=0)

    # Arguments -------------------------------------------------------------------------------------------------------

    def _counted(self, rows: NDArray[np.float64], progress: bool | None) -> Iterator[NDArray[np.float64]]:
        """The rows, one after the other, with a bar; of one row alone the time is shown."""
        total, what = (len(rows), "rows") if len(rows) > 1 else (None, self.method)
        with showing(progress), Progress(what, total, shown=is_shown(self.comm)) as bar:
            for row in rows:
                yield row
                bar.advance()

    def _sampled(
        self, shots: int, params: ParameterValues | None, seed: Seed, progress: bool | None
    ) -> tuple[NDArray[np.int64], dict[int, NDArray[np.bool_]]]:
        """Basis states as they are read, and {classical bit: outcomes} of measurements that no qubit shows."""
        theta, rng = self._values(params), generator(self.comm, seed)
        outcomes: dict[int, NDArray[np.bool_]] = {}
        with showing(progress), Progress(f"{shots} shots", shown=is_shown(self.comm)):
            if self._exact is not None:
                sums = np.cumsum(self._exact.probabilities(theta))
                found = np.searchsorted(sums / sums[-1], rng.random(shots), side="right").astype(np.int64)
            else:
                assert self._drawn is not None
                found, outcomes = self._drawn.sample(theta, shots, rng) if shots else (np.zeros(0, np.int64), {})
        found = np.minimum(found, (1 << self._noisy.circuit.num_qubits) - 1)
        outcomes |= {clbit: (found >> qubit & 1).astype(np.bool_) for clbit, qubit in self._noisy.again.items()}
        found = flipped(found, self._noisy.flips, rng)
        if self._noisy.flips is not None:
            sources = {**self._noisy.records, **self._noisy.again}
            for clbit, bits in outcomes.items():
                wrong = self._noisy.flips[sources[clbit]]
                outcomes[clbit] = bits ^ (rng.random(shots) < wrong[bits.astype(np.int64)])
        return found, outcomes

    def _read(self, observable: Observable) -> PauliSum:
        return as_read(as_hermitian_sum(observable, self.num_qubits), self._noisy.flips)

    def _checked(self, shots: int | None, seed: Seed) -> int:
        if self._exact is not None:
            if shots is not None or seed is not None:
                name = "shots" if shots is not None else "seed"
                raise StateError(
                    f"{name}= is for method='trajectories': a density matrix gives the exact value; sample() and "
                    "counts() draw from it"
                )
            return 0
        if shots is None:
            raise StateError(
                "method='trajectories' gives a mean over runs: say how many, shots=1000; method='density_matrix' is "
                "exact"
            )
        number = checks.checked_shots(shots)
        if number == 0:
            raise StateError("shots=0: a mean needs at least one trajectory")
        same.arguments(self.comm, "number of shots", number)
        return number

    def _rows(self, params: Any) -> tuple[bool, NDArray[np.float64]]:
        """Whether it is a batch, and the values of each row."""
        if checks.is_batch(params):
            return True, checks.checked_batch(params, len(self._noisy.parameters), self.comm)
        return False, self._values(params)[None]

    def _values(self, params: ParameterValues | None) -> NDArray[np.float64]:
        given = flat_values(self._noisy.parameters, [] if params is None else params)
        return same.values(self.comm, given)

    def _the_exact(self, what: str) -> DensityMatrix:
        if self._exact is None:
            raise StateError(
                f"{what} is for method='density_matrix': trajectories have no density matrix; counts() and "
                "expectation() are means over them"
            )
        return self._exact


@hinted
def compile(
    circuit: Circuit,
    noise: NoiseModel | None = None,
    *,
    method: str = "trajectories",
    comm: Communicator | None = None,
    device: str = "auto",
    dtype: Any = "complex64",
) -> NoisyProgram:
    """A noisy circuit made ready to run many times.

    Args:
        circuit: with channels on it (``circuit.depolarizing(0.01, 0)``), or without.
        noise: a NoiseModel, whose channels are added behind the gates that it names.
        method: "trajectories", means over runs with random errors, for as many qubits as a state may have; or
            "density_matrix", exact, for half as many.
        comm: the ranks that share each state. device, dtype: as for ``qdist.compile``.

    Raises CircuitError and StateError for what cannot be, MemoryError where a density matrix does not fit.

    >>> program = compile(Circuit(1).x(0).amplitude_damping(0.25, 0), method="density_matrix", dtype="complex128")
    >>> round(program.expectation("Z0"), 6)
    -0.5
    """
    return NoisyProgram(circuit, noise, method=method, comm=comm, device=device, dtype=dtype)
