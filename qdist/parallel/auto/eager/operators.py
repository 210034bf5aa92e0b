"""Annotations of operators: shard_op, and the form `matmul.shard(((2, 4), (4, 1)))`."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from operator import index
from typing import Any

import numpy as np

from qdist.comm import Communicator, world
from qdist.parallel.auto.eager import capture
from qdist.parallel.auto.eager.dispatch import dispatch, form_for
from qdist.parallel.auto.eager.dist_tensor import DistTensor, reshard, shard_tensor
from qdist.parallel.auto.placement.placements import Partial, Placement, Replicate, Shard, cuts
from qdist.parallel.auto.placement.process_mesh import ProcessMesh
from qdist.parallel.auto.rules.forms import Form, Split
from qdist.tensor import RULES, Tensor, apply

__all__ = ["Operator", "matmul", "relu", "shard_op"]


def shard_op(
    fn: Callable[..., Any],
    mesh: ProcessMesh,
    in_placements: Sequence[Any] | None = None,
    out_placements: Sequence[Any] | None = None,
) -> Callable[..., Any]:
    """fn with its tensor arguments, and what it returns, placed on a mesh.

    Args:
        fn: a function or Module of Tensors.
        mesh: the ProcessMesh. A row of one, mesh[0], is a pipeline stage: an Engine with a pipeline runs fn there.
            Without an Engine, too, fn runs on the mesh's ranks alone: its arguments travel there, its parameters stay
            there, and what follows goes on there until another shard_op or reshard.
        in_placements: for each positional tensor argument its placements (see shard_tensor), or None to leave it.
        out_placements: the same for what fn returns, one tensor or a tuple.

    Raises:
        ValueError: when called with another number of tensors than there are placements.

    All ranks of the mesh's communicator call it.
    """

    def place(tensors: Sequence[Any], placements: Sequence[Any] | None, what: str) -> list[Any]:
        if placements is None:
            return [shard_tensor(x, mesh, whole) if mesh.partial else x for x in tensors]
        if len(tensors) != len(placements):
            raise ValueError(f"shard_op: {len(placements)} placements given for {len(tensors)} {what} tensor(s)")
        return [x if p is None else shard_tensor(x, mesh, p) for x, p in zip(tensors, placements)]

    whole = [Replicate()] * len(mesh.shape)

    def sharded(*args: Any, **kwargs: Any) -> Any:
        if mesh.row is not None and capture.is_capturing() and (in_placements, out_placements) == (None, None):
            with capture.on_stage(mesh):
                return fn(*args, **kwargs)
        tensors = [a for a in args if isinstance(a, Tensor)]
        placed = iter(place(tensors, in_placements, "input"))
        with capture.on_mesh(mesh) if mesh.partial else nullcontext():
            made = fn(*(next(placed) if isinstance(a, Tensor) else a for a in args), **kwargs)
        several = isinstance(made, tuple)
        if out_placements is None:
            return made
        outputs = place(made if several else (made,), out_placements, "output")
        return tuple(outputs) if several else outputs[0]

    return sharded


class Operator:
    """An operation of the table of rules, which can be told how to cut its inputs.

    ``matmul.shard(((2, 4), (4, 1)))`` cuts the rows of the first input in two, its columns and the rows of the second
    input in four: on eight ranks everybody multiplies an eighth, and sums go over groups of four. Sums are finished
    at once, so the output is whole wherever no dimension of it was cut.

    Args:
        name: a key of `tensor.RULES`.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.rule = RULES[name]
        self.in_strategy: tuple[tuple[int, ...], ...] | None = None
        self.out_strategy: tuple[tuple[int, ...], ...] | None = None
        self.comm: Communicator | None = None

    def shard(
        self,
        in_strategy: Sequence[Sequence[int]],
        comm: Communicator | None = None,
        out_strategy: Sequence[Sequence[int]] | None = None,
    ) -> Operator:
        """The same operator with a strategy.

        Args:
            in_strategy: for each input, into how many parts each dimension is cut.
            out_strategy: the same for each output: what is cut otherwise is moved there, a sum is scattered. Outputs
                lie as the inputs' cuts leave them, with sums finished, when not given.
            comm: the ranks; the world when not given. What the cuts leave over repeats the work.
        """
        other = Operator(self.name)
        other.in_strategy, other.comm = self._counts(in_strategy), comm
        if out_strategy is not None:
            other.out_strategy = self._counts(out_strategy)
        return other

    def _counts(self, strategy: Sequence[Sequence[int]]) -> tuple[tuple[int, ...], ...]:
        counts = tuple(tuple(index(n) for n in cuts) for cuts in strategy)
        if any(n < 1 for cuts in counts for n in cuts):
            raise ValueError(f"{self.name}.shard({counts}): a dimension is cut into 1 part or more")
        return counts

    def __call__(self, *inputs: Any, **attributes: Any) -> Any:
        tensors = [x if isinstance(x, Tensor) else Tensor(x) for x in inputs]
        if self.in_strategy is None:
            return apply(self.rule, *tensors, **attributes)
        form = form_for(self.name, [x.shape for x in tensors], attributes)
        comm = world() if self.comm is None else self.comm
        mesh, splits = _layout(self.name, form, self.in_strategy, comm)
        if not all(_can_cut(counts, mesh.shape) for counts in self.out_strategy or ()):
            # Axes of prime numbers of ranks can be put together in more ways.
            mesh, splits = _layout(self.name, form, self.in_strategy, comm, fine=True)
        made = dispatch(self.rule, tensors, attributes, splits, mesh)
        parts = made if isinstance(made, tuple) else (made,)
        if self.out_strategy is None:
            placed = [_finished(part) for part in parts]
        elif len(self.out_strategy) != len(parts):
            raise ValueError(f"{self.name}: an out_strategy of {len(self.out_strategy)} for {len(parts)} output(s)")
        else:
            placed = [_cut_as(self.name, part, counts) for part, counts in zip(parts, self.out_strategy)]
        return tuple(placed) if isinstance(made, tuple) else placed[0]


def _finished(x: DistTensor) -> DistTensor:
    """x with its sums added up."""
    return reshard(x, x.mesh, [Replicate() if isinstance(p, Partial) else p for p in x.placements])


def _cut_as(name: str, x: DistTensor, counts: tuple[int, ...]) -> DistTensor:
    """x with every dimension in so many parts: by the axes that cut it already, or by others of that size."""
    if len(counts) != x.ndim:
        raise ValueError(f"{name}: out_strategy {counts} for an output of {x.ndim} dimension(s)")

    def as_it_lies(axis: int, dim: int) -> tuple[bool, bool]:
        # Axes that cut the dimension already come first, then sums, which are scattered for less than they are added.
        return not cuts(x.placements[axis], dim), x.placements[axis] != Partial()

    for order in (as_it_lies, lambda axis, dim: -x.mesh.shape[axis]):
        target = _placements(counts, x.mesh.shape, order)
        if target is not None:
            return reshard(x, x.mesh, target)
    raise ValueError(f"{name}: out_strategy {counts} cannot be made on {x.mesh}: no axes cut so")


def _placements(
    counts: Sequence[int], degrees: Sequence[int], order: Callable[[int, int], Any]
) -> list[Placement] | None:
    """Placements that cut each dimension into so many parts, taking axes in an order; None where they do not go up."""
    target: list[Placement] = [Replicate()] * len(degrees)
    for dim, count in enumerate(counts):
        left = count
        for axis in sorted(range(len(degrees)), key=lambda axis: order(axis, dim)):
            degree = degrees[axis]
            if left > 1 and degree > 1 and target[axis] == Replicate() and left % degree == 0:
                target[axis], left = Shard(dim), left // degree
        if left > 1:
            return None
    return target


def _can_cut(counts: Sequence[int], degrees: Sequence[int]) -> bool:
    """Whether the axes of a mesh cut dimensions into so many parts."""
    return _placements(counts, degrees, lambda axis, dim: -degrees[axis]) is not None


def _layout(
    name: str, form: Form, strategy: tuple[tuple[int, ...], ...], comm: Communicator, fine: bool = False
) -> tuple[ProcessMesh, tuple[Split, ...]]:
    """The mesh whose axes are the labels that are cut, in the order in which they appear, and the split of each.

    fine: axes have prime numbers of ranks, several a label.
    """
    if len(strategy) != len(form.inputs):
        raise ValueError(f"{name}.shard({strategy}): {len(strategy)} inputs named, the operator has {len(form.inputs)}")
    cuts: dict[str, int] = {}
    extras: dict[str, Split] = {}
    for i, (dims, counts) in enumerate(zip(form.inputs, strategy)):
        if len(dims) != len(counts):
            raise ValueError(f"{name}.shard({strategy}): input {i} has {len(dims)} dimension(s), not {len(counts)}")
        for dim, (label, count) in enumerate(zip(dims, counts)):
            if label is None:
                if count != 1:
                    extra = _way_of_its_own(form, i, dim, count)
                    if extra is None:
                        raise ValueError(f"{name}.shard({strategy}): dimension {dim} of input {i} has to be whole")
                    extras[extra.label or ""] = extra
                    cuts[extra.label or ""] = count
                continue
            if cuts.setdefault(label, count) != count:
                raise ValueError(
                    f"{name}.shard({strategy}): dimension {dim} of input {i} is cut in {count}, the dimension it is "
                    f"multiplied with in {cuts[label]}; both need the same number"
                )
            if not form.fits(label, count, {}):
                kind = "equal parts" if label in form.exact else "parts"
                raise ValueError(f"{name}.shard({strategy}): {form.sizes[label]} cannot be cut into {count} {kind}")
    axes = {label: count for label, count in cuts.items() if count > 1}
    used = math.prod(axes.values())
    if comm.size % used:
        raise ValueError(f"{name}.shard({strategy}) needs {used} ranks or a multiple of it; there are {comm.size}")
    splits = [extras[label] if label in extras else form.cutting(label) for label in axes]
    degrees = list(axes.values())
    if used < comm.size or not axes:
        degrees.append(comm.size // used)
        splits.append(form.whole())
    if fine:
        # What is not cut by its label is cut by one axis at most.
        parts = [[n] if split.label in extras else _primes(n) for split, n in zip(splits, degrees)]
        splits = [split for split, factors in zip(splits, parts) for _ in factors]
        degrees = [n for factors in parts for n in factors]
    return _mesh(tuple(degrees), comm), tuple(splits)


def _way_of_its_own(form: Form, i: int, dim: int, count: int) -> Split | None:
    """The way that cuts a dimension without a label into so many parts, if the operator has one: rows of a table."""
    for split, length, exact in form.extra:
        fits = length % count == 0 if exact else length >= count
        if split.inputs[i] == Shard(dim) and fits:
            return split
    return None


def _primes(n: int) -> list[int]:
    """n's prime factors; [1] for 1."""
    for p in range(2, math.isqrt(n) + 1):
        if n % p == 0:
            return [p, *_primes(n // p)]
    return [n]


_meshes: dict[tuple[int, tuple[int, ...]], ProcessMesh] = {}


def _mesh(degrees: tuple[int, ...], comm: Communicator) -> ProcessMesh:
    """One mesh for each shape, so that operators that are cut alike share it."""
    key = id(comm), degrees
    if key not in _meshes:
        _meshes[key] = ProcessMesh(np.arange(comm.size).reshape(degrees), comm=comm)
    return _meshes[key]


matmul = Operator("matmul")
relu = Operator("relu")
