"""A stage of a traced model: the forward code runs from the beginning, and computes the steps of this stage alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, NamedTuple

from qdist.nn import Module
from qdist.parallel.pipeline.graph.recording import Key, Step
from qdist.parallel.pipeline.graph.structures import described, mapped, restored, tensors_in
from qdist.parallel.pipeline.graph.traced import Pass, Traced, passing
from qdist.parallel.pipeline.stages import Draws
from qdist.tensor import Tensor, random

__all__ = ["Cuts", "GraphStage"]


class Cuts(NamedTuple):
    """Where the steps of a forward pass are cut."""

    steps: Sequence[Step]
    starts: list[int]
    """The first step of each stage, and how many there are."""
    carried: list[list[Key]]
    """What comes into each stage from earlier ones; the inputs into the first."""


class _End(BaseException):
    """The forward code has come to the end of the stage. No Exception: the code itself must not catch it."""


class GraphStage:
    """One stage of a model with stand-ins.

    Args:
        model: with stand-ins in the place of its modules.
        number: of the stage.
        cuts: of a forward pass while training, and of one that is not.
    """

    def __init__(self, model: Module, number: int, cuts: dict[bool, Cuts]) -> None:
        self.model, self.number, self._cuts = model, number, cuts
        self.drawn = 0
        """The number of the last random draw of the last run."""
        self.noted: list[Any] = []
        """What all steps up to the end of the stage gave in the last run, described."""
        self.around: Callable[[tuple[Any, ...]], AbstractContextManager[None]] = lambda values: nullcontext()
        """What the stage runs in, given its inputs."""

    def train(self, flag: bool) -> None:
        """Training mode on or off, for the code between modules."""
        self.model.train(flag)

    def run(self, draws: Draws, known: Sequence[Any], *values: Any) -> tuple[Tensor, ...]:
        """The outputs for these inputs.

        Args:
            draws: what is drawn at random.
            known: what the steps before this stage gave, described; nothing for the first stage.
            values: what comes from earlier stages.

        Raises ValueError where the forward code takes other steps than it did for the example.
        """
        cuts = self._cuts[self.model.training]
        known = list(known) or [described(tuple(values))]
        with random.placed(draws.place()), self.around(values):
            mine = _StagePass(cuts, self.number, known, values, draws)
            try:
                with passing(mine):
                    made = self.model(*mine.given(-1))
            except _End:
                outputs = mine.outputs()
            else:
                outputs = mine.finished(made)
            self.drawn = random.get_state()["draw"]
        self.noted = [*known, *mine.noted]
        return outputs


class _StagePass(Pass):
    """Steps before the stage give what is known of them, or what was received; those of the stage are run."""

    def __init__(self, cuts: Cuts, number: int, known: list[Any], values: Sequence[Tensor], draws: Draws) -> None:
        self._steps, self._known, self._draws = cuts.steps, known, draws
        self._start, self._stop = cuts.starts[number], cuts.starts[number + 1]
        self._received = dict(zip(cuts.carried[number], values, strict=True))
        self._last = number + 2 == len(cuts.starts)
        self._wanted: list[Key] = [] if self._last else cuts.carried[number + 1]
        self._kept: dict[Key, Tensor] = {key: v for key, v in self._received.items() if key in set(self._wanted)}
        self._next = 0
        self.noted: list[Any] = []
        """What the steps of this stage gave, described."""

    def given(self, step: int) -> Any:
        """What an earlier step gave, or the inputs: values where they were received."""
        places: Iterator[int] = iter(range(1 << 30))

        def tensor(*kind: Any) -> Traced:
            key = step, next(places)
            return Traced(self, key, self._received.get(key), kind)  # type: ignore[arg-type]

        return restored(self._known[step + 1], tensor)

    def step(self, name: str, given: Any, compute: Callable[[Any], Any]) -> Any:
        number, self._next = self._next, self._next + 1
        if number >= len(self._steps) or self._steps[number].name != name:
            expected = "its end" if number >= len(self._steps) else repr(self._steps[number].name)
            raise ValueError(
                f"the forward pass of a model that is cut into stages came to {name!r}, where the example led to "
                f"{expected}: the steps between modules must be the same for all batches. Give an example of these "
                "shapes, or put the code that takes different ways into a module of its own, which one stage runs"
            )
        if number < self._start:
            return self.given(number)
        if number >= self._stop:
            raise _End
        if number == self._start:
            # Of earlier stages' draws only those of operations were made here.
            state = random.get_state()
            random.set_state(state | {"draw": self._draws.draw})
        with passing(None):
            made = compute(mapped(given, self._plain))
        self.noted.append(described(made))
        self._kept.update(((number, i), x) for i, x in enumerate(tensors_in(made)) if (number, i) in self._wanted)
        return self.wrapped(made, number)

    def _plain(self, x: Tensor) -> Tensor:
        if not isinstance(x, Traced):
            return x
        if x.value is None:
            raise ValueError(
                f"step {self._next - 1} of the forward pass, {self._steps[self._next - 1].name!r}, takes a tensor of "
                "an earlier stage that it did not take for the example: the steps between modules must be the same "
                "for all batches"
            )
        return x.value

    def outputs(self) -> tuple[Tensor, ...]:
        """What later stages take."""
        return tuple(self._kept[key] for key in self._wanted)

    def finished(self, made: Any) -> tuple[Tensor, ...]:
        """What the model gives, from its last stage.

        Raises ValueError from another, and TypeError for what is not a Tensor or a tuple of them.
        """
        if not self._last:
            raise ValueError(
                f"the forward pass of a model that is cut into stages ended after {self._next} steps, and that of the "
                f"example had {len(self._steps)}: the steps between modules must be the same for all batches"
            )
        outputs = made if isinstance(made, tuple) else (made,)
        for value in outputs:
            if not isinstance(value, Tensor):
                raise TypeError(
                    f"a pipeline's model gives a Tensor or a tuple of Tensors, not a {type(value).__name__}"
                )
        return tuple(self._plain(x) for x in outputs)
