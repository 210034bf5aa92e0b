"""The whole state of what an Engine trains, whoever keeps it: the plain model's and its optimiser's, by name."""

from __future__ import annotations

from typing import Any

import numpy as np

from qdist.nn.module import Module
from qdist.optim import Optimizer
from qdist.parallel.auto.eager.dist_tensor import DistTensor, place_tensor
from qdist.parallel.auto.placement.process_mesh import ProcessMesh
from qdist.parallel.auto.run.graph_pipeline import GraphPipeline
from qdist.parallel.replica.buckets import broadcast
from qdist.parallel.replica.replica import check_same_model
from qdist.tensor import Tensor, no_grad, random

__all__ = ["load_optimizer", "model_state", "optimizer_state", "take_over_first"]


def take_over_first(model: Module, mesh: ProcessMesh) -> None:
    """Give all ranks the first one's parameters, buffers and random state; parameters that are sharded already stay.

    Raises ValueError, on every rank, where their models have other parameters. Collective over the mesh.
    """
    groups = [mesh.group(axis) for axis in range(len(mesh.shape)) if mesh.shape[axis] > 1]
    for group in groups:
        check_same_model(model, group)
    whole = [p for p in model.parameters() if not isinstance(p, DistTensor)]
    state = random.get_state()
    drawn = np.array([*state["key"], state["draw"]], np.uint64)
    for group in groups:  # Along one axis after the other, the values of the very first rank get everywhere.
        broadcast([*whole, *model.buffers()], group)
        drawn = group.broadcast(drawn)
    if groups:
        first, second, draw = drawn.tolist()
        random.set_state({"key": [first, second], "draw": draw})


def model_state(model: Module, pipeline: GraphPipeline | None) -> dict[str, np.ndarray]:
    """All parameters and buffers by name, whole and equal on every rank. Collective."""
    state = {name: tensor.numpy() for name, tensor in model.state_dict().items()}
    for name, parameter in model.named_parameters():
        state[name] = _owners(state[name], parameter, pipeline)
    return state


def _owners(value: Any, parameter: Any, pipeline: GraphPipeline | None) -> Any:
    """A value that belongs to a parameter, from a rank that has trained it."""
    owner = None if pipeline is None else pipeline.owner(parameter)
    if owner is None:
        return value
    assert pipeline is not None
    return pipeline.line.broadcast(np.array(value), owner)


def optimizer_state(model: Module, optimizer: Optimizer, pipeline: GraphPipeline | None) -> dict[str, Any]:
    """{"groups": options, "state": {parameter: {"step", slots}}}, whole and equal on every rank. Collective."""
    names = {id(p): name for name, p in model.named_parameters()}
    saved = optimizer.state_dict()
    state = {}
    for number, p in enumerate(p for group in optimizer.param_groups for p in group["params"]):
        entry = saved["state"][str(number)]
        step = np.array(entry["step"])
        if isinstance(p, DistTensor) and p.mesh.partial:
            step = p.mesh.comm.broadcast(step, p.mesh.members[0])
        whole: dict[str, Any] = {"step": int(_owners(step, p, pipeline))}
        for slot in (key for key in entry if key != "step"):
            value = entry[slot]
            if isinstance(p, DistTensor):
                value = DistTensor(value, p.mesh, p.placements, p.shape)
            whole[slot] = _owners(value.numpy(), p, pipeline)
        state[names[id(p)]] = whole
    groups = [{k: v for k, v in group.items() if k != "params"} for group in optimizer.param_groups]
    return {"groups": groups, "state": state}


def load_optimizer(model: Module, optimizer: Optimizer, saved: dict[str, Any]) -> None:
    """Give every rank its part of what optimizer_state gave, from any number of ranks.

    Raises ValueError for names that the optimiser does not have.
    """
    names = {id(p): name for name, p in model.named_parameters()}
    own = optimizer.state_dict()
    parameters = [p for group in optimizer.param_groups for p in group["params"]]
    if missing := sorted({names[id(p)] for p in parameters} ^ set(saved["state"])):
        raise ValueError(f"the saved optimiser and this one differ in {', '.join(missing)}")
    state: dict[str, Any] = {}
    for number, p in enumerate(parameters):
        entry = dict(saved["state"][names[id(p)]])
        with no_grad():
            for slot in (key for key in entry if key != "step"):
                value = Tensor(entry[slot])
                if isinstance(p, DistTensor):
                    value = place_tensor(value, p.mesh, p.placements).local
                entry[slot] = value
        state[str(number)] = entry
    groups = [
        {**options, "params": g["params"]} for options, g in zip(saved["groups"], own["param_groups"], strict=True)
    ]
    optimizer.load_state_dict({"state": state, "param_groups": groups})
