"""Forms: the dimensions of an operator under labels, and from them all the ways to spread it over a mesh axis.

A form is written like an einsum. Dimensions under one label are cut together: cutting "k" of "mk,kn->mn" gives
every rank a slice of both inputs and leaves a sum over the ranks, a Partial output. A dimension without a label
(None) has to be whole.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from qdist.parallel.auto.placement.placements import Partial, Placement, Replicate, Shard

__all__ = ["Extra", "Form", "Label", "Split"]

Label = str | None
_NO_MORE = 1 << 62


@dataclass(frozen=True)
class Split:
    """One way to run an operator along one mesh axis: how its inputs have to lie and how its outputs then do."""

    label: Label
    """The label that is cut; None where nothing is, or where a sum stays a sum."""
    inputs: tuple[Placement, ...]
    outputs: tuple[Placement, ...]
    inside: int = 0
    """How many numbers the operation itself adds up over the ranks of the axis, while it runs forward."""

    @property
    def blocks(self) -> int:
        """In how many blocks something is cut."""
        return max((p.blocks for p in (*self.inputs, *self.outputs) if isinstance(p, Shard)), default=1)

    @property
    def differs(self) -> bool:
        """Whether the ranks compute different things, so that gradients of Replicate inputs are terms of a sum."""
        return any(not isinstance(p, Replicate) for p in (*self.inputs, *self.outputs))


class Extra(NamedTuple):
    """A way to run an operator that its labels do not tell; its label is cut by one axis at most."""

    split: Split
    length: int
    """Of what is cut."""
    exact: bool
    """Only equal parts may be cut."""


@dataclass(frozen=True)
class Form:
    """The labels of one application of an operator.

    Attributes:
        inputs, outputs: a label or None for every dimension of every input and output.
        sizes: length under each label.
        exact: labels that only equal parts may cut (a reshape regroups whole parts).
        added: inputs that are added once to a sum over ranks (a bias): they become terms of it.
        linear: groups of inputs in which the operator is linear, so that sums may pass through it.
        product: the work is one multiply-add for every combination of labels, as in a matrix product.
        elements: numbers in the output, where the labels do not tell.
    """

    inputs: tuple[tuple[Label, ...], ...]
    outputs: tuple[tuple[Label, ...], ...]
    sizes: Mapping[str, int]
    exact: frozenset[str] = frozenset()
    added: tuple[int, ...] = ()
    linear: tuple[tuple[int, ...], ...] = ()
    product: bool = False
    elements: int | None = None
    extra: tuple[Extra, ...] = ()
    """Ways that labels do not tell."""

    @cached_property
    def output_elements(self) -> int:
        """Numbers in the first output."""
        if self.elements is not None:
            return self.elements
        return math.prod(self.sizes[label] for label in self.outputs[0] if label is not None)

    def whole(self) -> Split:
        """Everything Replicate: all ranks do the same."""
        return Split(None, (Replicate(),) * len(self.inputs), (Replicate(),) * len(self.outputs))

    def splits(self, degree: int, cut: Mapping[str, int], blocks: Iterable[tuple[str, int]] = ()) -> Iterator[Split]:
        """All ways along an axis of `degree` ranks.

        Args:
            degree: ranks of the axis.
            cut: into how many parts labels are cut already.
            blocks: labels that may also be cut in so many blocks.
        """
        yield self.whole()
        for label in self.sizes:
            if self.fits(label, degree, cut):
                yield self.cutting(label)
        for label, count in dict.fromkeys(blocks):
            whole_blocks = self.sizes.get(label, 1) % (count * degree) == 0 and label not in self.exact
            if whole_blocks and label not in cut:
                yield self.cutting(label, count)
        for group in self.linear:
            sums = tuple(Partial() if i in group else Replicate() for i in range(len(self.inputs)))
            yield Split(None, sums, (Partial(),) * len(self.outputs))
        for split, length, exact in self.extra:
            if split.label not in cut and (length % degree == 0 if exact else length >= degree):
                yield split

    def after(self, split: Split, cut: Mapping[str, int], degree: int) -> dict[str, int]:
        """Into how many parts labels are cut when an axis of `degree` ranks is cut in this way too."""
        if split.label is None:
            return dict(cut)
        # No other axis may cut what is cut in blocks.
        parts = _NO_MORE if split.blocks > 1 else degree * cut.get(split.label, 1)
        return {**cut, split.label: parts}

    def fits(self, label: str, degree: int, cut: Mapping[str, int]) -> bool:
        """Whether `degree` ranks can cut this label once more."""
        parts = degree * cut.get(label, 1)
        size = self.sizes[label]
        return size % parts == 0 if label in self.exact else size >= parts

    def cutting(self, label: str, blocks: int = 1) -> Split:
        """The way that cuts one label, as a whole or every one of several blocks."""
        outputs = tuple(_place(dims, label, blocks, Partial()) for dims in self.outputs)
        terms = isinstance(outputs[0], Partial)
        inputs = tuple(
            _place(dims, label, blocks, Partial() if terms and i in self.added else Replicate())
            for i, dims in enumerate(self.inputs)
        )
        return Split(label, inputs, outputs)


def _place(dims: Sequence[Label], label: str, blocks: int, otherwise: Placement) -> Placement:
    return Shard(dims.index(label), blocks) if label in dims else otherwise
