"""Stages: a list of layers cut into contiguous parts, one after the other on the ranks of a pipeline."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from itertools import accumulate, pairwise
from typing import Any, NamedTuple

from qdist.nn import Module
from qdist.tensor import Generator, Tensor, random
from qdist.tensor.arrays import Array
from qdist.tensor.random import Place

__all__ = ["Draws", "PipelineStage", "as_tuple", "balanced", "cut_into_stages", "parameter_counts"]

Layer = Callable[..., Any]
"""A Module, or any function of Tensors."""


class Draws(NamedTuple):
    """What a pass of a micro-batch through a stage draws at random (dropout): what one process would."""

    key: tuple[int, int]
    draw: int
    """The number of the last draw before it, layers of earlier stages included."""
    rows: tuple[int, int, int]
    """(first, behind the last, all): where in the whole batch the rows of the micro-batch are."""
    positions: Array | None = None
    """As of random.Place."""

    def place(self) -> Place:
        """A new one, which draws from the beginning."""
        generator = Generator()
        generator.load_state_dict({"key": list(self.key), "draw": self.draw})
        return Place(self.rows, self.positions, generator)


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
    """

    def __init__(self, layers: Sequence[Layer], first: int) -> None:
        self.layers = list(layers)
        self.first = first
        self.drawn = 0
        """The number of the last random draw of the last run."""
        self.around: Callable[[tuple[Any, ...]], AbstractContextManager[None]] = lambda values: nullcontext()
        """What layers run in, given their inputs."""

    def run(self, draws: Draws, *values: Any) -> tuple[Tensor, ...]:
        """The outputs for these inputs. Neither the cut into stages and micro-batches nor the order of the passes
        changes what is drawn."""
        place = draws.place()
        with random.placed(place), self.around(values):
            for layer in self.layers:
                values = as_tuple(layer(*values))
            self.drawn = random.get_state()["draw"]
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
