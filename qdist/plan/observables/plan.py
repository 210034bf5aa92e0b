"""The plan of observables: their Pauli strings in groups, each under a layout in which it needs no exchange."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from qdist.circuit import PauliSum
from qdist.circuit.pauli.masks import bit_count
from qdist.plan.layout import Layout
from qdist.plan.observables.cover import LayoutGroup, cover
from qdist.plan.observables.strings import Strings
from qdist.plan.operations import Operation

__all__ = ["ObservablePlan", "plan_observables"]


@dataclass(frozen=True, slots=True)
class ObservablePlan:
    """How the Pauli strings of observables are computed on a state of a given layout."""

    groups: list[LayoutGroup]
    strings: list[Strings]
    """Those of each group, by the positions of its layout."""
    wide: Strings
    """Strings that flip more qubits than can be close, by the positions of the present layout, under which they run."""
    constants: NDArray[np.float64]
    """The coefficient of the identity of each observable, where it is not among the strings."""

    @property
    def exchanges(self) -> int:
        """Exchanges between shards: one between two groups, and one for each mask of wide strings."""
        return len(self.groups) - 1 + len(np.unique(self.wide.x))


def plan_observables(
    sums: Sequence[PauliSum],
    layout: Layout,
    shard_bits: int,
    gates: Sequence[Operation] = (),
    real: bool = True,
    traceless: bool = False,
) -> ObservablePlan:
    """The plan for some sums in a state of this layout. Deterministic.

    gates: X, CX and SWAP that come before the observables, and are not run. real: whether imaginary parts of
    coefficients are left out. traceless: whether multiples of the identity are, unless there is nothing else.
    """
    strings = Strings.of(sums, real).before(gates)
    constants = np.zeros(len(sums))
    identity = (strings.x | strings.z) == 0
    if traceless and not identity.all():
        np.add.at(constants, strings.observable[identity], strings.coefficients[identity].real)
        strings = strings.chosen(~identity)
    wide = bit_count(strings.x[:, None]) > shard_bits
    narrow = strings.chosen(~wide)
    groups = cover(np.unique(narrow.x).tolist(), layout, shard_bits)
    if len(groups) == 1:
        parts = [narrow]
    else:
        parts = [narrow.chosen(np.isin(narrow.x, np.array(list(group.masks), np.uint64))) for group in groups]
    placed = [part.at(group.layout) for group, part in zip(groups, parts)]
    return ObservablePlan(groups, placed, strings.chosen(wide).at(layout), constants)
