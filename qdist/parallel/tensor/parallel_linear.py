"""Tensor parallelism: linear layers whose weights are divided over ranks (Megatron-LM, arXiv 1909.08053).

A column-parallel layer has some of the outputs on each rank, a row-parallel layer some of the inputs. One behind the
other they need a single sum over the ranks in the forward pass and a single one in the backward pass.

With `sequence_parallel` the tensors between such pairs are divided along the sequence (arXiv 2205.05198): x comes in as
this rank's positions, is gathered before the columns, and the sum after the rows leaves each rank its positions again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, Self

import numpy as np

from qdist.comm import Communicator
from qdist.nn import GELU, Linear, Module
from qdist.parallel.collectives import as_rows, copy, gather, join_rows, reduce, reduce_scatter, scatter
from qdist.parallel.half_sums import start_all_reduce, start_reduce_scatter
from qdist.parallel.partition import Partition, check_divides, copied, divided
from qdist.tensor import Rule, Tensor, apply, functional
from qdist.tensor.arrays import Array, is_half
from qdist.tensor.kernels.arithmetic import conj
from qdist.tensor.kernels.linear_algebra import linear, linear_vjp

__all__ = ["ColumnParallelLinear", "ParallelMLP", "RowParallelLinear"]


class _ParallelLinear(Module):
    """What the two have in common: sizes, ranks and weights, divided along one axis of the weight.

    blocks: the axis is this many blocks, each of which is divided.
    """

    axis: ClassVar[int]
    """0, the outputs, or 1, the inputs."""

    def __init__(
        self,
        sizes: tuple[int, int],
        comm: Communicator,
        bias: bool,
        sequence_parallel: bool,
        dtype: Any,
        whole: Linear | None,
        blocks: int = 1,
    ) -> None:
        super().__init__()
        if not isinstance(comm, Communicator):
            raise TypeError(
                f"{type(self).__name__}: comm is a communicator, such as that of qdist.comm.init() or mesh['tp'], not "
                f"{type(comm).__name__}"
            )
        self.in_features, self.out_features = sizes
        self.comm, self.sequence_parallel = comm, sequence_parallel
        what = "in_features" if self.axis else "out_features"
        check_divides(f"{type(self).__name__}: {what}", getattr(self, what), comm.size, blocks)
        layer = _whole(*sizes, bias, dtype, whole)
        partition = Partition(comm, self.axis, blocks)
        self.weight = divided(layer.weight, partition)
        if layer.bias is None:
            self.bias = None
        else:
            # One number an output: divided if those are.
            self.bias = copied(layer.bias) if self.axis else divided(layer.bias, partition)

    @classmethod
    def from_linear(cls, layer: Linear, comm: Communicator, **options: Any) -> Self:
        """The parallel form of a layer, with a copy of its weights; options as in the constructor."""
        make: Any = cls
        return make(layer.in_features, layer.out_features, comm, whole=layer, **options)

    def _check(self, x: Tensor, features: int) -> None:
        if x.shape[-1:] != (features,) or x.ndim < 1 + self.sequence_parallel:
            sequence = "sequence, " if self.sequence_parallel else ""
            raise ValueError(f"{type(self).__name__} takes (..., {sequence}{features}), got shape {x.shape}")

    def extra_repr(self) -> str:
        sequence = ", sequence_parallel=True" if self.sequence_parallel else ""
        return f"{self.in_features}, {self.out_features}, rank {self.comm.rank} of {self.comm.size}{sequence}"


class ColumnParallelLinear(_ParallelLinear):
    """x @ weight.T + bias with the outputs divided over ranks: (..., in_features) to (..., out_features / ranks).

    Args:
        in_features, out_features: of the whole layer; the group's size divides out_features.
        comm: the ranks that share the layer. All give the same x.
        bias: whether there is one; it is divided as the outputs are.
        gather_output: give all of (..., out_features) on every rank. Without it, ColumnParallelDropout is the dropout
            for what comes out.
        sequence_parallel: x is this rank's slice of the sequence, the axis before the features; the output has all of
            it. What is kept for the backward pass is the slice; it is gathered once more there.
        blocks: the outputs are this many blocks (queries, keys, values), each of which is divided.
        whole: take weights, bias and dtype from this layer, of the same sizes, instead of drawing them.

    For the same seed the weights are those of `nn.Linear`.
    """

    axis = 0

    def __init__(
        self,
        in_features: int,
        out_features: int,
        comm: Communicator,
        bias: bool = True,
        gather_output: bool = True,
        sequence_parallel: bool = False,
        dtype: Any = np.float32,
        *,
        blocks: int = 1,
        whole: Linear | None = None,
    ) -> None:
        super().__init__((in_features, out_features), comm, bias, sequence_parallel, dtype, whole, blocks)
        self.gather_output, self.blocks = gather_output, blocks

    def forward(self, x: Tensor) -> Tensor:
        self._check(x, self.in_features)
        weights = (self.weight,) if self.bias is None else (self.weight, self.bias)
        if self.comm.size == 1:
            return functional.linear(x, *weights)
        half = x.dtype if is_half(x.dtype) else None
        y = apply(_COLUMNS, x, *weights, comm=self.comm, sequence=self.sequence_parallel, half=half)
        if not self.gather_output:
            return y
        blocks = y.reshape(*y.shape[:-1], self.blocks, y.shape[-1] // self.blocks)
        return gather(blocks, self.comm, -1).reshape(*y.shape[:-1], self.out_features)

    def extra_repr(self) -> str:
        return super().extra_repr() + f", gather_output={self.gather_output}"


class RowParallelLinear(_ParallelLinear):
    """x @ weight.T + bias with the inputs divided over ranks: (..., in_features / ranks) to (..., out_features).

    Args:
        in_features, out_features: of the whole layer; the group's size divides in_features.
        comm: the ranks that share the layer.
        bias: whether there is one; it is whole on every rank and added once.
        input_is_parallel: x is what a ColumnParallelLinear without gather_output gave. Otherwise every rank gives all
            of x and takes its inputs from it.
        sequence_parallel: give each rank its slice of the sequence, the axis before the features.
        whole: take weights, bias and dtype from this layer, of the same sizes, instead of drawing them.

    For the same seed the weights are those of `nn.Linear`.
    """

    axis = 1

    def __init__(
        self,
        in_features: int,
        out_features: int,
        comm: Communicator,
        bias: bool = True,
        input_is_parallel: bool = False,
        sequence_parallel: bool = False,
        dtype: Any = np.float32,
        *,
        whole: Linear | None = None,
    ) -> None:
        super().__init__((in_features, out_features), comm, bias, sequence_parallel, dtype, whole)
        self.input_is_parallel = input_is_parallel

    def forward(self, x: Tensor) -> Tensor:
        self._check(x, self.in_features // self.comm.size if self.input_is_parallel else self.in_features)
        if self.sequence_parallel:
            check_divides("RowParallelLinear: the sequence's length", x.shape[-2], self.comm.size)
        if not self.input_is_parallel:
            x = scatter(x, self.comm, -1)
        terms = functional.linear(x, self.weight)
        y = reduce_scatter(terms, self.comm, -2) if self.sequence_parallel else reduce(terms, self.comm)
        if self.bias is None:
            return y
        # On sequence slices the ranks add the bias to different positions, so its gradients are added up.
        return y + (copy(self.bias, self.comm) if self.sequence_parallel else self.bias)

    def extra_repr(self) -> str:
        return super().extra_repr() + f", input_is_parallel={self.input_is_parallel}"


class ParallelMLP(Module):
    """shrink(gelu(expand(x))) with the hidden units divided over ranks: (..., features) to the same shape.

    One sum over the ranks forward, one backward; with sequence_parallel x and the result are this rank's slice.
    """

    def __init__(
        self,
        features: int,
        hidden: int,
        comm: Communicator,
        bias: bool = True,
        sequence_parallel: bool = False,
        dtype: Any = np.float32,
    ) -> None:
        super().__init__()
        self.expand = ColumnParallelLinear(features, hidden, comm, bias, False, sequence_parallel, dtype)
        self.gelu = GELU()
        self.shrink = RowParallelLinear(hidden, features, comm, bias, True, sequence_parallel, dtype)

    def forward(self, x: Tensor) -> Tensor:
        return self.shrink(self.gelu(self.expand(x)))


def _whole(in_features: int, out_features: int, bias: bool, dtype: Any, given: Linear | None) -> Linear:
    """The layer that is divided. It is drawn whole on every rank, so that one seed gives one model on any number of
    ranks; only this rank's part outlives the constructor."""
    if given is None:
        return Linear(in_features, out_features, bias, dtype)
    if (given.in_features, given.out_features) != (in_features, out_features):
        raise ValueError(f"{given!r} cannot be the whole of a layer from {in_features} to {out_features} features")
    return given


def _columns(xp: Any, x: Array, *weights: Array, comm: Communicator, sequence: bool, half: np.dtype | None) -> Any:
    """The rank's outputs; x equal on all ranks, or slices of the sequence. half: the precision that x is stored in, if
    it is not the one that is computed in: x and its gradient travel in it."""
    whole = _gathering(x, comm, half)() if sequence else x
    return linear(xp, whole, *weights)[0], (x, weights[0])


def _columns_vjp(
    xp: Any, g: Array, saved: Any, needs: Any, comm: Communicator, sequence: bool, half: np.dtype | None
) -> Any:
    """The gradient of x travels while those of the weights are computed, and x itself while that of x is."""
    x, weight = saved
    gathering = _gathering(x, comm, half) if sequence and needs[1] else None
    summing = None
    if needs[0]:
        gx = xp.matmul(g.reshape(-1, g.shape[-1]), conj(weight)).reshape(*g.shape[:-1], weight.shape[1])
        summing = _summing(gx, comm, sequence, half)
    if gathering is not None:
        x = gathering()
    others = linear_vjp(xp, g, (x, weight), (False, *needs[1:]))[1:]
    return (None if summing is None else summing(), *others)


def _gathering(x: Array, comm: Communicator, half: np.dtype | None) -> Callable[[], Array]:
    """All of the sequence from the ranks' slices, under way."""
    work: Any = comm.all_gather(x if half is None else x.astype(half), async_op=True)
    return lambda: join_rows(work.wait().astype(x.dtype, copy=False), x.ndim - 2)


def _summing(gx: Array, comm: Communicator, sequence: bool, half: np.dtype | None) -> Callable[[], Array]:
    """The sum of the ranks' gx, or this rank's slice of it, under way."""
    rows = as_rows(gx, comm.size, gx.ndim - 2) if sequence else gx
    if half is not None:
        return (start_reduce_scatter if sequence else start_all_reduce)(rows.astype(half), comm)
    work: Any = comm.reduce_scatter(rows, async_op=True) if sequence else comm.all_reduce(gx, out=gx, async_op=True)
    return lambda: work.wait()


_COLUMNS = Rule("column_parallel_linear", _columns, _columns_vjp)
