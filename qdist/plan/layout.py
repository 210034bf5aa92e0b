"""Layout: which bit of an amplitude's index each qubit is."""

from __future__ import annotations

import operator
from collections.abc import Iterable
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

__all__ = ["Layout"]

IndexLike = TypeVar("IndexLike", int, NDArray[np.integer[Any]])


class Layout:
    """A map from qubits to bit positions. Immutable and hashable.

    A *logical* index has qubit q at bit q; the *physical* index of the same amplitude, the one that says where
    it is stored, has it at bit `positions[q]`.

    Args:
        positions: the position of each qubit; every one of 0 to n - 1 once.

    Raises:
        ValueError: if the positions are no permutation of 0 to n - 1.

    >>> layout = Layout.identity(3).swap(0, 2)
    >>> layout.positions
    (2, 1, 0)
    >>> layout.to_physical(0b001)
    4
    """

    def __init__(self, positions: Iterable[int]) -> None:
        self._positions = tuple(operator.index(p) for p in positions)
        if sorted(self._positions) != list(range(len(self._positions))):
            raise ValueError(
                f"positions must hold each of 0 to {len(self._positions) - 1} once; got {list(self._positions)}"
            )

    @classmethod
    def identity(cls, num_qubits: int) -> Layout:
        """Every qubit at the bit of its own number."""
        return cls(range(num_qubits))

    @property
    def num_qubits(self) -> int:
        """How many qubits have a position."""
        return len(self._positions)

    @property
    def positions(self) -> tuple[int, ...]:
        """The bit position of each qubit."""
        return self._positions

    @cached_property
    def qubits(self) -> tuple[int, ...]:
        """The qubit at each bit position: the inverse of `positions`."""
        qubits = [0] * len(self._positions)
        for qubit, position in enumerate(self._positions):
            qubits[position] = qubit
        return tuple(qubits)

    @cached_property
    def is_identity(self) -> bool:
        """Whether physical and logical indices are the same."""
        return self._positions == tuple(range(len(self._positions)))

    def swap(self, a: int, b: int) -> Layout:
        """The layout with the qubits at positions `a` and `b` exchanged."""
        qubits = list(self.qubits)
        for position in (a, b):
            if not 0 <= position < len(qubits):
                raise ValueError(f"position {position} is out of range: the layout has 0 to {len(qubits) - 1}")
        qubits[a], qubits[b] = qubits[b], qubits[a]
        return Layout(qubits).inverse()

    def inverse(self) -> Layout:
        """The layout whose positions are this one's qubits."""
        return Layout(self.qubits)

    def to_physical(self, index: IndexLike) -> IndexLike:
        """Where the amplitudes of logical indices are stored; also turns masks of qubits into masks of positions."""
        return index if self.is_identity else _moved(index, self._positions)

    def to_logical(self, index: IndexLike) -> IndexLike:
        """The logical indices of what is stored at physical ones: the inverse of `to_physical`."""
        return index if self.is_identity else _moved(index, self.qubits)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Layout):
            return NotImplemented
        return self._positions == other._positions

    def __hash__(self) -> int:
        return hash(self._positions)

    def __reduce__(self) -> tuple[Any, ...]:
        return Layout, (self._positions,)

    def __repr__(self) -> str:
        if self.is_identity:
            return f"Layout.identity({self.num_qubits})"
        return f"Layout({list(self._positions)})"


def _moved(index: Any, targets: tuple[int, ...]) -> Any:
    """The integers with bit k moved to bit targets[k]."""
    result = index & 0
    for source, target in enumerate(targets):
        result |= (index >> source & 1) << target
    return result
