"""A model divided over the axes of a mesh that divide what is inside its layers: "tp", "cp" and "state"."""

from __future__ import annotations

from collections.abc import Callable
from fnmatch import fnmatchcase
from functools import partial
from typing import Any, NamedTuple

from qdist.comm import Communicator, Mesh
from qdist.nn import (
    Dropout,
    Embedding,
    GroupedQueryAttention,
    LayerNorm,
    Linear,
    Module,
    MultiHeadAttention,
    Parameter,
    TransformerBlock,
)
from qdist.nn.quantum_layers import quantum_layers
from qdist.parallel.mesh.mesh_plan import Plan, listed
from qdist.parallel.sequence.context import RingAttention, ring_attention
from qdist.parallel.sequence.norm_and_dropout import SequenceDropout, SequenceLayerNorm
from qdist.parallel.sequence.tables import show_own_rows
from qdist.parallel.tensor.column_dropout import ColumnParallelDropout, refuse_parts
from qdist.parallel.tensor.parallel_linear import ColumnParallelLinear, RowParallelLinear
from qdist.parallel.tensor.parallel_transformer import ParallelAttention, divide_block
from qdist.parallel.tensor.vocabulary import VocabParallelEmbedding

__all__ = ["divide"]


class _Groups(NamedTuple):
    """The ranks that divide layers; None where the mesh has one rank along the axis."""

    tensor: Communicator | None
    context: Communicator | None
    sequence_parallel: bool


Form = Callable[[Any, Communicator, bool, Communicator | None], Module]
"""(layer, ranks of "tp", sequence_parallel, ranks of "cp") to the divided layer."""


def _column(gather: bool) -> Form:
    def form(layer: Linear, comm: Communicator, sequence_parallel: bool, context: Any) -> Module:
        options = {"gather_output": gather, "sequence_parallel": sequence_parallel}
        return ColumnParallelLinear.from_linear(layer, comm, **options)

    return form


def _row(input_is_parallel: bool) -> Form:
    def form(layer: Linear, comm: Communicator, sequence_parallel: bool, context: Any) -> Module:
        options = {"input_is_parallel": input_is_parallel, "sequence_parallel": sequence_parallel}
        return RowParallelLinear.from_linear(layer, comm, **options)

    return form


def _attention(
    layer: MultiHeadAttention, comm: Communicator, sequence_parallel: bool, context: Communicator | None
) -> Module:
    return ParallelAttention.from_attention(layer, comm, sequence_parallel=sequence_parallel, context=context)


def _vocabulary(layer: Embedding, comm: Communicator, sequence_parallel: bool, context: Any) -> Module:
    return VocabParallelEmbedding.from_embedding(layer, comm, sequence_parallel=sequence_parallel)


def _column_dropout(
    layer: Dropout, comm: Communicator, sequence_parallel: bool, context: Communicator | None
) -> Module:
    return ColumnParallelDropout(layer.p, comm, context)


def _norm(layer: LayerNorm, comm: Communicator, sequence_parallel: bool, context: Any) -> Module:
    return SequenceLayerNorm.from_layer_norm(layer, comm) if sequence_parallel else layer


def _dropout(layer: Dropout, comm: Communicator, sequence_parallel: bool, context: Communicator | None) -> Module:
    return SequenceDropout(layer.p, comm if sequence_parallel else None, context)


_FORMS: dict[str, tuple[type[Module], Form]] = {
    "block": (TransformerBlock, divide_block),
    "attention": (MultiHeadAttention, _attention),
    "column": (Linear, _column(gather=False)),
    "column-gather": (Linear, _column(gather=True)),
    "row": (Linear, _row(input_is_parallel=True)),
    "row-scatter": (Linear, _row(input_is_parallel=False)),
    "vocabulary": (Embedding, _vocabulary),
    "norm": (LayerNorm, _norm),
    "dropout": (Dropout, _dropout),
    "column-dropout": (Dropout, _column_dropout),
}


def divide(model: Module, mesh: Mesh, plan: Plan) -> Module:
    """Replaces the layers of a model by their divided forms, in place; returns the model, or what replaces it.

    The model is the same on every rank, with all of its weights; each rank keeps its part.

    Raises ValueError where a pattern of the plan fits no module, a module does not have the form, or an axis of the
    mesh finds nothing to divide. What layers refuse (heads that cannot be divided) they raise themselves.
    """
    hooked = {id(module): (name, module) for name, module in model.named_modules() if module._hooks is not None}
    modes = {name: module.training for name, module in model.named_modules()}
    groups = _Groups(_along(mesh, "tp"), _along(mesh, "cp"), plan.sequence_parallel)
    if groups.tensor is not None:
        model = _over_tensor(model, plan, groups.tensor, groups.context)
    if groups.context is not None and not _over_context(model, groups.context):
        raise ValueError(
            f"cp={groups.context.size} divides a sequence, and the model has no attention over one: give these ranks "
            "to another axis"
        )
    if groups.tensor is not None:
        _compare_dropped(model, groups.tensor)
    for name, module in model.named_modules():
        module.training = modes.get(name, module.training)
    still = {id(module) for module in model.modules()}
    for key, (name, module) in hooked.items():
        if key not in still:
            raise ValueError(
                f"{name!r}, a {type(module).__name__}, has hooks, and the plan divides it or what is in it: they would "
                "see this rank's part of its inputs and outputs. Register hooks on ParallelModel.module, where that is "
                "wanted, or on a module that stays whole"
            )
    if groups.context is not None or plan.sequence_parallel:
        _cut_positions(model, groups, plan.positions)
    if plan.sequence_parallel:
        _check_slices(model, plan.positions)
    circuits = quantum_layers(model)
    for circuit in circuits:
        if circuit.comm is not None:
            raise ValueError(
                f"a QuantumLayer was made with comm={circuit.comm!r}: make it without; its amplitudes are divided over "
                "the mesh's axis 'state'"
            )
    state = _along(mesh, "state")
    if state is not None:
        if not circuits:
            raise ValueError(
                f"state={state.size} divides the amplitudes of circuits, and the model has no QuantumLayer: give these "
                "ranks to another axis"
            )
        for circuit in circuits:
            circuit.split_over(state)
    return model


def _along(mesh: Mesh, axis: str) -> Communicator | None:
    return mesh[axis] if mesh.shape.get(axis, 1) > 1 else None


def _chosen(model: Module, plan: Plan) -> dict[str, str]:
    """The form of every module that a pattern of the plan fits."""
    modules = dict(model.named_modules())
    chosen: dict[str, str] = {}
    for pattern, form in plan.layers.items():
        if form not in _FORMS:
            raise ValueError(f"the plan makes {pattern!r} a {form!r}; forms are {', '.join(_FORMS)}")
        kind, _ = _FORMS[form]
        names = [name for name in modules if fnmatchcase(name, pattern)]
        if not names:
            raise ValueError(f"the plan's pattern {pattern!r} fits no module of the model: {listed(modules)}")
        for name in _outermost(names, modules, kind):
            if not isinstance(modules[name], kind):
                given = type(modules[name]).__name__
                raise ValueError(f"{name!r} is a {given}, and the form {form!r} is for a {kind.__name__}")
            if name in chosen:
                raise ValueError(
                    f"two patterns of the plan fit {name!r}: {chosen[name]!r} and {form!r}; leave it to one of them"
                )
            chosen[name] = form
    return chosen


def _outermost(names: list[str], modules: dict[str, Module], kind: type[Module]) -> list[str]:
    """Without what is inside of a module that gets the form itself: "blocks.*" is blocks, not what is in them."""
    whole = [name for name in names if isinstance(modules[name], kind)]
    return [name for name in names if not any(name.startswith(f"{other}.") for other in whole)]


def _over_tensor(model: Module, plan: Plan, comm: Communicator, context: Communicator | None) -> Module:
    """Gives the modules that the plan names their forms. Weights that they share they share divided too."""
    if not plan.layers and all(parameter.partition is None for parameter in model.parameters()):
        raise ValueError(f"tp={comm.size} divides layers, and the plan names none: see Plan.layers")
    chosen = _chosen(model, plan)
    modules = dict(model.named_modules())
    parts: dict[int, tuple[str, Parameter, Parameter]] = {}
    for name, form in chosen.items():
        whole = dict(modules[name].named_parameters())
        new = _FORMS[form][1](modules[name], comm, plan.sequence_parallel, context)
        model = _replace(model, name, new)
        for own, part in list(new.named_parameters()):
            original = whole[own]
            first, _, known = parts.setdefault(id(original), (f"{name}.{own}", original, part))
            if known.partition != part.partition:
                raise ValueError(
                    f"{first} and {name}.{own} are one parameter and would be divided in different ways: give both "
                    "forms that divide the same axis"
                )
            if known is not part:
                above, _, last = own.rpartition(".")
                setattr(dict(new.named_modules())[above], last, known)
    for name, parameter in model.named_parameters():
        first, original, part = parts.get(id(parameter), ("", parameter, parameter))
        if part is not parameter:
            raise ValueError(
                f"{first} and {name} are one parameter, and the plan divides only the first: name the other's module"
            )
    return model


def _replace(model: Module, name: str, new: Module) -> Module:
    """Puts a module wherever another was, under all of its names; returns the model, which is the new module itself for
    the name ""."""
    modules = dict(model.named_modules())
    if not name:
        return new
    for module in modules.values():
        for own, child in list(module._modules.items()):
            if child is modules[name]:
                setattr(module, own, new)
    return model


def _over_context(model: Module, context: Communicator) -> int:
    """Has what is whole along "cp" work on a divided sequence: attention, and dropout, whose masks are part of one for
    all positions. Gives how many attentions there are."""
    modules = dict(model.named_modules())
    for module in modules.values():
        if isinstance(module, TransformerBlock) and _is_whole(module.attention):
            divide_block(module, None, context=context)
    for name, module in list(model.named_modules()):
        if isinstance(module, MultiHeadAttention) and _is_whole(module):
            _replace(model, name, RingAttention.from_attention(module, context))
        elif isinstance(module, GroupedQueryAttention):
            module.attend = partial(ring_attention, comm=context, causal=module.causal)  # type: ignore[method-assign]
        elif type(module) is Dropout:
            _replace(model, name, SequenceDropout(module.p, None, context))
    return sum(isinstance(module, MultiHeadAttention | GroupedQueryAttention) for module in model.modules())


def _compare_dropped(model: Module, tensor: Communicator) -> None:
    """Has every dropout that takes all features tell when it is given a rank's part of them. Blocks know their own."""
    known = {id(module.dropout) for module in model.modules() if isinstance(module, TransformerBlock)}
    for name, module in list(model.named_modules()):
        in_slices = isinstance(module, SequenceDropout) and module.tensor is not None
        divided = in_slices or isinstance(module, ColumnParallelDropout)
        if isinstance(module, Dropout) and not divided and id(module) not in known:
            refuse_parts(module, name, tensor)


def _is_whole(attention: MultiHeadAttention) -> bool:
    return not isinstance(attention, (ParallelAttention, RingAttention))


def _cut_positions(model: Module, groups: _Groups, patterns: Any) -> None:
    """Has modules see only this rank's rows of parameters and buffers that have one a position. They stay whole."""
    parameters = [name for name, _ in [*model._named("_parameters"), *model._named("_buffers")]]
    modules = dict(model.named_modules())
    for pattern in patterns:
        names = [name for name in parameters if fnmatchcase(name, pattern)]
        if not names:
            raise ValueError(
                f"the plan's pattern {pattern!r} of positions fits no parameter or buffer of the model: "
                f"{listed(parameters)}"
            )
        for name in names:
            above, _, own = name.rpartition(".")
            show_own_rows(modules[above], own, groups.tensor if groups.sequence_parallel else None)


def _check_slices(model: Module, positions: Any) -> None:
    """Raises ValueError for what the plan does not name and would take a slice of the sequence for all of it."""
    known: set[int] = set()
    for name, module in model.named_modules():
        if isinstance(module, SequenceLayerNorm) or (
            isinstance(module, RowParallelLinear) and module.sequence_parallel
        ):
            known |= {id(parameter) for parameter in module.parameters()}
        if type(module) is Dropout and module.p > 0:
            raise ValueError(f"with sequence_parallel the plan's layers name every Dropout: {name!r} as a 'dropout'")
    for name, parameter in model.named_parameters():
        in_positions = any(fnmatchcase(name, pattern) for pattern in positions)
        if parameter.partition is None and id(parameter) not in known and not in_positions:
            raise ValueError(
                f"with sequence_parallel a rank has a slice of the sequence between layers, and {name} is whole: name "
                "its module in the plan's layers, or the parameter in its positions if it has one row a position"
            )
