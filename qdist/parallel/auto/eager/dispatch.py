"""Running an operation on DistTensors: choose a way, reshard the inputs, run on local parts, wrap what comes out."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from qdist.nn.module import Parameter
from qdist.parallel.auto.eager import capture
from qdist.parallel.auto.eager.crossing import Spec, SpecTable, follow
from qdist.parallel.auto.eager.dist_tensor import DistParameter, DistTensor, reshard, shard_tensor
from qdist.parallel.auto.eager.same_value import same_value
from qdist.parallel.auto.placement.placements import Placement, Replicate, cuts
from qdist.parallel.auto.placement.process_mesh import ProcessMesh
from qdist.parallel.auto.placement.reshard import reshard_local
from qdist.parallel.auto.rules.choose import Operand, choose, outputs_of
from qdist.parallel.auto.rules.forms import Form, Split
from qdist.parallel.auto.rules.local_rules import DECOMPOSED, LOCAL_RULES, Site
from qdist.parallel.auto.rules.operator_rules import form_of
from qdist.tensor import Rule, Tensor, apply

__all__ = ["dispatch", "execute", "form_for", "run_local"]


def dispatch(
    rule: Rule,
    inputs: Sequence[Any],
    attributes: dict[str, Any],
    pinned: tuple[Split, ...] | None = None,
    mesh: ProcessMesh | None = None,
) -> Any:
    """One operation on DistTensors; plain Tensors among its inputs count as whole on every rank.

    Args:
        rule, inputs, attributes: as `tensor.apply` takes them.
        pinned: the way to run, one split a mesh axis; the cheapest when not given.
        mesh: where to run; when not given that of the shard_op around it, or where the inputs are.

    Returns:
        A DistTensor, or a tuple of them.
    """
    if rule.name in DECOMPOSED:
        return DECOMPOSED[rule.name](*inputs, **attributes)
    mesh = mesh or capture.current_mesh() or _mesh_of(inputs)
    with capture.paused():
        placed = [_on(x, mesh) for x in inputs]
        run = _run_on_some if mesh.partial else _run
        made = run(rule, placed, attributes, pinned, mesh)
    capture.note(rule, inputs, attributes, made, pinned)
    return made


def _mesh_of(inputs: Sequence[Any]) -> ProcessMesh:
    """Where the inputs meet: activations come to weights, not weights to activations, and earlier stages of a pipeline
    pass on to later ones."""
    weights = [x.mesh for x in inputs if isinstance(x, DistParameter) and x.mesh.partial]
    meshes = weights or [x.mesh for x in inputs if isinstance(x, DistTensor)]
    return max(meshes, key=lambda mesh: -1 if mesh.row is None else mesh.row)


def _run(rule: Rule, placed: Sequence[Any], attributes: dict[str, Any], pinned: Any, mesh: ProcessMesh) -> Any:
    form = form_for(rule.name, [_shape(x) for x in placed], attributes)
    splits = pinned or choose(form, [_operand(x, mesh) for x in placed], mesh.shape, _itemsize(placed))
    return execute(rule, placed, attributes, form, mesh, splits)


def _run_on_some(rule: Rule, placed: Sequence[Any], attributes: dict[str, Any], pinned: Any, mesh: ProcessMesh) -> Any:
    """As _run, on a mesh of some of the ranks; the others learn what is made and follow along."""
    plain = {name: value for name, value in attributes.items() if name != "ticket"}
    shapes = tuple((x.shape, x.dtype) if isinstance(x, Tensor) else x for x in placed)
    lying = tuple(x.placements for x in placed if isinstance(x, DistTensor))
    key = rule.name, shapes, lying, tuple(plain.items())
    if mesh.coordinates is not None:
        try:
            made = _run(rule, placed, attributes, pinned, mesh)
        except Exception as error:
            _specs.share(mesh, key, error)
            raise
        parts = made if isinstance(made, tuple) else (made,)
        _specs.share(mesh, key, [Spec(p.shape, p.dtype.str, p.placements) for p in parts])
        return made
    specs = _specs.share(mesh, key, None)
    # Where the operation has no derivative (a sign), nothing comes back on the members, and nobody may wait for it.
    differentiable = rule.vjp is not None
    following = [x.local for x in placed if differentiable and isinstance(x, DistTensor) and x.requires_grad]
    empty = follow(following, specs, next(x for x in placed if isinstance(x, Tensor)))
    parts = tuple(DistTensor(e, mesh, spec.placements, spec.shape) for e, spec in zip(empty, specs, strict=True))
    return parts if len(parts) > 1 else parts[0]


_specs = SpecTable()


DistTensor.dispatch = staticmethod(dispatch)


def form_for(name: str, shapes: Sequence[tuple[int, ...] | None], attributes: dict[str, Any]) -> Form:
    """The form of one application; one without labels for an operation that the table does not know."""
    form = form_of(name, shapes, attributes)
    if form is None:
        form = Form(tuple((None,) * len(s or ()) for s in shapes), ((),), {})
    return form


def execute(
    rule: Rule,
    inputs: Sequence[Any],
    attributes: dict[str, Any],
    form: Form,
    mesh: ProcessMesh,
    splits: Sequence[Split],
) -> Any:
    """Run one operation in a chosen way: inputs (DistTensors of this mesh, plain Tensors, numbers) to DistTensors."""
    differs = [split.differs for split in splits]
    targets = [tuple(split.inputs[i] for split in splits) for i in range(len(inputs))]
    outputs = outputs_of(splits)
    locals_ = [_localize(x, mesh, target, differs) for x, target in zip(inputs, targets)]
    made = run_local(rule, locals_, attributes, mesh, [_shape(x) for x in inputs], splits)
    if isinstance(made, tuple):
        # An operation without an entry may have more outputs than its form says; all lie as the first.
        lying = outputs if len(outputs) == len(made) else (outputs[0],) * len(made)
        names = form.outputs if len(form.outputs) == len(made) else (form.outputs[0],) * len(made)
        return tuple(_wrap(m, mesh, p, n, form) for m, p, n in zip(made, lying, names))
    return _wrap(made, mesh, outputs[0], form.outputs[0], form)


def run_local(
    rule: Rule,
    locals_: Sequence[Any],
    attributes: dict[str, Any],
    mesh: ProcessMesh,
    shapes: Sequence[tuple[int, ...] | None],
    splits: Sequence[Split],
) -> Any:
    """Run an operation on local parts that lie as the splits want them; `shapes` are the inputs' global ones."""
    special = LOCAL_RULES.get(rule.name)
    if special is None or not any(split.differs for split in splits):
        return apply(rule, *locals_, **attributes)
    targets = tuple(tuple(split.inputs[i] for split in splits) for i in range(len(locals_)))
    site = Site(mesh, tuple(shapes), targets, outputs_of(splits))
    return special(site, *locals_, **attributes)


def _wrap(local: Tensor, mesh: ProcessMesh, placements: tuple[Placement, ...], labels: Any, form: Form) -> DistTensor:
    shape = list(local.shape)
    for dim in range(len(shape)):
        parts = math.prod(n for n, p in zip(mesh.shape, placements) if cuts(p, dim))
        if parts > 1:
            # Where dimensions are regrouped (see Form.exact) parts are equal; elsewhere the label has the length.
            label = labels[dim]
            shape[dim] = shape[dim] * parts if label is None or label in form.exact else form.sizes[label]
    return DistTensor(local, mesh, placements, tuple(shape))


def _localize(x: Any, mesh: ProcessMesh, target: tuple[Placement, ...], differs: Sequence[bool]) -> Any:
    if isinstance(x, DistTensor):
        return x.local_as(target, differs)
    if isinstance(x, Tensor):
        if not capture.is_capturing():
            x = same_value(x, mesh)
        return reshard_local(x, mesh, x.shape, (Replicate(),) * len(target), target, differs)
    return x


def _on(x: Any, mesh: ProcessMesh) -> Any:
    """An input on this mesh; whole, when it comes from another. Where some ranks are outside, a parameter moves to the
    mesh for good, and what else gets a gradient is taken there."""
    whole = [Replicate()] * len(mesh.shape)
    if isinstance(x, DistTensor):
        return x if x.mesh == mesh else reshard(x, mesh, whole)
    if mesh.partial and isinstance(x, Tensor) and (x.requires_grad or isinstance(x, Parameter)):
        return shard_tensor(x, mesh, whole)
    return x


def _shape(x: Any) -> tuple[int, ...] | None:
    return x.shape if isinstance(x, Tensor) else None


def _operand(x: Any, mesh: ProcessMesh) -> Operand:
    whole = (Replicate(),) * len(mesh.shape)
    if not isinstance(x, Tensor):
        return Operand(whole, 0)
    nbytes = x.size * x.dtype.itemsize
    placements = x.placements if isinstance(x, DistTensor) else whole
    return Operand(placements, nbytes, x.requires_grad)


def _itemsize(inputs: Sequence[Any]) -> int:
    return next(x.dtype.itemsize for x in inputs if isinstance(x, Tensor))
