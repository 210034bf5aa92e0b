"""Stages: a list of layers cut into contiguous parts, one after the other on the ranks of a pipeline."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from itertools import accumulate, pairwise
from typing import Any, NamedTuple

from qdist.parallel.pipeline.balance import costs_of_layers, stage_sizes
from qdist.tensor import Generator, Tensor, random
from qdist.tensor.arrays import Array
from qdist.tensor.random import Place

__all__ = ["Draws", "PipelineStage", "as_tuple", "cut_into_stages", "names_in"]

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


def cut_into_stages(layers: Sequence[Layer], stages: int, by: str | Sequence[int] = "balanced") -> list[range]:
    """The numbers of the layers in each of `stages` stages: see balance.stage_sizes.

    Raises ValueError for numbers that do not fit.
    """
    return [range(a, b) for a, b in pairwise([0, *accumulate(stage_sizes(costs_of_layers(layers), stages, by))])]


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
        self.noted: list[Any] = []
        """What later stages have to know besides: nothing of a list of layers."""

    def train(self, flag: bool) -> None:
        """Training mode on or off, for what belongs to no layer: nothing."""

    def run(self, draws: Draws, known: Sequence[Any], *values: Any) -> tuple[Tensor, ...]:
        """The outputs for these inputs. Neither the cut into stages and micro-batches nor the order of the passes
        changes what is drawn.

        known: what earlier stages noted.
        """
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


def names_in(partition: Any) -> list[str] | None:
    """The names of modules with which stages begin, if these say how layers make stages."""
    if isinstance(partition, str) or not all(isinstance(part, str) for part in partition) or not len(partition):
        return None
    return list(partition)
