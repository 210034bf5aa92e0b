"""Estimator: expectation values by Qiskit's V2 interface."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from qiskit.primitives import BaseEstimatorV2, DataBin, PrimitiveJob, PrimitiveResult, PubResult
from qiskit.primitives.containers.estimator_pub import EstimatorPub, EstimatorPubLike

from qdist.circuit import PauliSum
from qdist.comm import Communicator

from .jobs import submitted
from .observables import pauli_sum
from .programs import Known, Programs, common_seed
from .running import expectations

__all__ = ["Estimator"]


class Estimator(BaseEstimatorV2):
    """Exact expectation values, with normal noise of the asked precision.

    All bindings of a PUB run as one batch, and all observables of a binding are computed together. Under ``mpirun``
    every rank runs the script, the states are split, and every rank gets every result.

    Where a circuit resets, measures or branches in its middle, each value is that of a run of its own, as with Qiskit's
    StatevectorEstimator.

    Args:
        default_precision: the standard deviation of the noise where a run or PUB names none; 0: the exact values.
        seed: of the noise, an int or a generator: every PUB starts a stream of its own from an int, and one number
            is drawn for each value.
        comm: the ranks that share the states; None takes all of this job.
        device: "cpu", "cuda", "cuda:N" or "auto".
        dtype: of the amplitudes, complex128 or complex64.
    """

    def __init__(
        self,
        *,
        default_precision: float = 0.0,
        seed: np.random.Generator | int | None = None,
        comm: Communicator | None = None,
        device: str = "auto",
        dtype: Any = np.complex128,
    ) -> None:
        self._default_precision, self._seed = default_precision, seed
        self._programs = Programs(comm, device, dtype)

    @property
    def default_precision(self) -> float:
        """The standard error of PUBs that name none of their own; 0 for exact values."""
        return self._default_precision

    @property
    def seed(self) -> np.random.Generator | int | None:
        """What noise is drawn with, as it was given."""
        return self._seed

    def run(
        self, pubs: Iterable[EstimatorPubLike], *, precision: float | None = None
    ) -> PrimitiveJob[PrimitiveResult[PubResult]]:
        if precision is None:
            precision = self._default_precision
        coerced = [EstimatorPub.coerce(pub, precision) for pub in pubs]
        return submitted(self._programs.comm, self._run, coerced)

    def _run(self, pubs: list[EstimatorPub]) -> PrimitiveResult[PubResult]:
        return PrimitiveResult([self._run_pub(pub) for pub in pubs], metadata={"version": 2})

    def _run_pub(self, pub: EstimatorPub) -> PubResult:
        rng = np.random.default_rng(common_seed(self._seed, self._programs.comm))
        numbers, theta = _bindings(pub)
        observables = np.asarray(pub.observables)
        labels = np.arange(observables.size).reshape(observables.shape)
        numbers, labels = np.broadcast_arrays(numbers, labels)
        known = self._programs.read(pub.circuit)
        sums = [pauli_sum(observables.flat[k], known.qubits) for k in range(observables.size)]
        if known.is_random:
            values = np.zeros(numbers.shape)
            for index in np.ndindex(*values.shape):
                state = known.trajectory.run(theta[numbers[index]], rng)
                values[index] = _noisy(state.expectation(sums[labels[index]]), pub.precision, rng)
        else:
            values = self._exact(known, theta, sums, numbers, labels)
            if pub.precision:
                # Qiskit draws for every reset, also where its outcome is certain, and then the noise.
                draws = sum(i.gate.kind in ("reset", "initialize") for i in known.body)
                for index in np.ndindex(*values.shape):
                    rng.random(draws)
                    values[index] = _noisy(float(values[index]), pub.precision, rng)
        data = DataBin(evs=values, stds=np.zeros_like(values), shape=values.shape)
        return PubResult(data, metadata={"target_precision": pub.precision, "circuit_metadata": pub.circuit.metadata})

    def _exact(
        self,
        known: Known,
        theta: NDArray[np.float64],
        sums: Sequence[PauliSum],
        numbers: NDArray[np.int64],
        labels: NDArray[np.int64],
    ) -> NDArray[np.float64]:
        """The value of observable labels[index] for row numbers[index] of the parameters, for every index."""
        theta = np.ascontiguousarray(theta[:, self._programs.columns(known.body)])
        first = self._programs.first_state(known.body, theta)
        asked = np.zeros((len(theta), len(sums)), bool)
        asked[numbers, labels] = True
        table = np.zeros(asked.shape)
        # Bindings that are measured alike run as one batch.
        patterns, which = np.unique(asked, axis=0, return_inverse=True)
        for k, pattern in enumerate(patterns):
            rows, chosen = np.flatnonzero(which.ravel() == k), np.flatnonzero(pattern).tolist()
            if chosen:
                wanted = [sums[label] for label in chosen]
                table[rows[:, None], chosen] = (
                    expectations(known.program, wanted, theta[rows]) if first is None else first.expectations(wanted)
                )
        return np.asarray(table[numbers, labels], np.float64)


def _bindings(pub: EstimatorPub) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """The numbers of the bindings, in their shape, and their values in the order of the circuit's parameters."""
    bindings, parameters = pub.parameter_values, pub.circuit.parameters
    count = math.prod(bindings.shape)
    theta = np.asarray(bindings.as_array(parameters), float).reshape(count, len(parameters))
    return np.arange(count).reshape(bindings.shape), theta


def _noisy(value: float, precision: float, rng: np.random.Generator) -> float:
    return float(rng.normal(value, precision)) if precision else value
