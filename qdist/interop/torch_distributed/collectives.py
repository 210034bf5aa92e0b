"""Collectives and messages in torch.distributed's forms: they write into the tensors they are given.

A tensor is a Tensor of qdist, or a NumPy or CuPy array (`param.grad.data` is one). Ranks are those among all, also with
a group. Without async_op a call returns what was written, where torch returns None; with it, a Work. A rank that is not
in the group does nothing, gets None, and is warned. Writing is outside the graph: a backward pass that would need the
values from before raises.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

from ... import comm as qc
from ...comm import Communicator
from ...tensor import Tensor
from ...tensor.arrays import Array, is_array, module_of
from .process_group import NotAMember, communicator, rank_in
from .work import Work

__all__ = [
    "ReduceOp",
    "all_gather",
    "all_gather_into_tensor",
    "all_reduce",
    "all_to_all",
    "barrier",
    "broadcast",
    "gather",
    "irecv",
    "isend",
    "recv",
    "reduce",
    "reduce_scatter",
    "reduce_scatter_tensor",
    "scatter",
    "send",
]

Group = Communicator | NotAMember | None


class ReduceOp:
    """The reductions. PREMUL_SUM takes its factor: ``ReduceOp.PREMUL_SUM(0.5)``; each rank may bring its own."""

    SUM, PRODUCT, MIN, MAX = qc.ReduceOp.SUM, qc.ReduceOp.PRODUCT, qc.ReduceOp.MIN, qc.ReduceOp.MAX
    BAND, BOR, BXOR, AVG = qc.ReduceOp.BAND, qc.ReduceOp.BOR, qc.ReduceOp.BXOR, qc.ReduceOp.AVG
    PREMUL_SUM = staticmethod(qc.ReduceOp.premul_sum)


def _op(op: Any) -> qc.ReduceOp:
    if op is ReduceOp.PREMUL_SUM:
        raise ValueError("PREMUL_SUM multiplies by a factor before it adds: give it, as in ReduceOp.PREMUL_SUM(0.5)")
    return qc.ReduceOp.of(op)


def _array(tensor: Any, name: str = "tensor") -> Array:
    if isinstance(tensor, Tensor):
        return tensor.data
    if not is_array(tensor):
        raise TypeError(
            f"{name} is a Tensor or an array, into which the result is written, not {type(tensor).__name__}"
        )
    return tensor


def _written(tensor: Any, array: Array) -> None:
    """Counts as a change of the Tensor whose array this is."""
    if isinstance(tensor, Tensor):
        tensor.data = array


def member(group: Group, call: str) -> Communicator | None:
    """The communicator of a group; None, with a warning, where this rank is not in it."""
    comm = communicator(group)
    if comm is None:
        warnings.warn(f"{call}: this rank is not in {group!r} and does nothing", stacklevel=3)
    return comm


def _done(call: Any, async_op: bool, tensors: list[Any], finish: Callable[[Any], None]) -> Any:
    """What a call returns: a Work that finishes later, or the tensors, finished."""
    if async_op:
        return Work(call, tensors, finish=finish)
    finish(call)
    return tensors[0] if len(tensors) == 1 else tensors


def _rows(tensors: Any, like: Array, size: int, name: str) -> list[Array]:
    """The arrays of a list of tensors, one a rank, each of the same shape and dtype."""
    if not isinstance(tensors, Sequence) or len(tensors) != size:
        found = f"{len(tensors)} of them" if isinstance(tensors, Sequence) else type(tensors).__name__
        raise ValueError(f"{name} is a list of {size} tensors, one a rank of the group; got {found}")
    arrays = [_array(t, name) for t in tensors]
    for array in arrays:
        if array.shape != like.shape or array.dtype != like.dtype:
            raise ValueError(
                f"{name} holds {array.dtype}{list(array.shape)}, the tensor is {like.dtype}{list(like.shape)}: they "
                "must be alike"
            )
    return arrays


def _check_parts(name: str, whole: Array, of: str, part: Array, size: int) -> None:
    """Raises ValueError unless a tensor is made of as many parts as there are ranks."""
    joined = (size * part.shape[0], *part.shape[1:]) if part.ndim else (size,)
    if whole.dtype != part.dtype or whole.shape not in (joined, (size, *part.shape)):
        raise ValueError(
            f"{name} is {whole.dtype}{list(whole.shape)}, and {of} {part.dtype}{list(part.shape)}: of {size} ranks "
            f"{name} is {part.dtype}{list(joined)}"
        )


def _stack(arrays: list[Array]) -> Array:
    return module_of(arrays[0]).stack(arrays)


def _fill(tensors: Sequence[Any], arrays: list[Array], rows: Any) -> None:
    for tensor, array, row in zip(tensors, arrays, rows, strict=True):
        array[...] = row
        _written(tensor, array)


# Collectives ---------------------------------------------------------------------------------------------------------


def all_reduce(tensor: Any, op: Any = ReduceOp.SUM, group: Group = None, async_op: bool = False) -> Any:
    """The reduction of every rank's tensor, in every rank's tensor."""
    comm = member(group, "all_reduce")
    if comm is None:
        return None
    array = _array(tensor)
    call = comm.all_reduce(array, _op(op), out=array, async_op=async_op)
    return _done(call, async_op, [tensor], lambda _: _written(tensor, array))


def reduce(tensor: Any, dst: int, op: Any = ReduceOp.SUM, group: Group = None, async_op: bool = False) -> Any:
    """The reduction of every rank's tensor, in that of ``dst``; the others keep theirs."""
    comm = member(group, "reduce")
    if comm is None:
        return None
    array = _array(tensor)
    root = rank_in(comm, dst)
    out = array if comm.rank == root else None
    call = comm.reduce(array, root, _op(op), out=out, async_op=async_op)
    return _done(call, async_op, [tensor], lambda _: None if out is None else _written(tensor, array))


def broadcast(tensor: Any, src: int, group: Group = None, async_op: bool = False) -> Any:
    """``src``'s tensor in every rank's."""
    comm = member(group, "broadcast")
    if comm is None:
        return None
    array = _array(tensor)
    call = comm.broadcast(array, rank_in(comm, src), out=array, async_op=async_op)
    return _done(call, async_op, [tensor], lambda _: _written(tensor, array))


def all_gather(tensor_list: Sequence[Any], tensor: Any, group: Group = None, async_op: bool = False) -> Any:
    """Every rank's tensor, in the tensors of every rank's list."""
    comm = member(group, "all_gather")
    if comm is None:
        return None
    own = _array(tensor)
    arrays = _rows(tensor_list, own, comm.size, "tensor_list")
    call = comm.all_gather(own, async_op=async_op)
    return _done(call, async_op, list(tensor_list), lambda rows: _fill(tensor_list, arrays, rows))


def all_gather_into_tensor(output_tensor: Any, input_tensor: Any, group: Group = None, async_op: bool = False) -> Any:
    """Every rank's input, in every rank's output: one behind the other along the first axis, or along an axis more."""
    comm = member(group, "all_gather_into_tensor")
    if comm is None:
        return None
    array, own = _array(output_tensor, "output_tensor"), _array(input_tensor, "input_tensor")
    _check_parts("output_tensor", array, "input_tensor", own, comm.size)
    call = comm.all_gather(own, async_op=async_op)
    return _done(
        call, async_op, [output_tensor], lambda rows: _fill([output_tensor], [array], [rows.reshape(array.shape)])
    )


def gather(
    tensor: Any, gather_list: Sequence[Any] | None = None, dst: int = 0, group: Group = None, async_op: bool = False
) -> Any:
    """Every rank's tensor, in the tensors of ``dst``'s list; the others give none."""
    comm = member(group, "gather")
    if comm is None:
        return None
    own, root = _array(tensor), rank_in(comm, dst)
    if comm.rank != root:
        if gather_list:
            raise ValueError(f"gather_list is for rank {dst}, which gathers: leave it out elsewhere")
        return _done(comm.gather(own, root, async_op=async_op), async_op, [tensor], lambda _: None)
    arrays = _rows(gather_list or (), own, comm.size, "gather_list")
    call = comm.gather(own, root, async_op=async_op)
    return _done(call, async_op, list(gather_list or ()), lambda rows: _fill(gather_list or (), arrays, rows))


def scatter(
    tensor: Any, scatter_list: Sequence[Any] | None = None, src: int = 0, group: Group = None, async_op: bool = False
) -> Any:
    """Entry i of ``src``'s list, in rank i's tensor; the others give no list."""
    comm = member(group, "scatter")
    if comm is None:
        return None
    array, root = _array(tensor), rank_in(comm, src)
    rows = None
    if comm.rank == root:
        rows = _stack(_rows(scatter_list or (), array, comm.size, "scatter_list"))
    elif scatter_list:
        raise ValueError(f"scatter_list is for rank {src}, which scatters: leave it out elsewhere")
    call = comm.scatter(rows, root, out=array, async_op=async_op)
    return _done(call, async_op, [tensor], lambda _: _written(tensor, array))


def reduce_scatter(
    output: Any, input_list: Sequence[Any], op: Any = ReduceOp.SUM, group: Group = None, async_op: bool = False
) -> Any:
    """The reduction of every rank's entry i, in rank i's output."""
    comm = member(group, "reduce_scatter")
    if comm is None:
        return None
    array = _array(output, "output")
    rows = _stack(_rows(input_list, array, comm.size, "input_list"))
    call = comm.reduce_scatter(rows, _op(op), out=array, async_op=async_op)
    return _done(call, async_op, [output], lambda _: _written(output, array))


def reduce_scatter_tensor(
    output: Any, input: Any, op: Any = ReduceOp.SUM, group: Group = None, async_op: bool = False
) -> Any:
    """The reduction of every rank's part i of the input, in rank i's output. Parts are one behind the other along the
    first axis, or along an axis more."""
    comm = member(group, "reduce_scatter_tensor")
    if comm is None:
        return None
    array, whole = _array(output, "output"), _array(input, "input")
    _check_parts("input", whole, "output", array, comm.size)
    call = comm.reduce_scatter(whole.reshape(comm.size, *array.shape), _op(op), out=array, async_op=async_op)
    return _done(call, async_op, [output], lambda _: _written(output, array))


def all_to_all(
    output_tensor_list: Sequence[Any], input_tensor_list: Sequence[Any], group: Group = None, async_op: bool = False
) -> Any:
    """Entry i of rank j's inputs, in entry j of rank i's outputs. Shapes may differ, as long as both sides agree."""
    comm = member(group, "all_to_all")
    if comm is None:
        return None
    for name, tensors in (("output_tensor_list", output_tensor_list), ("input_tensor_list", input_tensor_list)):
        if len(tensors) != comm.size:
            raise ValueError(f"{name} has {len(tensors)} tensors; the group has {comm.size} ranks")
    arrays = [_array(t, "output_tensor_list") for t in output_tensor_list]
    call = comm.all_to_all([_array(t, "input_tensor_list") for t in input_tensor_list], async_op=async_op)

    def finish(found: list[Array]) -> None:
        for source, (array, row) in enumerate(zip(arrays, found, strict=True)):
            if array.shape != row.shape or array.dtype != row.dtype:
                raise ValueError(
                    f"all_to_all: rank {comm.group[source]} sent {row.dtype}{list(row.shape)}, the output for it is "
                    f"{array.dtype}{list(array.shape)}"
                )
        _fill(output_tensor_list, arrays, found)

    return _done(call, async_op, list(output_tensor_list), finish)


def barrier(group: Group = None, async_op: bool = False) -> Any:
    """Returns once every rank of the group has called it."""
    comm = member(group, "barrier")
    if comm is None:
        return None
    call = comm.barrier(async_op=async_op)
    return Work(call, []) if async_op else None


# Point to point ------------------------------------------------------------------------------------------------------


def send(tensor: Any, dst: int, group: Group = None, tag: int = 0) -> None:
    """Sends a tensor to one rank, which calls recv or irecv; returns when it may be changed again."""
    comm = member(group, "send")
    if comm is not None:
        comm.send(_array(tensor), rank_in(comm, dst), tag)


def recv(tensor: Any, src: int | None = None, group: Group = None, tag: int = 0) -> int:
    """Receives from one rank into a tensor; returns its number. The rank must be named."""
    comm = member(group, "recv")
    if comm is None:
        return -1
    array = _array(tensor)
    comm.recv(array, rank_in(comm, _named(src)), tag)
    _written(tensor, array)
    return _named(src)


def isend(tensor: Any, dst: int, group: Group = None, tag: int = 0) -> Work | None:
    """Starts sending a tensor, which must not be changed before wait() of the Work returns."""
    comm = member(group, "isend")
    return None if comm is None else Work(comm.isend(_array(tensor), rank_in(comm, dst), tag), [tensor])


def irecv(tensor: Any, src: int | None = None, group: Group = None, tag: int = 0) -> Work | None:
    """Starts receiving into a tensor, which must not be read before wait() of the Work returns."""
    comm = member(group, "irecv")
    if comm is None:
        return None
    array = _array(tensor)
    call = comm.irecv(array, rank_in(comm, _named(src)), tag).then(lambda _: _written(tensor, array))
    return Work(call, [tensor], _named(src))


def _named(src: int | None) -> int:
    if src is None:
        raise ValueError("src: messages from any rank are not provided; name the rank that sends")
    return src
