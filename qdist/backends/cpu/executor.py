"""The CPU executor: lowers a plan's blocks to the kernels' program and runs it on a shard."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np

from qdist.backends.backend import Executor
from qdist.backends.in_tile import pauli_masks, permutation_source
from qdist.circuit import AffineMap
from qdist.native import kernels
from qdist.plan.fuse import Block
from qdist.plan.operations import Affine, Operation
from qdist.plan.stages.backward import Backward
from qdist.plan.stages.schedule import Stage

__all__ = ["CpuExecutor"]

_Native: TypeAlias = "kernels.Program64 | kernels.Program128"

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
        for stage, blocks in stages:
            self._native.begin_stage(list(stage.close))
            tile = _Tile(stage.close)
            for block in blocks:
                _LOWER[block.kind](self._native, tile, block)

    def bind(self, theta: np.ndarray) -> bool:
        """Computes all matrices and phases from the parameters' values (float64); False if one is not finite."""
        return self._native.bind_parameters(theta)

    def bind_angles(self, angles: np.ndarray) -> None:
        """Computes all matrices and phases from the circuit's angles (float64)."""
        self._native.bind(angles)

    def run_from_zero(self, shard: np.ndarray) -> None:
        """Puts |0...0> into a shard that holds the whole state, and runs."""
        self._native.run_from_zero(shard)

    @property
    def num_stages(self) -> int:
        return self._native.num_stages

    def run(
        self, shard: np.ndarray, offset: int = 0, live: int = -1, after_stage: Callable[[], None] | None = None
    ) -> None:
        """Runs on ``shard`` in place. ``offset``: the physical index of its first amplitude in the whole state.

        ``live``: nonzero-support mask: amplitudes whose index has a 1 outside of it are zero, and are not computed;
        0 for |0...0>, -1 for any state. ``after_stage`` is called after each sweep.
        """
        live &= (1 << self._native.num_bits) - 1
        if after_stage is None:
            self._native.run(shard, offset, live, 0, self.num_stages)
            return
        for stage in range(self.num_stages):
            live = self._native.run(shard, offset, live, stage, stage + 1)
            after_stage()

    def run_batch(self, states: np.ndarray, angles: np.ndarray) -> None:
        """Binds and runs once for each row of ``angles``, on the row of ``states``, which is |0...0> before."""
        self._native.run_batch(states, angles)

    def lower_back(self, plan: Backward) -> None:
        """Nothing to prepare: the stages are undone as they are."""

    @property
    def is_trainable(self) -> bool:
        """Whether anything in it depends on a parameter."""
        return self._native.is_trainable

    def run_back(
        self,
        ket: np.ndarray,
        bra: np.ndarray,
        gradient: np.ndarray,
        offset: int = 0,
        live: int = -1,
        recover: bool = True,
        shift: float = 0.0,
    ) -> None:
        """Undoes the run on both shards in place, and adds 2 Re <bra|d ket> by each angle to ``gradient`` (float64).

        ``offset`` and ``live`` are those of the run. Without ``recover`` the sweep ends at the first block that depends
        on a parameter, and leaves nothing of use in the shards. ``shift``: the multiple of the ket that is first
        subtracted from the bra, which changes no derivative (see ``adjoint.sweep_back``).
        """
        live &= (1 << self._native.num_bits) - 1
        self._native.run_back(ket, bra, offset, live, recover, shift, gradient)

    def run_back_batch(
        self, kets: np.ndarray, bras: np.ndarray, angles: np.ndarray, shifts: np.ndarray, gradients: np.ndarray
    ) -> None:
        """run_back, without recovery, for each row of what run_batch made; gradients: one row of angles each."""
        self._native.run_back_batch(kets, bras, angles, shifts, gradients)


class _Tile:
    """Bits of qubits relative to a tile: tile bits for those inside, positions of the shard's index for the others."""

    def __init__(self, close: Sequence[int]) -> None:
        self.bit = {qubit: k for k, qubit in enumerate(close)}

    def masks(self, values: Sequence[tuple[int, int]]) -> tuple[int, int, int, int]:
        """(mask, value) of the tile's bits and of the index's, for qubits and the values they must have."""
        mask = value = far_mask = far_value = 0
        for qubit, v in values:
            if qubit in self.bit:
                mask |= 1 << self.bit[qubit]
                value |= v << self.bit[qubit]
            else:
                far_mask |= 1 << qubit
                far_value |= v << qubit
        return mask, value, far_mask, far_value


def _factor(operation: Operation, bits: list[int]) -> tuple[int, list[int], list[int], list[complex]]:
    matrix = [] if operation.matrix is None else np.asarray(operation.matrix).ravel().tolist()
    return operation.formula, list(operation.slots), bits, matrix


def _dense(native: _Native, tile: _Tile, block: Block) -> None:
    targets: list[int] = []
    for operation in block.operations:
        targets += [q for q in operation.targets if q not in targets]
    factors = [_factor(o, [targets.index(q) for q in o.targets]) for o in block.operations]
    native.dense([tile.bit[q] for q in targets], *tile.masks(block.operations[0].controls), factors)


def _diagonal(native: _Native, tile: _Tile, block: Block) -> None:
    size = native.tile_bits
    terms: dict[tuple[int, int], list[Affine]] = {}
    wide = []

    def bit(qubit: int) -> int:
        return tile.bit[qubit] if qubit in tile.bit else size + qubit

    for operation in block.operations:
        for product, affine in operation.terms:
            bits = sorted(bit(q) for q in product)
            key = (bits[0], bits[-1]) if bits else (-1, -1)
            terms.setdefault(key, []).append(affine)
        for conditions, (constant, slots) in operation.wide:
            wide.append((*tile.masks(conditions), constant, list(slots)))
    native.diagonal([(*key, *_sum(affines)) for key, affines in terms.items()], wide)


def _sum(affines: list[Affine]) -> tuple[float, list[tuple[int, float]]]:
    return sum(a[0] for a in affines), [term for a in affines for term in a[1]]


def _linear(native: _Native, tile: _Tile, block: Block) -> None:
    flips = [o for o in block.operations if o.kind == "flip"]
    if len(flips) == len(block.operations) <= _EAGER_FLIPS:
        for operation in flips:
            x: tuple[int, list[int], list[int], list[complex]] = (0, [], [0], [0, 1, 1, 0])
            native.dense([tile.bit[operation.targets[0]]], *tile.masks(operation.controls), [x])
        return
    size = native.tile_bits
    # The permutation as an affine map over GF(2): result[i] = tile[source(i)], source(i) = XOR of columns[k] over the
    # set bits k of i, a constant, and the masks of CX whose far control is met. Going through the gates in
    # order composes their inverses.
    columns = [1 << k for k in range(size)]
    constant = 0
    far: list[tuple[int, int, int]] = []
    for operation in block.operations:
        if operation.kind == "swap":
            a, b = (tile.bit[q] for q in operation.targets)
            columns[a], columns[b] = columns[b], columns[a]
            continue
        target = tile.bit[operation.targets[0]]
        if not operation.controls:
            constant ^= columns[target]
        else:
            ((control, value),) = operation.controls
            if control in tile.bit:
                # source'(i) = source(i with target ^= control): control's column gains the target's.
                columns[tile.bit[control]] ^= columns[target]
                if not value:
                    constant ^= columns[target]
            else:
                far.append((1 << control, value << control, columns[target]))
    source = np.zeros(1, np.uint32)
    for column in columns:
        source = np.concatenate([source, source ^ np.uint32(column)])
    native.permutation((source ^ np.uint32(constant)).tolist(), far)


def _rotation(native: _Native, tile: _Tile, block: Block) -> None:
    (operation,) = block.operations
    slots = [(operation.slots[0], operation.sign)]
    native.pauli_rotation(*pauli_masks(operation, tile.bit), *tile.masks(operation.controls), slots)


def _permute(native: _Native, tile: _Tile, block: Block) -> None:
    (operation,) = block.operations
    native.permutation(permutation_source(operation, tile.bit, native.tile_bits).tolist(), [])


def _table(native: _Native, tile: _Tile, block: Block) -> None:
    for operation in block.operations:
        inside: list[tuple[int, int]] = []
        outside: list[tuple[int, int]] = []
        for k, qubit in enumerate(operation.targets):
            (inside if qubit in tile.bit else outside).append((tile.bit.get(qubit, qubit), k))
        native.table(inside, outside, *tile.masks(operation.controls), np.asarray(operation.matrix).tolist())


_LOWER = {
    "dense": _dense,
    "diagonal": _diagonal,
    "linear": _linear,
    "rotation": _rotation,
    "permute": _permute,
    "table": _table,
}
