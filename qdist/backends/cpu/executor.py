"""The CPU executor: lowers a plan's blocks to the kernels' program and runs it on a shard."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import count
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from qdist.backends.backend import Executor
from qdist.backends.in_tile import (
    condition_masks,
    constant_matrix,
    dense_targets,
    factors_of,
    pauli_masks,
    permutation_source,
)
from qdist.backends.index_map import index_map
from qdist.backends.pairs import Form, Pairs
from qdist.circuit import AffineMap
from qdist.native import kernels
from qdist.plan.fuse import Block
from qdist.plan.operations import Affine
from qdist.plan.stages.backward import Backward
from qdist.plan.stages.schedule import Stage

__all__ = ["CpuExecutor"]

_Native: TypeAlias = "kernels.Program64 | kernels.Program128"

_Bits: TypeAlias = Mapping[int, int]
"""The tile's bit of each qubit inside; the others are bits of the shard's index."""

_EAGER_FLIPS = 2
"""Blocks of up to so many CX run them as controlled gates, on half the tile; larger ones as one index permutation."""


class CpuExecutor(Executor):
    """Stages of blocks on a shard of ``num_bits`` index bits, position p holding qubit p.

    ``affine`` tells how the circuit's angles follow from its parameters. ``dtype`` is what shards are stored in; with
    ``in_double`` they are computed in complex128 all the same.
    """

    def __init__(
        self,
        num_bits: int,
        dtype: np.dtype,
        stages: Sequence[tuple[Stage, list[Block]]],
        affine: AffineMap,
        in_double: bool = False,
    ) -> None:
        self.dtype = np.dtype(dtype)
        single = self.dtype == np.complex64 and not in_double
        self._native: _Native = (kernels.Program64 if single else kernels.Program128)(num_bits)
        entries = zip(affine.slots.tolist(), affine.parameters.tolist(), affine.coefficients.tolist())
        self._native.set_affine(list(entries), affine.constants.tolist())
        pairs = _pairs([block for _, blocks in stages for block in blocks], affine)
        numbers = count()
        for stage, blocks in stages:
            self._native.begin_stage(list(stage.close), not any(block.changes_norm for block in blocks))
            bit = {qubit: k for k, qubit in enumerate(stage.close)}
            for block, number in zip(blocks, numbers):
                if number in pairs:
                    _pair(self._native, bit, block, *pairs[number])
                else:
                    _LOWER[block.kind](self._native, bit, block)

    def bind(self, theta: np.ndarray) -> bool:
        return self._native.bind_parameters(theta)

    def bind_angles(self, angles: np.ndarray) -> None:
        self._native.bind(angles)

    def run_from_zero(self, shard: np.ndarray) -> None:
        self._native.run_from_zero(shard)

    @property
    def num_stages(self) -> int:
        return self._native.num_stages

    def run(
        self, shard: np.ndarray, offset: int = 0, support: int = -1, after_stage: Callable[[], None] | None = None
    ) -> None:
        support &= (1 << self._native.num_bits) - 1
        if after_stage is None:
            self._native.run(shard, offset, support, 0, self.num_stages)
            return
        for stage in range(self.num_stages):
            support = self._native.run(shard, offset, support, stage, stage + 1)
            after_stage()

    def run_batch(self, states: np.ndarray, angles: np.ndarray) -> None:
        self._native.run_batch(states, angles)

    def lower_back(self, plan: Backward) -> None:
        """Nothing to prepare: the stages are undone as they are."""

    @property
    def is_trainable(self) -> bool:
        return self._native.is_trainable

    def run_back(
        self,
        ket: np.ndarray,
        bra: np.ndarray,
        gradient: np.ndarray,
        offset: int = 0,
        support: int = -1,
        recover: bool = True,
        shift: float = 0.0,
    ) -> None:
        support &= (1 << self._native.num_bits) - 1
        self._native.run_back(ket, bra, offset, support, recover, shift, gradient)

    def run_back_batch(
        self, kets: np.ndarray, bras: np.ndarray, angles: np.ndarray, shifts: np.ndarray, gradients: np.ndarray
    ) -> None:
        self._native.run_back_batch(kets, bras, angles, shifts, gradients)


def _pairs(blocks: Sequence[Block], affine: AffineMap) -> dict[int, tuple[Form, NDArray[np.float64]]]:
    """What becomes of the two-qubit matrices that no parameter changes (``Pairs.numbers``), by the number of the block.
    Real ones cost less as they are."""
    pairs, numbers = Pairs(), []
    trainable = set(affine.slots.tolist())
    for number, block in enumerate(blocks):
        targets = dense_targets(block) if block.kind == "dense" else []
        if len(targets) == 2 and not any(o.controls or trainable & o.reads for o in block.operations):
            matrix = constant_matrix(factors_of(block, targets), [0, 1], affine.constants)
            if matrix.imag.any():
                pairs.add((targets[0], targets[1]), matrix)
                numbers.append(number)
                continue
        pairs.touch(block.all)
    return dict(zip(numbers, pairs.numbers()))


def _pair(native: _Native, bit: _Bits, block: Block, form: Form, numbers: NDArray[np.float64]) -> None:
    targets = dense_targets(block)
    bits = [bit[q] for q in targets]
    if form == Form.PAIR:
        native.pair(bits, numbers[:15].tolist())
    else:
        native.dense(bits, 0, 0, 0, 0, [(0, [], [0, 1], numbers.view(np.complex128).tolist())])


def _dense(native: _Native, bit: _Bits, block: Block) -> None:
    targets = dense_targets(block)
    conditions = condition_masks(block.operations[0].controls, bit)
    native.dense([bit[q] for q in targets], *conditions, factors_of(block, targets))


def _diagonal(native: _Native, bit: _Bits, block: Block) -> None:
    size = native.tile_bits
    terms: dict[tuple[int, int], list[Affine]] = {}
    wide = []

    for operation in block.operations:
        for product, affine in operation.terms:
            bits = sorted(bit.get(q, size + q) for q in product)
            key = (bits[0], bits[-1]) if bits else (-1, -1)
            terms.setdefault(key, []).append(affine)
        for conditions, (constant, slots) in operation.wide:
            wide.append((*condition_masks(conditions, bit), constant, list(slots)))
    native.diagonal([(*key, *_sum(affines)) for key, affines in terms.items()], wide)


def _sum(affines: list[Affine]) -> tuple[float, list[tuple[int, float]]]:
    return sum(a[0] for a in affines), [term for a in affines for term in a[1]]


def _linear(native: _Native, bit: _Bits, block: Block) -> None:
    flips = [o for o in block.operations if o.kind == "flip"]
    if len(flips) == len(block.operations) <= _EAGER_FLIPS:
        for operation in flips:
            x: tuple[int, list[int], list[int], list[complex]] = (0, [], [0], [0, 1, 1, 0])
            native.dense([bit[operation.targets[0]]], *condition_masks(operation.controls, bit), [x])
        return
    change = index_map(block.operations, bit, native.tile_bits)
    source = np.zeros(1, np.uint32)
    for column in change.columns:
        source = np.concatenate([source, source ^ np.uint32(column)])
    native.permutation((source ^ np.uint32(change.constant)).tolist(), list(change.flips))


def _rotation(native: _Native, bit: _Bits, block: Block) -> None:
    strings = []
    for operation in block.operations:
        x, z, far_z, _ = pauli_masks(operation, bit)
        strings.append((z, far_z, [(operation.slots[0], operation.sign)]))
    native.rotations(x, *condition_masks(block.operations[0].controls, bit), strings)


def _permute(native: _Native, bit: _Bits, block: Block) -> None:
    (operation,) = block.operations
    native.permutation(permutation_source(operation, bit, native.tile_bits).tolist(), [])


def _table(native: _Native, bit: _Bits, block: Block) -> None:
    for operation in block.operations:
        inside: list[tuple[int, int]] = []
        outside: list[tuple[int, int]] = []
        for k, qubit in enumerate(operation.targets):
            (inside if qubit in bit else outside).append((bit.get(qubit, qubit), k))
        native.table(inside, outside, *condition_masks(operation.controls, bit), np.asarray(operation.matrix).tolist())


_LOWER = {
    "dense": _dense,
    "diagonal": _diagonal,
    "linear": _linear,
    "rotation": _rotation,
    "permute": _permute,
    "table": _table,
}
