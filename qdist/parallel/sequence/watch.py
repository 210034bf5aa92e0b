"""Whether a model treats the positions of a divided sequence right: watched operation by operation.

Along "cp" a rank has some positions of every sequence. Whatever treats each position by itself is right there, and ring
attention is; a sum over positions, attention written by hand, or a table that is added to the first positions instead
of this rank's is not. `watching` follows the axis of the sequence through the operations of a forward pass and raises
ValueError at the first that would be wrong.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from threading import local
from typing import Any, NamedTuple, NoReturn
from weakref import ref

from qdist.parallel.sequence.watched_rules import FOLLOW, SAME, Axis, Outcome, Seen
from qdist.tensor import Rule, Tensor, tracing
from qdist.tensor.random import place

__all__ = ["explaining", "mark", "watching"]


class _Run(NamedTuple):
    """Where the positions are in a flattened array: they change every `inner` elements and repeat after `length`."""

    length: int
    inner: int


class _Now(local):
    watch: _Watch | None = None


_now = _Now()


class _Watch:
    def __init__(self, ranks: int) -> None:
        self.ranks = ranks
        # By the identity of arrays, which detached tensors share; an array that is gone frees its number.
        self._runs: dict[int, tuple[Any, _Run]] = {}

    def mark(self, tensor: Tensor, axis: int) -> None:
        shape = tensor.shape
        self._set(tensor, _Run(shape[axis], math.prod(shape[axis + 1 :])))

    def _set(self, tensor: Tensor, run: _Run) -> None:
        number = id(tensor._data)
        self._runs[number] = (ref(tensor._data, lambda _: self._runs.pop(number, None)), run)

    def axis(self, tensor: Any) -> Axis | None:
        """The axis of a tensor that holds the sequence, alone or together with others."""
        if not isinstance(tensor, Tensor) or id(tensor._data) not in self._runs:
            return None
        return _axis_in(tensor.shape, self._runs[id(tensor._data)][1])

    def take(self, rule: Rule, inputs: tuple[Any, ...], attributes: dict[str, Any], made: Any) -> None:
        axes = [self.axis(x) for x in inputs]
        if all(axis is None for axis in axes):
            return
        outputs = made if isinstance(made, tuple) else (made,)
        if rule.name == "reshape":
            run = self._runs[id(inputs[0]._data)][1]
            if _axis_in(outputs[0].shape, run) is None:
                self.refuse(rule, f"cuts the positions of shape {inputs[0].shape} into {outputs[0].shape}")
            self._set(outputs[0], run)
            return
        if rule.name == "checkpoint":
            return  # Its outputs are those of the operations inside it.
        shapes = [x.shape if isinstance(x, Tensor) else () for x in inputs]
        seen = Seen(shapes, axes, attributes, self._asked)
        outcome = FOLLOW[rule.name](seen) if rule.name in FOLLOW else Outcome(problem="is not known to it")
        if outcome.problem is not None:
            self.refuse(rule, outcome.problem)
        source = next(i for i, axis in enumerate(axes) if axis is not None)
        for output in outputs:
            if outcome.axis is not None and output.ndim:
                self._carry(shapes[source], axes[source], output, outcome)

    @property
    def _asked(self) -> bool:
        where = place()
        return where is not None and where.asked_for_positions

    def _carry(self, shape: tuple[int, ...], axis: Any, output: Tensor, outcome: Outcome) -> None:
        """The output has on its axis what the input has on its own: the sequence, or rows of it one after the other."""
        at = outcome.axis if outcome.axis != SAME else axis.number + output.ndim - len(shape)
        assert at is not None
        behind = math.prod(output.shape[at + 1 :])
        before = math.prod(shape[axis.number + 1 :])
        # Ranks of tensor parallelism may gather or cut the sequence.
        length = axis.length * output.shape[at] // shape[axis.number]
        self._set(output, _Run(length, axis.inner // before * behind))

    def refuse(self, rule: Rule, problem: str) -> NoReturn:
        raise ValueError(
            f"cp={self.ranks} divides the sequence, so a rank has only some positions, and the model's operation "
            f"{rule.name!r} {problem}. Attention: nn.MultiHeadAttention, nn.TransformerBlock or "
            "parallel.ring_attention. Positions: name the table in Plan(positions=...), or take nn.positions(length) "
            "in the place of arange(length). Or give these ranks to another axis"
        )


def _axis_in(shape: tuple[int, ...], run: _Run) -> Axis | None:
    behind = 1
    for number in reversed(range(len(shape))):
        ahead = behind * shape[number]
        if shape[number] > 1 and behind <= run.inner and run.inner * run.length <= ahead and run.inner % behind == 0:
            return Axis(number, run.length, run.inner)
        behind = ahead
    return None


def mark(tensor: Tensor, axis: int) -> None:
    """Tell the watch, if there is one, that a tensor has this rank's positions along an axis."""
    if _now.watch is not None:
        _now.watch.mark(tensor, axis)


@contextmanager
def watching(inputs: tuple[Any, ...], ranks: int, axis: int = 1) -> Iterator[None]:
    """Inside, ValueError is raised for the first operation that takes this rank's positions for all of them.

    Args:
        inputs: Tensors; those with as many axes have this rank's positions along `axis`. What an earlier stage has made
            may be a row for each position instead, which is how vectors of positions are.
        ranks: how many divide the sequence.
    """
    watch, where = _Watch(ranks), place()
    held = None if where is None or where.positions is None else len(where.positions)
    for x in inputs:
        if isinstance(x, Tensor) and x.ndim > axis:
            by_row = x.ndim == 2 and x.shape[1] != held == x.shape[0]
            if x.shape[0 if by_row else axis] > 1:
                watch.mark(x, 0 if by_row else axis)
    before, _now.watch = _now.watch, watch
    try:
        with tracing(watch.take), explaining(f"cp={ranks}"):
            yield
    finally:
        _now.watch = before


@contextmanager
def explaining(divider: str) -> Iterator[None]:
    """Inside, shapes that fit in one process, and not where `divider` divides the sequence, raise a ValueError that
    says so: NumPy's own tells nothing of ranks."""
    try:
        yield
    except ValueError as error:
        if "broadcast" not in str(error):
            raise
        raise ValueError(
            f"{divider} divides the sequence, so a rank has only some positions, and shapes do not fit: {error}. A "
            "table as long as the whole sequence is a parameter or a buffer of the model, named in Plan(positions=...)"
        ) from error
