"""Which dimensions of a graph are worth cutting in blocks: see Shard.blocks."""

from __future__ import annotations

from typing import Any

from qdist.parallel.auto.eager.capture import ANNOTATE
from qdist.parallel.auto.ir.graph import Graph, Operation, Value
from qdist.parallel.auto.placement.placements import Shard

__all__ = ["block_choices"]


def block_choices(graph: Graph) -> dict[Operation, set[tuple[str, int]]]:
    """(label, number of blocks) for each operation: those that lead to or come from a regrouping of dimensions, or from
    a parameter that somebody cut so."""
    known: dict[tuple[Value, int], set[int]] = {}
    forms = {op: op.form() for op in graph.operations if op.rule is not ANNOTATE}
    chosen: dict[Operation, set[tuple[str, int]]] = {op: set() for op in graph.operations}

    def note(value: Any, dim: int, blocks: set[int]) -> None:
        if isinstance(value, Value):
            known.setdefault((value, dim), set()).update(blocks)

    def sides(operation: Operation) -> list[tuple[Any, tuple[Any, ...]]]:
        form = forms[operation]
        return [*zip(operation.inputs, form.inputs), *zip(operation.outputs, form.outputs)]

    for operation, form in forms.items():
        for split, _, _ in form.extra:
            for value, place in zip((*operation.inputs, *operation.outputs), (*split.inputs, *split.outputs)):
                if isinstance(place, Shard) and place.blocks > 1:
                    note(value, place.dim, {place.blocks})
        for x in operation.inputs:
            for place in getattr(x.tensor, "placements", ()) if isinstance(x, Value) else ():
                if isinstance(place, Shard) and place.blocks > 1:
                    note(x, place.dim, {place.blocks})
    # Two sweeps forward and two backward, so that what is known of one value reaches all that share a label with it.
    for order in (list(forms), list(forms)[::-1]) * 2:
        for operation in order:
            found = {
                (label, b)
                for value, dims in sides(operation)
                for dim, label in enumerate(dims)
                for b in known.get((value, dim), ())
                if label is not None and label not in forms[operation].exact
            }
            chosen[operation] |= found
            for value, dims in sides(operation):
                for dim, label in enumerate(dims):
                    note(value, dim, {b for name, b in found if name == label})
    return chosen
