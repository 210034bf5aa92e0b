"""Stages: a list of layers cut into contiguous parts, one after the other on the ranks of a pipeline."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import accumulate, pairwise
from typing import Any

from qdist.nn import Module
from qdist.tensor import Generator, Tensor, random

__all__ = ["PipelineStage", "as_tuple", "balanced", "cut_into_stages", "parameter_counts"]

Layer = Callable[..., Any]
"""A Module, or any function of Tensors."""

_DRAWS = 1 << 16
"""Random draws that a layer may make in one pass; dropout makes one."""


def cut_into_stages(layers: Sequence[Layer], stages: int, by: str | Sequence[int] = "count") -> list[range]:
    """The numbers of the layers in each of `stages` stages.

    Args:
        layers: Modules or functions.
        stages: how many parts; no more than layers.
        by: "count" gives all stages equally many layers, the first ones one more where they do not divide;
            "parameters" makes the stage with most parameter elements as small as it can be; a list of numbers gives
            each stage so many layers.

    Raises ValueError for numbers that do not fit.
    """
    if not 1 <= stages <= len(layers):
        raise ValueError(
            f"{len(layers)} layers do not make {stages} stages: every stage needs at least one layer; take fewer ranks "
            "or virtual stages, or smaller layers"
        )
    if by == "count":
        sizes = [len(layers) // stages + (s < len(layers) % stages) for s in range(stages)]
    elif by == "parameters":
        sizes = balanced(parameter_counts(layers), stages)
    elif isinstance(by, str):
        raise ValueError(f"partition {by!r} is not known: use 'count', 'parameters' or a list of layers a stage")
    else:
        sizes = [int(size) for size in by]
        if len(sizes) != stages or min(sizes) < 1 or sum(sizes) != len(layers):
            raise ValueError(
                f"partition {sizes}: {stages} positive numbers are needed that add up to {len(layers)} layers"
            )
    return [range(a, b) for a, b in pairwise([0, *accumulate(sizes)])]


def parameter_counts(layers: Iterable[Layer]) -> list[int]:
    """How many parameter elements each layer has; none for a plain function."""
    return [sum(p.size for p in layer.parameters()) if isinstance(layer, Module) else 0 for layer in layers]


def balanced(weights: Sequence[int], parts: int) -> list[int]:
    """Sizes of `parts` contiguous parts, none empty, whose heaviest is as light as possible; of those the ones with
    the least sum of squares, so that the others are even too."""
    total = [0, *accumulate(weights)]
    # best[n]: for the first n layers in the parts so far, (heaviest, sum of squares, sizes).
    best: dict[int, tuple[int, int, list[int]]] = {0: (0, 0, [])}
    for part in range(1, parts + 1):
        ends = range(part, len(weights) - (parts - part) + 1)
        best = {
            end: min(
                (max(heaviest, weight := total[end] - total[start]), squares + weight**2, [*sizes, end - start])
                for start, (heaviest, squares, sizes) in best.items()
                if start < end
            )
            for end in ends
        }
    return best[len(weights)][2]


class PipelineStage:
    """Some consecutive layers, applied one after the other; a tuple that one gives is what the next takes.

    Args:
        layers: the layers of this stage.
        first: the number of the first among all layers.
        generators: one for each layer, for what it draws (dropout).
    """

    def __init__(self, layers: Sequence[Layer], first: int, generators: Sequence[Generator]) -> None:
        self.layers = list(layers)
        self.first = first
        self._generators = list(generators)

    def run(self, micro_batch: int, *values: Any) -> tuple[Tensor, ...]:
        """The outputs for these inputs.

        micro_batch: its number since training began. It decides what layers draw at random, so that neither the cut
        into stages nor the order of the passes changes a dropout mask.
        """
        for layer, generator in zip(self.layers, self._generators):
            generator.load_state_dict(generator.state_dict() | {"draw": micro_batch * _DRAWS})
            with random.using(generator):
                values = as_tuple(layer(*values))
        for value in values:
            if not isinstance(value, Tensor):
                last = self.first + len(self.layers) - 1
                raise TypeError(
                    f"layer {last} ends a stage and gave a {type(value).__name__}: stages exchange Tensors and tuples "
                    "of Tensors"
                )
        return values


def as_tuple(value: Any) -> tuple[Any, ...]:
    """A tuple as it is, anything else as the only element of one."""
    return value if isinstance(value, tuple) else (value,)
