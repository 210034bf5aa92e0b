"""The outputs of a layer as columns of real numbers; a complex output has its real parts, then its imaginary ones."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from qdist.state.outputs import Output

__all__ = ["Columns"]


class Columns:
    """Where the numbers of each output are in a row."""

    def __init__(self, outputs: Sequence[Output], num_qubits: int) -> None:
        self._shapes = [output.shape(num_qubits) for output in outputs]
        self._complex = [np.dtype(output.dtype).kind == "c" for output in outputs]
        sizes = [math.prod(shape) << double for shape, double in zip(self._shapes, self._complex)]
        self._bounds = np.cumsum(sizes)[:-1]
        self.width = sum(sizes)

    def of(self, values: Sequence[Any]) -> NDArray[np.float64]:
        """One row of numbers, from the value of each output."""
        parts: list[Any] = []
        for value, double in zip(values, self._complex):
            flat = np.ravel(value)
            parts += [flat.real, flat.imag] if double else [flat]
        return np.concatenate(parts)

    def of_rows(self, values: Sequence[NDArray[Any]]) -> NDArray[np.float64]:
        """The same for values that have the batch in front: (batch, width)."""
        parts: list[Any] = []
        for value, double in zip(values, self._complex):
            flat = value.reshape(len(value), math.prod(value.shape[1:]))
            parts += [flat.real, flat.imag] if double else [flat]
        return np.concatenate(parts, axis=1)

    def cotangents(self, gradient: NDArray[np.float64]) -> list[NDArray[Any]]:
        """Of each output, with the batch in front."""
        found: list[NDArray[Any]] = []
        for part, shape, double in zip(np.split(gradient, self._bounds, axis=1), self._shapes, self._complex):
            if double:
                half = part.shape[1] // 2
                found.append((part[:, :half] + 1j * part[:, half:]).reshape(len(gradient), *shape))
            else:
                found.append(part.reshape(len(gradient), *shape))
        return found
