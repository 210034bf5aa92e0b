"""Shards: parameters laid end to end and cut into one equal part a rank."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from qdist.comm import Communicator
from qdist.nn import Parameter, materialize
from qdist.parallel.replica.buckets import Bucket
from qdist.parallel.zero.prefetch import Prefetch
from qdist.tensor import Tensor
from qdist.tensor.arrays import FLOAT32, Array, device_of, is_half, module_of, to_device
from qdist.tensor.autograd import mode

__all__ = ["GradientPart", "Piece", "ShardedParameter", "Unit", "View"]


class ShardedParameter(Parameter):
    """A parameter whose values are on this rank only while its unit is gathered.

    A backward pass gathers it when it needs it, which is when layers are recomputed.
    """

    replicated = False
    unit: Unit
    whole: Array | None
    whole_shape: tuple[int, ...]
    whole_dtype: np.dtype

    @property
    def _data(self) -> Array:  # type: ignore[override]
        if self.whole is None and mode.walks:
            self.unit.gather()
        elif self.whole is None and self.unit.lent is not None:
            # Read by a module that does not have it, as in `x + self.table.weight[:n]`: until the pass ends.
            self.unit.lent.append(self.unit)
            self.unit.hold()
        if self.whole is None:
            raise RuntimeError(
                f"this parameter of shape {self.whole_shape} is sharded (ZeRO stage 3) and not gathered now; values "
                "are here while a module runs that has it: assign it as an attribute of every module that uses it, or "
                "read it from Zero.state_dict()"
            )
        return self.whole

    @_data.setter
    def _data(self, value: Array) -> None:
        raise RuntimeError("a sharded parameter is not overwritten: use Zero.load_state_dict()")

    @property
    def shape(self) -> tuple[int, ...]:
        return self.whole_shape

    @property
    def dtype(self) -> np.dtype:
        return self.whole_dtype

    @property
    def device(self) -> str:
        return device_of(self.unit.own)

    @property
    def ndim(self) -> int:
        return len(self.whole_shape)

    @property
    def size(self) -> int:
        return int(np.prod(self.whole_shape))

    @property
    def nbytes(self) -> int:
        """Of the whole parameter, of which a rank keeps its part."""
        return self.size * self.whole_dtype.itemsize


@dataclass(frozen=True, slots=True)
class Piece:
    """The part of one parameter that this rank updates."""

    index: int
    """Of the parameter in its unit."""
    start: int
    stop: int
    """Where it stands in the flattened parameter."""
    tensor: Tensor
    """Its values, 1-D, in the precision of the optimiser: what the optimiser updates."""


class GradientPart(NamedTuple):
    """The gradient of the part of one parameter that this rank updates."""

    grad: Tensor | None
    parameter: Parameter

    @property
    def partition(self) -> Any:
        """How the parameter itself is divided over other ranks: None if it is whole."""
        return self.parameter.partition


class View(NamedTuple):
    """Where an array lies in the gathered parameters of a unit."""

    unit: Unit
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: np.dtype


class Unit(Bucket):
    """Parameters that are gathered, reduced and updated together.

    ``full`` has one row a rank: the parameters end to end, zeros at the end. Row ``comm.rank`` is this rank's, ``own``.
    The optimiser works on ``master``, which is ``own`` itself or, for half-precision parameters, a float32 copy.

    Args:
        parameters: of one dtype and device.
        comm: the ranks that share them.
        precision: the dtype that the model computes with; None leaves the parameters'.
        keep: whether ``full`` stays (stages 1 and 2) or is gathered when needed (stage 3).
    """

    def __init__(
        self, parameters: Sequence[Parameter], comm: Communicator, precision: np.dtype | None, keep: bool
    ) -> None:
        super().__init__(parameters, comm)
        self.keep = keep
        self.holders = 0
        self.arriving: Any = None
        """The gathering under way of parameters that nobody uses yet."""
        self.prefetch: Prefetch | None = None
        """In stage 3: what has the next unit come when this one has been gathered."""
        self.lent: list[Unit] | None = None
        """Within a forward pass: where units are listed that are held until it ends."""
        self.gradient: Array | None = None
        self.scale = 1.0
        """Of the loss whose gradients come: taken out of them when they have been added up."""
        self.used = [False] * len(parameters)
        self.length = -(-self.spans[-1][1] // comm.size)
        laid = self._laid()
        self.xp = module_of(laid)
        rows = laid.reshape(comm.size, self.length)
        self.dtype = self.dtype if precision is None else precision
        self.master_dtype = FLOAT32 if is_half(self.dtype) else self.dtype
        self.full: Array | None = rows.astype(self.dtype, copy=False) if keep else None
        self.own = rows[comm.rank].astype(self.dtype) if self.full is None else self.full[comm.rank]
        self.master = self.own if self.master_dtype == self.dtype else rows[comm.rank].astype(self.master_dtype)
        self.pieces = self._cut(comm.rank)
        self._published: list[int] = []
        if keep:
            self._show(self.full)
            self._note()
        else:
            for p in parameters:
                _make_sharded(p, self)

    def _laid(self) -> Array:
        """The parameters end to end. Those that were built without values are drawn by the first rank, for all, and
        only this unit's, so that never more than one unit is whole on a rank."""
        later = [p for p in self.parameters if p.deferred]
        if self.comm.rank == 0:
            materialize(later)
        laid = to_device(np.zeros(self.comm.size * self.length, self.dtype), self.parameters[0].device)
        for p, (start, stop) in zip(self.parameters, self.spans):
            if not p.deferred:
                laid[start:stop] = p.data.reshape(-1)
        return self.comm.broadcast(laid, out=laid) if later and self.comm.size > 1 else laid

    def _cut(self, rank: int) -> list[Piece]:
        low, high = rank * self.length, (rank + 1) * self.length
        pieces = []
        for index, (start, stop) in enumerate(self.spans):
            a, b = max(start, low), min(stop, high)
            if a < b:
                pieces.append(Piece(index, a - start, b - start, Tensor(self.master[a - low : b - low])))
        return pieces

    def part(self, piece: Piece, row: Array) -> Array:
        """What stands in a row like ``own`` for this piece."""
        start = self.spans[piece.index][0] - self.comm.rank * self.length
        return row[start + piece.start : start + piece.stop]

    def cut(self, rows: Array) -> list[Array]:
        """Rows of all ranks as one array for each parameter, of its shape."""
        flat = rows.reshape(-1)
        return [flat[start:stop].reshape(shape) for (start, stop), shape in zip(self.spans, self.shapes)]

    # Parameters

    def gather(self) -> Array:
        """Bring all parameters here, unless they are; gives their array."""
        if self.full is None:
            self.full = self.comm.all_gather(self.own) if self.arriving is None else self.arriving.wait()
            self.arriving = None
            for p, values in zip(self.parameters, self.cut(self.full)):
                p.whole = values
            if self.prefetch is not None:
                self.prefetch.gathered(self)
        return self.full

    def start_gathering(self) -> bool:
        """Have all parameters come, for a gather() that follows; False if they are here."""
        if self.full is not None:
            return False
        room = self.xp.empty((self.comm.size, self.length), self.dtype)
        self.arriving = self.comm.all_gather(self.own, out=room, async_op=True)
        return True

    def turn_away(self) -> None:
        """Let go what start_gathering() had come."""
        if self.arriving is not None:
            self.arriving.wait()
            self.arriving = None

    def release(self) -> None:
        """Forget the other ranks' parts, where they are not to stay and nobody holds them."""
        if not self.keep and self.holders == 0:
            self.full = None
            for p in self.parameters:
                p.whole = None

    def hold(self) -> None:
        """gather(), until as many drop() calls."""
        self.holders += 1
        self.gather()

    def drop(self) -> None:
        """Undo one hold()."""
        self.holders -= 1
        self.release()

    def locate(self, array: Array) -> View:
        """The place of an array that is a view of ``full``."""
        return View(self, _address(array) - _address(self.full), array.shape, array.strides, array.dtype)

    def view(self, place: View) -> Array:
        """The array at a place that locate() gave, gathered again where it has to be."""
        full = self.gather()
        if self.xp is np:
            # As bytes: bfloat16 has no buffer of its own.
            return np.ndarray(place.shape, place.dtype, full.view(np.uint8).data, place.offset, place.strides)
        return self.xp.ndarray(place.shape, place.dtype, full.data + place.offset, place.strides)

    def publish(self) -> None:
        """The optimiser has changed ``master``: let the model see it; sending goes on until finish_publish()."""
        if self.master is not self.own:
            self.own[...] = self.master
        for p in self.parameters:
            p._version.changed()
        if self.keep:
            self._note()
            self.work = self.comm.all_gather(self.own, out=self.full, async_op=True)
        else:
            self.turn_away()
            self.release()

    def _note(self) -> None:
        self._published = [p.version for p in self.parameters]

    def changed_by_others(self) -> list[Parameter]:
        """Parameters whose half-precision values somebody has changed, which ``master`` knows nothing of."""
        if self.master is self.own or not self.keep:
            return []
        return [p for p, version in zip(self.parameters, self._published) if p.version != version]

    def finish_publish(self) -> None:
        """Wait until every rank's part is here."""
        if self.work is not None:
            self.work.wait()
            self.work = None

    def assign(self, values: Sequence[Any]) -> None:
        """Take over whole parameters, one array each, equal on all ranks."""
        for piece in self.pieces:
            flat = self.xp.asarray(values[piece.index]).reshape(-1)
            piece.tensor.assign(flat[piece.start : piece.stop].astype(self.master_dtype))
        self.publish()
        self.finish_publish()

    def _show(self, full: Any) -> None:
        for p, values in zip(self.parameters, self.cut(full)):
            p.data = values
            p._version.outside = False  # Nobody but this unit has the memory.

    # Gradients

    def launch(self) -> None:
        """Send every rank its part of the gradients, and forget the whole ones."""
        rows = self.xp.empty((self.comm.size, self.length), self.wire_dtype)
        self.fill(rows.reshape(-1))
        for p in self.parameters:
            p.grad = None
        self.work = self.comm.reduce_scatter(rows, async_op=True)

    def poll(self) -> bool:
        if self.work is not None and self.work.is_completed():
            self.land()
        return self.work is None

    def land(self) -> None:
        if self.work is None:
            return
        part, self.work = self.work.wait(), None
        if self.scale != 1.0:
            part /= self.scale
        if self.gradient is None:
            self.gradient = part
        else:
            self.gradient += part

    def finish(self, used: Sequence[bool]) -> None:
        self.land()
        self.used = [before or now for before, now in zip(self.used, used)]
        for piece in self.pieces:
            gradient = self.part(piece, self.gradient) if self.used[piece.index] else None
            piece.tensor.grad = None if gradient is None else Tensor(gradient)

    def forget_gradient(self) -> None:
        """As after zero_grad()."""
        self.gradient = None
        self.used = [False] * len(self.parameters)
        for p in self.parameters:
            p.grad = None
        for piece in self.pieces:
            piece.tensor.grad = None


def _make_sharded(parameter: Parameter, unit: Unit) -> None:
    shape = parameter.shape
    parameter.__dict__.pop("_data", None)
    parameter.__class__ = ShardedParameter
    assert isinstance(parameter, ShardedParameter)
    parameter.unit, parameter.whole = unit, None
    parameter.whole_shape, parameter.whole_dtype = shape, unit.dtype


def _address(array: Any) -> int:
    return array.ctypes.data if isinstance(array, np.ndarray) else array.data.ptr
