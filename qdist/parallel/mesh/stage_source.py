"""What the stages of a model on a mesh are cut out of, decided before its modules are divided over other axes."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from fnmatch import fnmatchcase
from typing import Any

from qdist.comm import Mesh
from qdist.nn import Module, Sequential
from qdist.parallel.mesh.mesh_plan import Plan, listed
from qdist.parallel.pipeline.graph.traced_model import TracedModel
from qdist.parallel.pipeline.layer_list import LayerList
from qdist.parallel.pipeline.pipeline import decide_sizes
from qdist.parallel.pipeline.stages import names_in

__all__ = ["fitting", "stage_source"]


def stage_source(
    model: Module, mesh: Mesh, plan: Plan, recomputed: Collection[str], example: Any
) -> LayerList | TracedModel:
    """The layers of a model with an axis "pp", and how many each stage gets, the same on all ranks.

    Args:
        recomputed: names of modules that run once more in the backward pass.
        example: inputs, for a model that is no Sequential.

    Raises ValueError for a model that cannot be cut so.
    """
    stages = mesh.shape["pp"] * plan.virtual_stages
    if isinstance(model, Sequential):
        source: LayerList | TracedModel = LayerList(model, example)
    elif example is None:
        raise ValueError(
            f"pp={mesh.shape['pp']} cuts the forward pass of {type(model).__name__}, which is no Sequential, into "
            "stages, and traces it for that: give parallelize(..., example=x), inputs of a row or two"
        )
    else:
        source = TracedModel(model, example, stages, names_in(plan.stages))
        opened = [name for name in source.open if name in recomputed]
        if opened:
            raise ValueError(
                f"the plan recomputes {opened[0] or type(model).__name__!r}, whose code is cut into stages: name the "
                "modules that it calls"
            )
    source.sizes = decide_sizes(source, stages, plan.stages, [mesh.comm])
    return source


def fitting(model: Module, patterns: Iterable[str]) -> set[str]:
    """The names of the modules that one of the patterns fits. Raises ValueError for one that fits none."""
    names = [name for name, _ in model.named_modules()]
    found: set[str] = set()
    for pattern in patterns:
        fitting = {name for name in names if fnmatchcase(name, pattern)}
        if not fitting:
            raise ValueError(
                f"the plan's pattern {pattern!r} of recomputed modules fits none of the model's: {listed(names)}"
            )
        found |= fitting
    return found
