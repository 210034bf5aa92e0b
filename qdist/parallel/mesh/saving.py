"""The states of a model on a mesh: whole ones, and files that every rank writes its part of.

A file has the whole tensors by the names of the whole model, and the optimiser's state by the same names, whatever
divided them: tensor parallelism, stages of a pipeline, shards of ZeRO. So a file of one mesh fits any other.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from qdist import checkpoint
from qdist.checkpoint import Part, Stored
from qdist.comm import Mesh, counting_communicator
from qdist.nn import Module, Parameter
from qdist.optim import Optimizer
from qdist.parallel.loss_scale import LossScale
from qdist.parallel.pipeline.pipeline import Pipeline
from qdist.parallel.zero.sharded_model import Zero
from qdist.tensor import Generator, Tensor, no_grad
from qdist.tensor.arrays import as_dtype
from qdist.tensor.random import default_generator
from qdist.tensorfile import CheckpointError, agreeing

__all__ = ["load", "load_plain", "restoring", "save", "stored", "whole_gradients", "whole_state"]


class OnMesh(Protocol):
    """What of a ParallelModel is saved."""

    mesh: Mesh
    module: Module
    optimizer: Optimizer | None
    pipeline: Pipeline | None
    zero: Zero | None

    @property
    def loss_scale(self) -> LossScale | None: ...

    @property
    def generator(self) -> Generator: ...


class _Held(NamedTuple):
    """What this rank has of one parameter."""

    names: list[str]
    """All that it has in the whole model: several where layers share it."""
    parameter: Parameter
    tensor: Tensor
    """The parameter, or the part of it that this rank updates."""
    shape: tuple[int, ...]
    """Of the whole parameter."""
    places: NDArray[np.int64] | slice | None
    """Where in the whole, flattened, the elements are; None if this is all of it."""

    def stored(self, values: Any) -> Any:
        """Values for these elements, as a checkpoint stores them."""
        return values if self.places is None else Part(values, self.shape, self.places)

    def read(self, stored: Stored) -> NDArray[Any]:
        """These elements of a whole tensor in a file, in the shape that they have here."""
        if self.places is None:
            return stored.read().numpy()
        return stored.read_part(self.places).reshape(self.tensor.shape)


class _Kind(NamedTuple):
    """What a file must have for a parameter or a buffer."""

    shape: tuple[int, ...]
    is_complex: bool


def _is_complex(tensor: Any) -> bool:
    return bool(np.dtype(tensor.dtype).kind == "c")


def save(model: OnMesh, path: str | Path, extra: Any) -> None:
    """As ParallelModel.save."""
    checkpoint.save(path, {**stored(model), "extra": extra}, model.mesh.comm)


def stored(model: OnMesh) -> dict[str, Any]:
    """What this rank has of a model, its optimiser and what is drawn next, with a `Part` for what others have too."""
    # Stages may divide what they share in different places: the first of them writes all of it.
    elsewhere = set() if model.pipeline is None else {id(p) for p in model.pipeline.tied.counted_elsewhere()}
    held = [each for each in _held(model) if id(each.parameter) not in elsewhere]
    buffers = {name: buffer.detach() for name, buffer in _buffers(model).items()}
    values = {name: each.stored(each.tensor.detach()) for each in held for name in each.names}
    state = {"model": values | buffers, "optimizer": _optimizer_state(model, held)}
    scale = None if model.loss_scale is None else model.loss_scale.state_dict()
    return {**state, "random": _random_state(model), "loss_scale": scale}


def load(model: OnMesh, path: str | Path) -> Any:
    """As ParallelModel.load."""
    needed = _needed(model)
    # Everything is read before anything is changed, on every rank.
    with agreeing(model.mesh.comm), checkpoint.reading(path) as state:
        if not isinstance(state, dict) or not {"model", "optimizer", "extra", "random"} <= state.keys():
            raise ValueError(f"{path} was not written by ParallelModel.save")
        take_over = _restoring(model, state, needed, path)
        extra = checkpoint.read_all(state["extra"])
    take_over()
    return extra


def restoring(model: OnMesh, state: dict[str, Any]) -> Callable[[], None]:
    """Reads what `stored` gave, inside of `checkpoint.reading`; what is returned takes it over. Collective.

    Raises ValueError for another model's, CheckpointError for what is damaged.
    """
    return _restoring(model, state, _needed(model), "the checkpoint")


def _needed(model: OnMesh) -> dict[str, _Kind]:
    """What all ranks of a model need together. Collective."""
    kinds = {name: _Kind(each.shape, _is_complex(each.tensor)) for each in _held(model) for name in each.names}
    kinds |= {name: _Kind(buffer.shape, _is_complex(buffer)) for name, buffer in _buffers(model).items()}
    needed: dict[str, _Kind] = {}
    for own in model.mesh.comm.all_gather_object(kinds):
        needed |= own
    return needed


def _restoring(model: OnMesh, state: dict[str, Any], needed: dict[str, _Kind], path: Any) -> Callable[[], None]:
    held, buffers = list(_held(model)), _buffers(model)
    try:
        _check_fits(path, needed, state["model"])
        options = _read_optimizer(model, held, state["optimizer"])
        drawn = _read_random_state(state["random"])
        scale = _read_scale(state.get("loss_scale"))
    except (AttributeError, KeyError, TypeError) as error:
        raise CheckpointError(f"{path} is damaged: its state makes no sense ({error})") from error
    values = [each.read(state["model"][each.names[0]]) for each in held]
    averages = {name: state["model"][name].read() for name in buffers}

    def take_over() -> None:
        _assign(model, held, values, buffers, averages)
        if model.optimizer is not None:
            model.optimizer.load_state_dict(options)
        model.generator.load_state_dict(drawn)
        if model.loss_scale is not None and scale is not None:
            model.loss_scale.load_state_dict(scale)

    return take_over


def _assign(
    model: OnMesh, held: list[_Held], values: list[Any], buffers: dict[str, Tensor], averages: dict[str, Tensor]
) -> None:
    with no_grad():
        for each, value in zip(held, values):
            each.tensor.assign(Tensor(value).to(each.tensor.dtype).to(each.tensor.device))
        for name, buffer in buffers.items():
            buffer.assign(averages[name].to(buffer.dtype).to(buffer.device))
    if model.zero is not None:
        units = [*model.zero.units, *model.zero.untrained]
        for unit in units:
            unit.publish()
        for unit in units:
            unit.finish_publish()


class _Plain:
    """A model and its optimiser in one process, as one on a mesh of one rank."""

    pipeline: Pipeline | None = None
    zero: Zero | None = None
    loss_scale: LossScale | None = None

    def __init__(self, module: Module, optimizer: Optimizer | None) -> None:
        self.mesh = Mesh(counting_communicator(1), dp=1)  # Nobody else is asked, on however many ranks this is called.
        self.module, self.optimizer = module, optimizer

    @property
    def generator(self) -> Generator:
        return default_generator()


def load_plain(path: str | Path, model: Module, optimizer: Optimizer | None = None) -> Any:
    """Takes what `ParallelModel.save` wrote on any mesh over into a plain model, and its optimiser if one is given, in
    this process alone; what is drawn at random goes on too. Returns the extra state.

    Raises ValueError for a file of another model or optimiser, CheckpointError for a damaged one.
    """
    return load(_Plain(model, optimizer), path)


def whole_state(model: OnMesh) -> dict[str, Tensor]:
    """As ParallelModel.state_dict."""
    own = model.module.state_dict() if model.zero is None else model.zero.state_dict()
    partitions = {name: p.partition for name, p in model.module._named("_parameters")}
    names = _state_names(model)
    arrays = {names.get(name, name): _joined(tensor.numpy(), partitions.get(name)) for name, tensor in own.items()}
    return {name: Tensor(array) for name, array in _of_all_stages(model, arrays).items()}


def whole_gradients(model: OnMesh) -> dict[str, NDArray[Any]]:
    """As ParallelModel.gradients."""
    named = dict(model.module.named_parameters())
    if model.zero is None:
        own = {name: p.grad.numpy() for name, p in named.items() if p.grad is not None}
    else:
        own = model.zero.gradients()
    names = {} if model.pipeline is None else model.pipeline.parameter_names
    return _of_all_stages(model, {names.get(name, name): _joined(g, named[name].partition) for name, g in own.items()})


def _joined(part: NDArray[Any], partition: Any) -> NDArray[Any]:
    return part.copy() if partition is None else partition.whole(part)


def _of_all_stages(model: OnMesh, own: dict[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """All stages' arrays by name, on every rank; what several have is the first one's."""
    if model.pipeline is None:
        return own
    comm = model.pipeline.comm
    found: dict[str, NDArray[Any]] = {}
    kinds = comm.all_gather_object([(name, array.shape, array.dtype.name) for name, array in own.items()])
    for root, stage in enumerate(kinds):
        for name, shape, dtype in stage:
            if name not in found:
                values = own[name] if root == comm.rank else np.empty(shape, as_dtype(dtype))
                found[name] = comm.broadcast(values, root)
    return found


# What a rank has -----------------------------------------------------------------------------------------------------


def _state_names(model: OnMesh) -> dict[str, str]:
    """Names of this rank's state that are other ones in the whole model's, where stages share a layer."""
    return {} if model.pipeline is None else model.pipeline.state_names


def _buffers(model: OnMesh) -> dict[str, Tensor]:
    names = _state_names(model)
    return {names.get(name, name): buffer for name, buffer in model.module.named_buffers()}


def _held(model: OnMesh) -> Iterator[_Held]:
    names: dict[int, list[str]] = {} if model.pipeline is None else model.pipeline.names_of
    if model.pipeline is None:
        for name, parameter in model.module._named("_parameters"):
            names.setdefault(id(parameter), []).append(name)
    sharded: set[int] = set()
    for unit in () if model.zero is None else (*model.zero.units, *model.zero.untrained):
        sharded |= {id(parameter) for parameter in unit.parameters}
        for piece in unit.pieces:
            parameter = unit.parameters[piece.index]
            shape, places = _places(parameter)
            bounds = slice(piece.start, piece.stop)
            own: NDArray[np.int64] | slice = bounds if places is None else places.reshape(-1)[bounds]
            yield _Held(names[id(parameter)], parameter, piece.tensor, shape, own)
    for parameter in model.module.parameters():
        if id(parameter) not in sharded:
            yield _Held(names[id(parameter)], parameter, parameter, *_places(parameter))


def _places(parameter: Parameter) -> tuple[tuple[int, ...], NDArray[np.int64] | None]:
    """The shape of the whole parameter, and where in it, flattened, the elements of this one are; None if it is all."""
    partition, shape = parameter.partition, list(parameter.shape)
    if partition is None:
        return tuple(shape), None
    shape[partition.axis] *= partition.comm.size
    return tuple(shape), partition.part(np.arange(math.prod(shape)).reshape(shape))


# What is drawn next --------------------------------------------------------------------------------------------------


def _random_state(model: OnMesh) -> dict[str, Any]:
    """All ranks draw from the first one's generator."""
    own = {"generator": model.generator.state_dict()}
    return {"ranks": {"0": own} if model.mesh.comm.rank == 0 else {}}


def _read_random_state(state: dict[str, Any]) -> dict[str, Any]:
    """What is drawn goes on from where it was, on any mesh."""
    own = state["ranks"]["0"]["generator"]
    first, second = own["key"]
    numbers = [first, second, own["draw"]]
    if not all(type(n) is int and 0 <= n < 1 << 64 for n in numbers):
        raise TypeError(f"the state of a random generator is {numbers}")
    return {"key": [first, second], "draw": numbers[2]}


def _read_scale(state: Any) -> dict[str, Any] | None:
    """Of the loss, where the file's model computed in float16."""
    if state is None:
        return None
    value, good = state["value"], state["good"]
    if type(value) is not float or not 0 < value < math.inf or type(good) is not int or good < 0:
        raise TypeError(f"the scale of the loss is {value}, after {good} good steps")
    return {"value": value, "good": good}


# The optimiser's state by names --------------------------------------------------------------------------------------


def _optimizer_state(model: OnMesh, held: list[_Held]) -> dict[str, Any]:
    if model.optimizer is None:
        return {"groups": {}, "state": {}}
    saved = model.optimizer.state_dict()
    groups = [{k: v for k, v in group.items() if k != "params"} for group in saved["param_groups"]]
    by_tensor = _numbers(model)
    state: dict[str, Any] = {}
    for each in held:
        if id(each.tensor) in by_tensor:
            group, number = by_tensor[id(each.tensor)]
            entry = {key: each.stored(v) if isinstance(v, Tensor) else v for key, v in saved["state"][number].items()}
            state |= {name: {"group": group, **entry} for name in each.names}
    return {"groups": {str(i): options for i, options in enumerate(groups)}, "state": state}


def _read_optimizer(model: OnMesh, held: list[_Held], stored: dict[str, Any]) -> dict[str, Any]:
    """What this rank's optimiser loads. Raises ValueError for the state of another kind of optimiser."""
    if model.optimizer is None:
        return {}
    own = model.optimizer.state_dict()
    by_tensor = _numbers(model)
    for each in held:
        if id(each.tensor) not in by_tensor:
            continue
        group, number = by_tensor[id(each.tensor)]
        entry = stored["state"].get(each.names[0], {})
        mine = own["state"][number]
        if entry.keys() != mine.keys() | {"group"} or entry["group"] != group:
            raise ValueError(
                f"the file's optimiser keeps {sorted(entry)} of {each.names[0]}, and this one keeps "
                f"{sorted([*mine, 'group'])} of it in group {group}"
            )
        for key, value in mine.items():
            if not isinstance(value, Tensor):
                mine[key] = _like(value, entry[key], key)
                continue
            whole = value.shape if each.places is None else each.shape
            if entry[key].shape != whole:
                raise ValueError(f"the file's {key} of {each.names[0]} has shape {entry[key].shape}, not {whole}")
            mine[key] = Tensor(each.read(entry[key]))
    for i, group in enumerate(own["param_groups"]):
        options = stored["groups"][str(i)]
        if options.keys() != group.keys() - {"params"}:
            raise ValueError(f"the file's optimiser has the options {sorted(options)}, not {sorted(group)}")
        group.update({key: _like(group[key], value, key) for key, value in options.items()})
    return own


def _like(own: Any, value: Any, key: str) -> Any:
    """A value from a file that stands for one of the same kind. Raises TypeError for another kind."""
    numbers = (int, float)
    if type(own) in numbers and type(value) in numbers:
        return value
    if type(own) is not type(value) and None not in (own, value):
        raise TypeError(f"{key} is a {type(value).__name__} in the file and a {type(own).__name__} here")
    return value


def _numbers(model: OnMesh) -> dict[int, tuple[int, str]]:
    """Of every tensor that the optimiser updates: its group, and its number in the optimiser's state."""
    assert model.optimizer is not None
    listed = [(g, tensor) for g, group in enumerate(model.optimizer.param_groups) for tensor in group["params"]]
    return {id(tensor): (g, str(number)) for number, (g, tensor) in enumerate(listed)}


def _check_fits(path: Any, needed: dict[str, _Kind], stored: dict[str, Any]) -> None:
    """Raises ValueError unless a file has the parameters and buffers that all ranks together need."""
    problems = [f"missing: {name} {kind.shape}" for name, kind in needed.items() if name not in stored]
    problems += [f"unknown: {name} {found.shape}" for name, found in stored.items() if name not in needed]
    for name, kind in needed.items():
        if name in stored and stored[name].shape != kind.shape:
            problems.append(f"shape of {name}: {stored[name].shape} in the file, {kind.shape} needed")
        elif name in stored and _is_complex(stored[name]) and not kind.is_complex:
            problems.append(f"dtype of {name}: {stored[name].dtype} in the file, real numbers needed")
    if problems:
        raise ValueError(f"{path} does not fit the model:\n  " + "\n  ".join(problems))
