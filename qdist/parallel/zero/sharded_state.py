"""States of sharded models: as the plain model and optimiser have them, and each rank's part alone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Protocol

import numpy as np

from qdist.comm import Communicator
from qdist.nn import Module
from qdist.optim import Optimizer
from qdist.parallel.loss_scale import LossScale
from qdist.parallel.zero.shards import Piece, Unit
from qdist.tensor import Tensor, no_grad
from qdist.tensor.arrays import FLOAT32, is_half, kind_of

__all__ = ["load_model", "load_optimizer", "load_shard", "model_state", "optimizer_state", "shard_state"]


_OF_A_PIECE = ("shape", "start", "stop", "values")
"""What a rank's state has of its part of a parameter, beside what the optimiser keeps."""


class Sharded(Protocol):
    """What of a Zero makes up a rank's part."""

    module: Module
    optimizer: Optimizer
    units: list[Unit]
    untrained: list[Unit]
    comm: Communicator
    stage: int
    loss_scale: LossScale | None


def model_state(model: Module, units: Sequence[Unit]) -> dict[str, Tensor]:
    """All parameters and buffers by name, in the optimiser's precision. Collective."""
    sharded: dict[int, Any] = {}
    for unit in units:
        rows = unit.comm.all_gather(unit.master)
        sharded.update((id(p), values.copy()) for p, values in zip(unit.parameters, unit.cut(rows)))
    named = [*model._named("_parameters"), *model._named("_buffers")]
    return {name: Tensor(sharded[id(t)] if id(t) in sharded else t.data.copy()) for name, t in named}


def load_model(model: Module, units: Sequence[Unit], state: dict[str, Any], strict: bool) -> None:
    """Copy values into the shards, the other parameters and the buffers."""
    names = {id(p): name for name, p in model._named("_parameters")}
    sharded = {id(p) for unit in units for p in unit.parameters}
    _check_names(model, state, strict)
    for unit in units:
        values = [state.get(names[id(p)]) for p in unit.parameters]
        if any(value is None for value in values):
            old = unit.cut(unit.comm.all_gather(unit.master))
            values = [before if value is None else value for value, before in zip(values, old)]
        unit.assign([Tensor(value).data for value in values])
    for name, tensor in [*model._named("_parameters"), *model._named("_buffers")]:
        if name in state and id(tensor) not in sharded:
            _write(tensor, state[name])


def _check_names(model: Module, state: dict[str, Any], strict: bool) -> None:
    tensors = dict([*model._named("_parameters"), *model._named("_buffers")])
    own = {name: t.shape for name, t in tensors.items()}
    problems = [f"missing: {name} {shape}" for name, shape in own.items() if name not in state and strict]
    problems += [f"unknown: {name}" for name in state if name not in own and strict]
    problems += [
        f"shape of {name}: {Tensor(state[name]).shape} given, {shape} needed"
        for name, shape in own.items()
        if name in state and Tensor(state[name]).shape != shape
    ]
    problems += [
        f"dtype of {name}: {Tensor(state[name]).dtype} given, real numbers needed"
        for name, t in tensors.items()
        if name in state and kind_of(Tensor(state[name]).dtype) == "c" and kind_of(t.dtype) != "c"
    ]
    if problems:
        raise ValueError(f"this state does not fit {type(model).__name__}:\n  " + "\n  ".join(problems))


def optimizer_state(
    units: list[Unit], optimizer: Optimizer, groups: Sequence[Sequence[Any]], comm: Communicator
) -> dict[str, Any]:
    """What optimizer.state_dict() would give if it had whole parameters. Collective.

    groups: the parameters that the optimiser had, group by group.
    """
    mine = dict(_piece_states(units, optimizer))
    numbers = _numbers(groups)
    state: dict[str, Any] = {}
    for unit in units:
        steps = np.zeros(len(unit.parameters), np.int64)
        rows = {slot: unit.xp.zeros(unit.length, unit.master_dtype) for slot in optimizer.slots}
        for piece in unit.pieces:
            entry = mine[id(piece.tensor)]
            steps[piece.index] = entry["step"]
            for slot, row in rows.items():
                unit.part(piece, row)[...] = entry[slot].data
        steps = comm.all_reduce(steps, "max")
        whole = {slot: unit.cut(comm.all_gather(row)) for slot, row in rows.items()}
        for index, p in enumerate(unit.parameters):
            slots = {slot: Tensor(values[index].copy()) for slot, values in whole.items()}
            state[str(numbers[id(p)])] = {"step": int(steps[index]), **slots}
    for p in (p for members in groups for p in members):
        # Frozen ones are not sharded; the plain optimiser has a state for them too, that of no step.
        state.setdefault(str(numbers[id(p)]), {"step": 0, **{slot: _no_state(p) for slot in optimizer.slots}})
    options = [
        {**group, "params": [numbers[id(p)] for p in members]} for group, members in zip(optimizer.param_groups, groups)
    ]
    return {"state": state, "param_groups": options}


def _no_state(parameter: Any) -> Tensor:
    """What an optimiser has for a parameter that it has not updated."""
    dtype = FLOAT32 if is_half(parameter.dtype) else parameter.dtype
    return Tensor(np.zeros(parameter.shape, dtype)).to(parameter.device)


def load_optimizer(
    units: list[Unit], optimizer: Optimizer, groups: Sequence[Sequence[Any]], saved: dict[str, Any]
) -> None:
    """Take over this rank's part of an optimiser state of whole parameters."""
    numbers = _numbers(groups)
    shapes = {id(p): shape for unit in units for p, shape in zip(unit.parameters, unit.shapes)}
    for p, number in ((p, numbers[id(p)]) for members in groups for p in members if id(p) in shapes):
        entry = saved["state"].get(str(number))
        found = {slot: Tensor(value).shape for slot, value in (entry or {}).items() if slot != "step"}
        if entry is None or found != dict.fromkeys(optimizer.slots, shapes[id(p)]):
            raise ValueError(
                f"parameter {number}: the state has {found}, the parameter has shape {shapes[id(p)]} and the optimiser "
                f"keeps {list(optimizer.slots)}"
            )

    def part(unit: Unit, piece: Piece) -> dict[str, Any]:
        entry = saved["state"][str(numbers[id(unit.parameters[piece.index])])]
        flat = {slot: Tensor(entry[slot]).data.reshape(-1)[piece.start : piece.stop] for slot in optimizer.slots}
        return {"step": entry["step"], **{slot: Tensor(values) for slot, values in flat.items()}}

    _load_pieces(optimizer, {id(piece.tensor): part(unit, piece) for unit in units for piece in unit.pieces}, saved)


def shard_state(zero: Sharded) -> dict[str, Any]:
    """This rank's part: see Zero.sharded_state_dict."""
    names = {id(p): name for name, p in zero.module.named_parameters()}
    mine = dict(_piece_states(zero.units, zero.optimizer))
    units = [*zero.units, *zero.untrained]
    parameters = {
        names[id(unit.parameters[piece.index])]: {
            "shape": list(unit.shapes[piece.index]),
            "start": piece.start,
            "stop": piece.stop,
            "values": Tensor(piece.tensor.data.copy()),
            **mine.get(id(piece.tensor), {}),
        }
        for unit in units
        for piece in unit.pieces
    }
    sharded = {id(p) for unit in units for p in unit.parameters}
    replicated = [*zero.module._named("_parameters"), *zero.module._named("_buffers")]
    options = [{k: v for k, v in group.items() if k != "params"} for group in zero.optimizer.param_groups]
    return {
        "rank": zero.comm.rank,
        "size": zero.comm.size,
        "stage": zero.stage,
        "parameters": parameters,
        "replicated": {name: Tensor(t.data.copy()) for name, t in replicated if id(t) not in sharded},
        "param_groups": options,
        "loss_scale": None if zero.loss_scale is None else zero.loss_scale.state_dict(),
    }


def load_shard(zero: Sharded, state: dict[str, Any]) -> None:
    """Go on from shard_state()."""
    here = zero.comm.rank, zero.comm.size
    if (state["rank"], state["size"]) != here:
        raise ValueError(
            f"this state is of rank {state['rank']} of {state['size']}, here is rank {here[0]} of {here[1]}: "
            "a state for other ranks goes through full_state_dict()"
        )
    names = {id(p): name for name, p in zero.module.named_parameters()}
    units = [*zero.units, *zero.untrained]
    cut = {
        names[id(unit.parameters[piece.index])]: (piece.start, piece.stop) for unit in units for piece in unit.pieces
    }
    theirs = {name: (entry["start"], entry["stop"]) for name, entry in state["parameters"].items()}
    if theirs != cut:
        different = sorted(name for name in theirs.keys() | cut.keys() if theirs.get(name) != cut.get(name))
        raise ValueError(
            f"parameters {', '.join(different)} were cut differently (another stage, bucket_bytes or unit_types): "
            "such a state goes through full_state_dict()"
        )
    entries = {}
    for unit in units:
        for piece in unit.pieces:
            entry = state["parameters"][names[id(unit.parameters[piece.index])]]
            _write(piece.tensor, entry["values"])
            if unit in zero.units:
                entries[id(piece.tensor)] = {k: v for k, v in entry.items() if k not in _OF_A_PIECE}
        unit.publish()
        unit.finish_publish()
    for name, tensor in [*zero.module._named("_parameters"), *zero.module._named("_buffers")]:
        if name in state["replicated"]:
            _write(tensor, state["replicated"][name])
    _load_pieces(zero.optimizer, entries, state)
    if zero.loss_scale is not None and state["loss_scale"] is not None:
        zero.loss_scale.load_state_dict(state["loss_scale"])


def _write(tensor: Tensor, values: Any) -> None:
    with no_grad():
        tensor.assign(Tensor(values).to(tensor.dtype).to(tensor.device))


def _numbers(groups: Sequence[Sequence[Any]]) -> dict[int, int]:
    """Parameters counted through all groups, as an optimiser counts them."""
    return {id(p): number for number, p in enumerate(p for members in groups for p in members)}


def _piece_states(units: Sequence[Unit], optimizer: Optimizer) -> Iterator[tuple[int, dict[str, Any]]]:
    """(id of the tensor, its step count and slots) for every piece of this rank."""
    numbers = _numbers([group["params"] for group in optimizer.param_groups])
    state = optimizer.state_dict()["state"]
    for piece in (piece for unit in units for piece in unit.pieces):
        yield id(piece.tensor), state[str(numbers[id(piece.tensor)])]


def _load_pieces(optimizer: Optimizer, entries: dict[int, dict[str, Any]], saved: dict[str, Any]) -> None:
    """Give the optimiser the state of each piece, by id, and the options of each group."""
    numbers = _numbers([group["params"] for group in optimizer.param_groups])
    groups = [
        {**options, "params": [numbers[id(t)] for t in group["params"]]}
        for options, group in zip(saved["param_groups"], optimizer.param_groups, strict=True)
    ]
    state = {str(numbers[key]): entry for key, entry in entries.items()}
    optimizer.load_state_dict({"state": state, "param_groups": groups})
