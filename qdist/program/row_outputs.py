"""Outputs of a batch as a row program has them: columns of expectation values and probabilities."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from qdist.circuit import PauliSum
from qdist.state.checking import checks
from qdist.state.measuring import expectation
from qdist.state.measuring.expectation import Observable
from qdist.state.outputs import Expectation, Output, Probabilities, Variance

__all__ = ["Columns", "columns", "key", "unfit"]

_MOST_SQUARED = 64
"""Terms of an observable whose square is computed for its variance."""


class Columns(NamedTuple):
    """How outputs are made of columns: what the kernel computes, and for each output what it is of its columns."""

    parts: list[PauliSum | tuple[int, ...]]
    """Sums, of one column each, and qubits, whose probabilities are 2**k columns."""
    shapes: list[tuple[int, ...]]
    """Of each output's value."""
    variances: list[bool]
    """Whether an output is a variance: its columns are those of the square and of the observable."""

    def values(self, found: NDArray[np.float64]) -> list[NDArray[np.float64]]:
        """Each output's values from the kernel's, which have the batch in front."""
        return [
            part[:, 0] - part[:, 1] ** 2 if variance else part.reshape(len(found), *shape)
            for part, shape, variance in self._parts(found)
        ]

    def flat(self, found: NDArray[np.float64]) -> NDArray[np.float64]:
        """The same, one output behind the other: (batch, numbers of all outputs)."""
        if not self.has_variances:
            return found
        return np.concatenate(
            [value.reshape(len(found), math.prod(shape)) for value, shape in zip(self.values(found), self.shapes)],
            axis=1,
        )

    def cotangents(self, given: NDArray[Any], found: NDArray[np.float64] | None) -> NDArray[np.float64]:
        """The cotangents of the kernel's columns from those of the outputs, one output behind the other. found: the
        kernel's values, on which those of variances depend."""
        if not self.has_variances:
            return np.ascontiguousarray(given) if isinstance(given, np.ndarray) else given
        given = given.astype(np.float64, copy=False)
        assert found is not None, "a variance needs the value of its observable"
        columns = []
        at = 0
        for part, shape, variance in self._parts(found):
            g = given[:, at : at + math.prod(shape)]
            columns.append(np.concatenate([g, -2 * part[:, 1:] * g], axis=1) if variance else g)
            at += math.prod(shape)
        return np.concatenate(columns, axis=1)

    @property
    def has_variances(self) -> bool:
        return True in self.variances

    def _parts(self, found: NDArray[np.float64]) -> Any:
        column = 0
        for shape, variance in zip(self.shapes, self.variances):
            width = 2 if variance else math.prod(shape)
            yield found[:, column : column + width], shape, variance
            column += width


def unfit(outputs: Sequence[Output], num_qubits: int) -> str:
    """Why outputs are not for row programs; empty where they are."""
    for output in outputs:
        if isinstance(output, Variance):
            if len(expectation.as_pauli_sum(output.observable, num_qubits)) > _MOST_SQUARED:
                return f"the variance of an observable of more than {_MOST_SQUARED} terms"
        elif not isinstance(output, Expectation | Probabilities):
            return f"the output {type(output).__name__}"
    return "" if outputs else "there is no output"


def key(outputs: Sequence[Output], num_qubits: int) -> Hashable:
    """What outputs are found again by."""

    def one(output: Output) -> Hashable:
        if isinstance(output, Probabilities):
            return type(output), checks.checked_qubits(output.qubits, num_qubits)
        return type(output), expectation.as_pauli_sum(_observable(output), num_qubits).key

    return tuple(map(one, outputs))


def columns(outputs: Sequence[Output], num_qubits: int) -> Columns:
    """Raises StateError for observables that are not Hermitian or of other qubits."""
    parts: list[PauliSum | tuple[int, ...]] = []
    shapes, variances = [], []
    for output in outputs:
        variances.append(isinstance(output, Variance))
        shapes.append(output.shape(num_qubits))
        if isinstance(output, Probabilities):
            parts.append(checks.checked_qubits(output.qubits, num_qubits))
            continue
        if isinstance(output, Variance):
            parts += output.moments(num_qubits)
        else:
            parts.append(expectation.as_hermitian_sum(_observable(output), num_qubits))
    return Columns(parts, shapes, variances)


def _observable(output: Output) -> Observable:
    assert isinstance(output, Expectation | Variance), "others are unfit"
    return output.observable
