"""Estimator: expectation values by Qiskit's V2 interface."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from qiskit.primitives import BaseEstimatorV2, DataBin, PrimitiveJob, PrimitiveResult, PubResult
from qiskit.primitives.containers.estimator_pub import EstimatorPub, EstimatorPubLike

from qdist.comm import Communicator

from .observables import pauli_sum
from .programs import Programs, common_seed, expectations

__all__ = ["Estimator"]


class Estimator(BaseEstimatorV2):
    """Exact expectation values, with normal noise of the asked precision.

    All bindings of a PUB run as one batch, and all observables of a binding are computed together. Under ``mpirun``
    every rank runs the script, the states are split, and every rank gets every result.

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
        return self._default_precision

    @property
    def seed(self) -> np.random.Generator | int | None:
        return self._seed

    def run(
        self, pubs: Iterable[EstimatorPubLike], *, precision: float | None = None
    ) -> PrimitiveJob[PrimitiveResult[PubResult]]:
        if precision is None:
            precision = self._default_precision
        coerced = [EstimatorPub.coerce(pub, precision) for pub in pubs]
        job = PrimitiveJob(self._run, coerced)
        job._submit()
        return job

    def _run(self, pubs: list[EstimatorPub]) -> PrimitiveResult[PubResult]:
        return PrimitiveResult([self._run_pub(pub) for pub in pubs], metadata={"version": 2})

    def _run_pub(self, pub: EstimatorPub) -> PubResult:
        rng = np.random.default_rng(common_seed(self._seed, self._programs.comm))
        values = self._values(pub)
        if pub.precision:
            # One draw a value, in the order of the indices.
            for index in np.ndindex(*values.shape):
                values[index] = rng.normal(values[index], pub.precision)
        data = DataBin(evs=values, stds=np.zeros_like(values), shape=values.shape)
        return PubResult(data, metadata={"target_precision": pub.precision, "circuit_metadata": pub.circuit.metadata})

    def _values(self, pub: EstimatorPub) -> NDArray[np.float64]:
        bindings, parameters = pub.parameter_values, pub.circuit.parameters
        count = math.prod(bindings.shape)
        theta = np.asarray(bindings.as_array(parameters), float).reshape(count, len(parameters))
        numbers = np.arange(count).reshape(bindings.shape)
        observables = np.asarray(pub.observables)
        labels = np.arange(observables.size).reshape(observables.shape)
        numbers, labels = np.broadcast_arrays(numbers, labels)
        circuit = self._programs.read(pub.circuit)
        program = self._programs.of(circuit.remove_final_measurements())
        theta = np.ascontiguousarray(theta[:, self._programs.columns(program)])
        sums = [pauli_sum(observables.flat[k]) for k in range(observables.size)]
        wanted: dict[int, set[int]] = defaultdict(set)
        for number, label in zip(numbers.flat, labels.flat):
            wanted[int(number)].add(int(label))
        # Bindings that are measured alike run as one batch.
        alike: dict[tuple[int, ...], list[int]] = defaultdict(list)
        for number, asked in wanted.items():
            alike[tuple(sorted(asked))].append(number)
        found: dict[tuple[int, int], float] = {}
        for chosen, rows in alike.items():
            table = expectations(program, [sums[label] for label in chosen], theta[rows])
            found.update(((row, label), table[i, k]) for i, row in enumerate(rows) for k, label in enumerate(chosen))
        values = np.empty(numbers.shape, np.float64)
        for index in np.ndindex(*numbers.shape):
            values[index] = found[int(numbers[index]), int(labels[index])]
        return values
