"""Whether the values that a derivative needs are still those of the forward pass.

Changes that Tensors know of (`t.data = ...`, `t.data -= step`, `t[...] = ...`, assign) are counted. An array, however,
can be written by whoever holds it: through `.data` or `.numpy()`, through a view, or through the array that a Tensor
was made of. So memory is either inside, where only Tensors can reach it and counting is enough, or outside. What a
graph has saved is digested when it leaves, and what is outside when it is saved; the backward pass compares. Memory
that nobody else holds any more, as the interpreter's count of references tells, is inside again: a training loop
digests nothing but arrays that its author keeps.
"""

from __future__ import annotations

import sys
import zlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from qdist.native import kernels

from .arrays import Array, module_of

_ROW = 512  # Words of 8 bytes.
_BYTES_AT_ONCE = 1 << 16


class Version:
    """Of the memory that a Tensor and its views share."""

    # Class-level defaults keep the making of a tensor cheap.
    count = 0
    """How many times Tensors have changed it."""
    outside = False
    """Whether others than Tensors may hold it."""
    _savers: list[Any] | None = None  # Weak references to the Nodes that saved it at this count, without a digest.
    _limit = 32

    def __getstate__(self) -> dict[str, Any]:
        # No graph has saved what is copied or loaded.
        return {name: value for name, value in self.__dict__.items() if name != "_savers"}

    def changed(self) -> None:
        """A Tensor has changed the values: by the count alone, what was saved before is of no use any more."""
        self.count += 1
        self._savers = None

    def leave(self) -> None:
        """The memory is about to be shown to others: what graphs have saved of it is digested while it is as it was."""
        if self._savers is not None:
            for saver in self._savers:
                node = saver()
                if node is not None:
                    node.seal(self)
            self._savers = None
        self.outside = True

    def _drop_savers(self) -> None:
        """Forget the graphs that are gone: of a tensor that never changes there is one after the other."""
        self._savers = [saver for saver in self._savers or () if (node := saver()) is not None and not node.freed]
        self._limit = max(32, 2 * len(self._savers))


_OWN = sys.getrefcount(np.empty(0))
"""References that its argument has of the call alone. It is called where the array is at hand: a Python function's
argument has one more where a compiler of torch's watches calls."""


def held_elsewhere(tensor: Any, *known: Sequence[Any]) -> bool:
    """Whether anything but this tensor and these sequences holds its array, or memory that the array is a view of."""
    if tensor._data.base is not None:
        return True
    holders = 1
    views: set[int] = set()
    for entries in known:
        for entry in entries:
            if entry is tensor._data:
                holders += 1
            elif getattr(entry, "base", None) is tensor._data:
                views.add(id(entry))
    entry = None
    return sys.getrefcount(tensor._data) - _OWN > holders + len(views)


def shares(saved: Any, array: Array) -> bool:
    """Whether a saved value is this array, or overlaps it in memory."""
    if saved is array:
        return True
    if saved.__class__ is not array.__class__ or (saved.base is None and array.base is None):
        return False
    if _root(saved) is not _root(array):
        return False
    return bool(module_of(array).may_share_memory(saved, array))


def _root(array: Any) -> Any:
    while getattr(array, "base", None) is not None:
        array = array.base
    return array


def digest(array: Array) -> tuple[int, ...]:
    """Checksums of an array's bytes, of their values as of their places.

    Of a large array, words are added up along the rows and along the columns of a matrix of them, which costs a small
    part of what a checksum of every byte does: the memory is read at full speed.
    """
    xp = module_of(array)
    flat = array.ravel(order="A").view(np.uint8)  # A view of what is contiguous in C's or Fortran's order.
    if flat.size <= _BYTES_AT_ONCE:
        return (zlib.crc32(flat if xp is np else flat.get()),)
    whole = flat.size - flat.size % (8 * _ROW)
    words = flat[:whole].view(np.uint64).reshape(-1, _ROW)
    if xp is np and words.flags.aligned:
        rows, columns = np.empty(len(words), np.uint64), np.empty(_ROW, np.uint64)
        kernels.word_sums(words, rows, columns)
        parts = [columns, rows, flat[whole:]]
    else:
        parts = [words.sum(axis=0), words.sum(axis=1), flat[whole:]]
    return tuple(zlib.crc32(part if xp is np else part.get()) for part in parts)
