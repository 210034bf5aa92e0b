"""A model whose forward pass is traced on an example, and cut into the stages of a pipeline."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Collection, Iterator, Sequence
from itertools import pairwise
from typing import Any

from qdist.nn import DeferredParameter, Module, Parameter
from qdist.parallel.pipeline.balance import Costs
from qdist.parallel.pipeline.graph.graph_stage import Cuts, GraphStage
from qdist.parallel.pipeline.graph.recording import Key, Recording, record, with_some_values
from qdist.parallel.pipeline.graph.stand_ins import find, open_modules, open_up
from qdist.tensor import Tensor

__all__ = ["CutModel", "TracedModel"]

_DEPTH = 4


class TracedModel:
    """The steps of a model's forward pass, and the stages that they make.

    Args:
        model: any Module. Its forward pass runs on the example, twice, and it is left as it was.
        example: a Tensor or an array, or a tuple of them, as a batch would be: a row or two will do.
        stages: how many there are going to be.
        begins: names of the modules with whose first calls the stages after the first begin; None to choose them.

    Raises ValueError for a forward pass that cannot be cut: see `record`.
    """

    def __init__(self, model: Module, example: Any, stages: int, begins: Sequence[str] | None = None) -> None:
        self.model = model
        self.sizes: list[int] = []
        """How many layers each stage gets, once that is decided."""
        self._stages, self._begins = stages, None if begins is None else list(begins)
        inputs = example if isinstance(example, tuple) else (example,)
        self._example = tuple(x if isinstance(x, Tensor) else Tensor(x) for x in inputs)
        self._check_begins()
        for depth in range(_DEPTH):
            self.open = open_modules(model, self._begins or [], depth)
            self._training = self._recorded(True)
            self._calls = [n for n, step in enumerate(self._training.steps) if step.kind == "call"]
            if self._begins is not None or len(self._calls) >= stages:
                break
        if len(self._calls) < stages:
            raise ValueError(
                f"{len(self._calls)} layers do not make {stages} stages: every stage needs at least one layer, and "
                f"{type(model).__name__} calls so many modules; take fewer ranks or virtual stages, or write it of "
                "smaller modules"
            )
        self._evaluating = self._recorded(False)

    def divided(self, model: Module) -> TracedModel:
        """The same steps of the model after its modules have been divided over ranks."""
        self.model = model
        return self

    def _check_begins(self) -> None:
        if self._begins is None:
            return
        names = [name for name, _ in self.model.named_modules()]
        if len(self._begins) != self._stages - 1:
            raise ValueError(
                f"stages={self._begins}: {self._stages} stages need {self._stages - 1} names, of the modules with "
                "which all stages but the first begin"
            )
        for name in self._begins:
            if name not in names or not name:
                raise ValueError(f"stages={self._begins}: {name!r} is no module of the model: {', '.join(names[1:13])}")

    def _recorded(self, training: bool) -> Recording:
        with with_some_values(list(self.model.parameters())):
            close = open_up(self.model, self.open)
            try:
                return record(self.model, self._example, training, self.open)
            finally:
                close()

    # Which steps make a stage ----------------------------------------------------------------------------------------

    def layers(self) -> list[range]:
        """The steps of each layer: a call of a module, and all up to the next one."""
        starts = [0, *self._calls[1:], len(self._training.steps)]
        return [range(a, b) for a, b in pairwise(starts)]

    def costs(self) -> Costs:
        """Of each layer; a parameter counts where it is used first."""
        steps, seen = self._training.steps, set[int]()
        parameters, flops, seconds = [], [], []
        for layer in self.layers():
            used = {id(p): p for number in layer for p in self._parameters_of(steps[number].kind, steps[number].of)}
            parameters.append(sum(p.nbytes for key, p in used.items() if key not in seen))
            seen |= used.keys()
            flops.append(sum(steps[number].flops for number in layer))
            seconds.append(sum(steps[number].seconds for number in layer))
        return Costs(parameters, flops, seconds)

    def _parameters_of(self, kind: str, name: str) -> list[Parameter]:
        if kind == "operation":
            return []
        found = find(self.model, name)
        return list(found.parameters()) if isinstance(found, Module) else [found]

    def named_sizes(self, begins: Sequence[str], stages: int) -> list[int]:
        """How many layers each stage has if the stages after the first begin with these modules."""
        places = []
        for name in begins:
            inside = [
                place
                for place, layer in enumerate(self.layers())
                if (called := self._training.steps[self._calls[place]].of) == name or called.startswith(f"{name}.")
                if layer
            ]
            if not inside:
                raise ValueError(
                    f"stages={list(begins)}: the forward pass does not call {name!r}, so no stage begins there"
                )
            places.append(inside[0])
        bounds = [0, *places, len(self._calls)]
        if any(a >= b for a, b in pairwise(bounds)):
            raise ValueError(
                f"stages={list(begins)}: the forward pass does not come to these modules in this order, each after "
                "another module"
            )
        return [b - a for a, b in pairwise(bounds)]

    # The stages ------------------------------------------------------------------------------------------------------

    def cut(self, sizes: Sequence[int], own: Collection[int]) -> CutModel:
        """Stages of so many layers each, whichever of them are this rank's own."""
        starts, place = [0], 0
        for size in sizes[:-1]:
            place += size
            starts.append(self._calls[place])
        training = self._training.steps
        cuts = {True: _cuts(self._training, starts)}
        same = []
        for start in starts[1:]:
            name = training[start].name
            count = sum(step.name == name for step in training[:start])
            found = [n for n, step in enumerate(self._evaluating.steps) if step.name == name]
            if len(found) <= count:
                raise ValueError(
                    f"a stage begins with {training[start].of!r}, which the forward pass calls while it trains and not "
                    "in evaluation mode: begin it with another module"
                )
            same.append(found[count])
        cuts[False] = _cuts(self._evaluating, [0, *same])
        return CutModel(self.model, self.open, cuts)


def _cuts(recording: Recording, starts: list[int]) -> Cuts:
    bounds = [*starts, len(recording.steps)]
    carried: list[list[Key]] = []
    for start in starts:
        needed = {key for step in recording.steps[start:] for key in step.takes} | recording.gives
        carried.append(sorted(key for key in needed if key[0] < start))
    carried[0] = recording.inputs
    return Cuts(recording.steps, bounds, carried)


class CutModel:
    """A model with stand-ins in the place of its modules, and what each stage has of it.

    The whole model's names stay: a stage's module lists what it has under the same ones.
    """

    def __init__(self, model: Module, open_names: list[str], cuts: dict[bool, Cuts]) -> None:
        self._cuts, self._model = cuts, model
        self._used = [self._used_by(number) for number in range(len(cuts[True].starts) - 1)]
        self._check_buffers()
        self.whole = self._holder(open_names, lambda name: name not in open_names)
        """All modules, parameters and buffers by their names."""
        self._open_names = open_names
        self._idle = self._unused()
        self.holders = [self.holder([number]) for number in range(len(self._used))]
        """What each stage has."""

    def holder(self, numbers: Sequence[int]) -> Module:
        """What these stages have together."""
        names = {name for number in numbers for name in (*self._used[number], *self._idle[number])}
        return self._holder(self._open_names, names.__contains__)

    def _used_by(self, number: int) -> dict[str, str]:
        """{name of a module or parameter: kind of step} of a stage."""
        found: dict[str, str] = {}
        for cuts in self._cuts.values():
            for step in cuts.steps[cuts.starts[number] : cuts.starts[number + 1]]:
                if step.kind != "operation":
                    found[step.of] = step.kind
        return found

    def _unused(self) -> list[set[str]]:
        """The parameters and buffers that no step comes to, which states have nevertheless: by stage, the names of
        those that it keeps. One that a stage has under another name stays with it, all others with the first."""
        whole = _state_of(self.whole)
        names = {id(tensor): name for name, tensor in whole.items()}
        used, owners = set[str](), dict[int, int]()
        for number, own in enumerate(self._used):
            for name, tensor in _state_of(self._holder(self._open_names, own.__contains__)).items():
                used.add(name if name in whole else names[id(tensor)])
                owners.setdefault(id(tensor), number)
        unused: list[set[str]] = [set() for _ in self._used]
        for name in whole.keys() - used:
            unused[owners.get(id(whole[name]), 0)].add(name)
        return unused

    def _check_buffers(self) -> None:
        where: dict[int, set[int]] = {}
        for number, used in enumerate(self._used):
            for name, kind in used.items():
                module = find(self._model, name)
                for own, buffer in module.named_buffers() if kind == "call" else ():
                    where.setdefault(id(buffer), set()).add(number)
                    if len(where[id(buffer)]) > 1:
                        raise ValueError(
                            f"stages {sorted(where[id(buffer)])} both call {name!r}, whose buffer {own!r} each would "
                            "keep for itself: let one stage make all calls of it (Plan(stages=[names]))"
                        )

    def _holder(self, open_names: list[str], wanted: Callable[[str], bool]) -> Module:
        """The modules and parameters that are wanted under their names, and the buffers of open modules, which all
        stages have."""
        holder = _listing(self._model, wanted)
        for name in open_names:
            for own, buffer in find(self._model, name)._buffers.items():
                if buffer is not None:
                    _put_buffer(_place(holder, name), own, buffer)
        return holder

    def stage(self, number: int) -> GraphStage:
        return GraphStage(self._model, number, self._cuts)

    def describe(self) -> str:
        """The same on ranks that have the same stages of the same model."""
        kinds = [(name, p.shape, p.dtype.str) for name, p in self.whole.named_parameters()]
        steps = [(cuts.starts, [step.name for step in cuts.steps]) for cuts in self._cuts.values()]
        return f"{zlib.crc32(repr((kinds, steps)).encode()):08x}"

    def take(self, kept: Module) -> None:
        """Make the model ready to run: stand-ins take their places, and of parameters that `kept` does not have nothing
        but their shapes stays."""
        open_up(self._model, self._open_names)
        own = {id(p) for p in kept.parameters()}
        for p in self.whole.parameters():
            if id(p) not in own and not p.deferred:
                DeferredParameter.take_values(p)


def _state_of(module: Module) -> dict[str, Tensor]:
    """Parameters and buffers by name."""
    return dict([*module._named("_parameters"), *module._named("_buffers")])


def _listing(model: Module, wanted: Callable[[str], bool]) -> Module:
    """The modules, parameters and buffers that are wanted under their names, in the model's order."""
    whole = Module()
    for name, module in _all_modules(model, ""):
        if name and wanted(name):
            above, _, own = name.rpartition(".")
            setattr(_place(whole, above), own, module)
        else:
            for own, parameter in module._parameters.items():
                full = f"{name}.{own}" if name else own
                if parameter is not None and wanted(full):
                    setattr(_place(whole, name), own, parameter)
            for own, buffer in module._buffers.items():
                if buffer is not None and wanted(f"{name}.{own}" if name else own):
                    _put_buffer(_place(whole, name), own, buffer)
    return whole


def _put_buffer(place: Module, own: str, buffer: Tensor) -> None:
    place._buffers[own] = buffer
    object.__setattr__(place, own, buffer)


def _all_modules(module: Module, name: str) -> Iterator[tuple[str, Module]]:
    """All with all names that they have."""
    yield name, module
    for own, child in module._modules.items():
        if child is not None:
            yield from _all_modules(child, f"{name}.{own}" if name else own)


def _place(holder: Module, name: str) -> Module:
    """The module of a name, made where there is none."""
    place = holder
    for part in name.split(".") if name else ():
        if place._modules.get(part) is None:
            setattr(place, part, Module())
        inner = place._modules[part]
        assert inner is not None
        place = inner
    return place
