"""A list of layers as the stages of a pipeline."""

from __future__ import annotations

import zlib
from collections.abc import Collection, Sequence
from itertools import accumulate, pairwise
from typing import Any

from qdist.nn import Module
from qdist.parallel.pipeline.balance import Costs, costs_of_layers
from qdist.parallel.pipeline.graph.recording import with_some_values
from qdist.parallel.pipeline.layer_desc import LayerDesc, build_layers
from qdist.parallel.pipeline.stages import Layer, PipelineStage
from qdist.tensor import random

__all__ = ["CutLayers", "LayerList"]


class LayerList:
    """Modules, functions and descriptions, applied one after the other; a Sequential is one.

    Raises TypeError for anything else.
    """

    def __init__(self, layers: Sequence[Layer | LayerDesc] | Any, example: Any = None) -> None:
        if isinstance(layers, Module) and not hasattr(layers, "__iter__"):
            raise TypeError(
                f"a pipeline takes a list of layers, a Sequential, or any model with example=, a batch of a row or two "
                f"on which its forward pass is traced; {type(layers).__name__} came without"
            )
        self.given: list[Any] = list(layers)
        self._example = example
        self.sizes: list[int] = []
        """How many layers each stage gets, once that is decided."""
        for number, layer in enumerate(self.given):
            if not callable(layer) and not isinstance(layer, LayerDesc):
                raise TypeError(f"layer {number} is a {type(layer).__name__}, not a Module or a function")

    def divided(self, model: Module) -> LayerList:
        """The layers of the same Sequential after its modules have been divided over ranks."""
        self.given = list(model.children())
        return self

    def costs(self) -> Costs:
        """Of each layer. Those that are described are built for it, and forgotten again."""
        state = random.get_state()
        built = build_layers(self.given, ())
        random.set_state(state)
        parameters = [p for layer in built if isinstance(layer, Module) for p in layer.parameters()]
        with with_some_values(parameters):
            return costs_of_layers(built, self._example)

    def named_sizes(self, begins: Sequence[str], stages: int) -> list[int]:
        """How many layers each stage has if the stages after the first begin with the layers of these numbers."""
        bounds = [0, *(int(name) if name.isdigit() else -1 for name in begins), len(self.given)]
        if len(begins) != stages - 1 or any(a >= b for a, b in pairwise(bounds)):
            raise ValueError(
                f"stages={list(begins)}: {stages} stages of a list of {len(self.given)} layers need {stages - 1} names "
                "between '1' and the last layer's, in order"
            )
        return [b - a for a, b in pairwise(bounds)]

    def cut(self, sizes: Sequence[int], own: Collection[int]) -> CutLayers:
        """Stages of so many layers each. own: the numbers of those that this rank has."""
        parts = [range(a, b) for a, b in pairwise([0, *accumulate(sizes)])]
        return CutLayers(build_layers(self.given, {place for number in own for place in parts[number]}), parts)


class CutLayers:
    """Layers, and the stages that they make."""

    def __init__(self, layers: list[Layer], parts: list[range]) -> None:
        self.layers, self._parts = layers, parts
        self.whole = _named(layers, range(len(layers)))
        """All layers under the names that a Sequential gives them."""
        self.holders = [_named(layers, part) for part in parts]
        """Those of each stage."""

    def stage(self, number: int) -> PipelineStage:
        part = self._parts[number]
        return PipelineStage([self.layers[place] for place in part], part.start)

    def describe(self) -> str:
        """The same on ranks that have the same stages of the same layers."""
        kinds = [
            [(name, p.shape, p.dtype.str) for name, p in layer.named_parameters()] if isinstance(layer, Module) else []
            for layer in self.layers
        ]
        return f"{zlib.crc32(repr(kinds).encode()):08x}"

    def holder(self, numbers: Sequence[int]) -> Module:
        """The layers of these stages together."""
        return _named(self.layers, [place for number in numbers for place in self._parts[number]])

    def take(self, kept: Module) -> None:
        """Layers that nobody keeps are gone by themselves."""


def _named(layers: Sequence[Layer], places: Sequence[int]) -> Module:
    whole = Module()
    for number in places:
        if isinstance(layers[number], Module):
            setattr(whole, str(number), layers[number])
    return whole
