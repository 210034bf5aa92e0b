"""One batch on its way through the stages of one rank: the actions of a schedule, carried out."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from qdist.comm import CommError, Work
from qdist.parallel.activation_memory import saved_bytes
from qdist.parallel.loss_terms import Loss, LossTerms, loss_terms
from qdist.parallel.pipeline.graph.graph_stage import GraphStage
from qdist.parallel.pipeline.micro_batches import Batch
from qdist.parallel.pipeline.schedules import FORWARD, Action, Schedule
from qdist.parallel.pipeline.stage_messages import DOWN, UP, Channels, Spec
from qdist.parallel.pipeline.stages import PipelineStage
from qdist.parallel.pipeline.weight_stashing import Stashing, Weights
from qdist.tensor import Tensor, checkpoint, enable_grad, no_grad
from qdist.tensor.arrays import Array, module_of
from qdist.tensor.autograd import walk

Stage = PipelineStage | GraphStage
_REFUSED = -1

__all__ = ["Elsewhere", "Given", "Negotiated", "Run", "Stage", "Sums"]


class Sums(NamedTuple):
    """What the passes of a batch add up to."""

    numerator: float
    """Of the loss."""
    denominator: float
    """0 for a sum."""
    unit: float
    """The gradients of the numerator are this times those of the passes."""

    def loss_and_scale(self, total: float, count: float, replicas: int, reduction: str) -> tuple[float, float]:
        """The loss whose numerator and denominator, of all replicas, these are, and what makes the plain mean of their
        gradients that of the loss."""
        if reduction == "sum":
            return total, self.unit * replicas
        # All is masked: the mean over nothing is not a number, as in one process.
        return (total / count, self.unit * replicas / count) if count else (math.nan, math.nan)


class Elsewhere(Exception):
    """A stage of another rank has a problem."""


class Given(NamedTuple):
    """What a stage gives for a micro-batch."""

    specs: list[Spec]
    drawn: int
    """How many random draws it and the stages before it make; negative if it cannot be run, and sends nothing."""
    noted: list[Any]
    """What it and the stages before it let later ones know."""


Negotiated = dict[tuple[int, int], Given]
"""What stage s gives for a micro-batch of so many rows: {(s, rows): what}."""


@dataclass
class _Live:
    """What a backward pass needs of its forward pass: the ends of the graph, and no activations besides."""

    inputs: tuple[Tensor, ...]
    edges: list[Any]
    """Of the outputs that get gradients."""
    gradients: list[Array] | None
    """Theirs, where this rank makes them itself: those of the loss."""
    saved: int
    """Bytes that the graph keeps, where they are counted."""
    weights: Weights
    """Those of the forward pass, where a rank stashes them."""


@dataclass
class Run:
    """Carries out the actions of one rank for one batch; `run()` does it all."""

    schedule: Schedule
    rank: int
    stages: dict[int, Stage]
    channels: Channels
    negotiated: Negotiated
    batch: Batch
    loss: Loss | None
    """None collects the outputs of the last stage instead."""
    training: bool
    recompute: bool
    check: Callable[[Any, Any], None] | None = None
    """Called with the outputs and targets of the first micro-batch: whether its loss can be joined with others."""
    after_loss: Callable[[Any, LossTerms], None] | None = None
    """Called with the outputs and the loss of every micro-batch, on the rank of the last stage."""
    stashing: Stashing | None = None
    """Of a rank that updates its weights after each backward pass."""

    reduction: str = "mean"
    apart: bool = False
    """Whether every micro-batch is a batch of its own: then the loss is the mean of theirs."""
    loss_scale: float = 1.0
    """A factor of all gradients, so that small ones do not vanish."""

    problem: Exception | None = None
    """What a stage of this rank raised."""
    doubt: Exception | None = None
    """Why the loss cannot be joined with those of others."""
    total: float = 0.0
    """The numerator of the batch's loss, on the rank of the last stage."""
    count: float = 0.0
    """Its denominator; 0 for a sum."""
    unit: float = 1.0
    """The gradients of the numerator are this times those that the passes add up to: their seeds are divided by it, so
    that sums over many values stay in the range of means."""
    given_unit: float | None = None
    """That factor, where it is known beforehand."""
    drawn: int = 0
    """How many random draws a pass through all stages makes, on the rank of the last stage."""
    outputs: dict[int, tuple[Tensor, ...]] = field(default_factory=dict)
    """Of the last stage for each micro-batch, where there is no loss."""
    peak_live: int = 0
    """The most micro-batches, counted in each stage, that waited for their backward pass at one time."""
    measures: bool = False
    """Whether it counts the bytes that wait for backward passes."""
    frozen: Sequence[Array] = ()
    """What of the model is not trained, which is then left out."""
    peak_saved: int = 0
    """The most at one time."""
    _live: dict[tuple[int, int], _Live] = field(default_factory=dict)
    _expected: dict[Action, list[Work]] = field(default_factory=dict)
    _mail: dict[Action, list[Array]] = field(default_factory=dict)
    """Messages of a rank to itself, by the action that made them."""

    def run(self) -> None:
        """Carries out the rank's actions. What a stage raises is kept in `problem`: the neighbours are served on, with
        messages that mean nothing, so that nobody waits, and all can be told at the end."""
        actions = self.schedule.actions[self.rank]
        with enable_grad() if self.training else no_grad():
            for action, following in zip(actions, [*actions[1:], None]):
                self._expect(action, ask=True)
                if self.problem is not None:
                    self._drain(action, received=False)
                    continue
                if following is not None:
                    # So that it may arrive while this rank computes.
                    self._expect(following, ask=False)
                try:
                    if action.kind == FORWARD:
                        self._forward(action)
                    else:
                        self._backward(action)
                except CommError:
                    raise
                except Exception as error:
                    self.problem = error
                    self._drain(action, received=True)
        self.channels.finish()
        for key in [key for key, given in self.negotiated.items() if given.drawn == _REFUSED]:
            del self.negotiated[key]
        self._live.clear()

    def _drain(self, action: Action, received: bool) -> None:
        """Serve the neighbours of an action that cannot be run. received: whether what it needs has been taken."""
        self._live.pop((action.stage, action.micro_batch), None)
        if self.schedule.ranks == 1:
            return
        if not received and self.schedule.needs(action) is not None:
            self._received(action)
        if action.kind == FORWARD and action.stage < self.schedule.stages - 1:
            key, upper = self._key(action.stage, action), self.schedule.rank_of(action.stage)
            if key not in self.negotiated:
                self.negotiated[key] = Given([], _REFUSED, [])
                self.channels.announce(upper, *self.negotiated[key])
            self.channels.send(DOWN, upper, [spec.room() for spec in self.negotiated[key].specs])
        elif action.kind != FORWARD and action.stage > 0:
            specs = self.negotiated[self._key(action.stage - 1, action)].specs
            upper = self.schedule.rank_of(action.stage - 1)
            self.channels.send(UP, upper, [spec.room() for spec in specs if spec.differentiable])

    # Passes ----------------------------------------------------------------------------------------------------------

    def _forward(self, action: Action) -> None:
        _, stage, m = action
        inputs = self.batch.inputs_of(m) if stage == 0 else self._activations(action)
        run = self.stages[stage].run
        above = self.negotiated[self._key(stage - 1, action)] if stage else Given([], 0, [])
        draws = self.batch.draws_of(m, above.drawn)
        if self.recompute and self.training:
            outputs = checkpoint(run, draws, above.noted, *inputs)
        else:
            outputs = run(draws, above.noted, *inputs)
        drawn = above.drawn + self.stages[stage].drawn - draws.draw
        gradients = None
        if stage < self.schedule.stages - 1:
            self._pass_down(action, outputs, drawn)
        elif self.loss is None:
            self.outputs[m] = outputs
        else:
            loss, seed = self._loss_of(m, outputs)
            outputs, self.drawn = (loss,), drawn
            gradients = [module_of(loss.data).full(loss.shape, seed, loss.dtype)]
        if self.training:
            edges = [out if out.node is None else out.node for out in outputs if Spec.of(out).differentiable]
            saved = self._saved(outputs) if self.measures else 0
            weights = [] if self.stashing is None else self.stashing.weights()
            self._live[stage, m] = _Live(inputs, edges, gradients if edges else [], saved, weights)
            self.peak_live = max(self.peak_live, len(self._live))
            self.peak_saved = max(self.peak_saved, sum(live.saved for live in self._live.values()))

    def _saved(self, outputs: tuple[Tensor, ...]) -> int:
        """The bytes that the graph of a stage keeps."""
        besides = (*self.batch.inputs, *self.batch.targets, *self.frozen)
        return saved_bytes(*outputs, besides=besides)

    def _loss_of(self, m: int, outputs: tuple[Tensor, ...]) -> tuple[Tensor, float]:
        """The loss of a micro-batch, and what its backward pass begins with."""
        assert self.loss is not None
        output, targets = outputs[0] if len(outputs) == 1 else outputs, self.batch.targets_of(m)
        if self.check is not None:
            try:
                self.check(output, targets)
            except ValueError as error:
                self.doubt = error  # The passes go on, so that ranks that gather parameters for them meet.
            self.check = None
        terms = loss_terms(self.loss, output, targets, len(self.batch.bounds[m]), self.reduction)
        if self.after_loss is not None:
            self.after_loss(output, terms)
        if self.apart:
            share = terms.alone(self.reduction)
            self.total += share * float(terms.value)
            self.count += 1.0
            return terms.value, self.loss_scale * share
        if self.given_unit is not None:
            self.unit = self.given_unit
        elif self.reduction == "mean":
            # All rows of all replicas: about the denominator, and the same where ranks that share sequences exchange
            # gradients within a pass.
            self.unit = float(self.batch.draws.rows[2])
        self.total += terms.numerator
        self.count += terms.denominator
        return terms.value, self.loss_scale * terms.factor / self.unit

    def _backward(self, action: Action) -> None:
        live = self._live.pop((action.stage, action.micro_batch))
        gradients = self._received(action) if live.gradients is None else live.gradients
        with nullcontext() if self.stashing is None else self.stashing.brought_back(live.weights):
            walk(list(zip(live.edges, gradients, strict=True)), retain_graph=False)
        if action.stage > 0:
            self._pass_up(action, live.inputs)
        if self.stashing is not None:
            self.stashing.update()

    # Messages --------------------------------------------------------------------------------------------------------

    def _key(self, stage: int, action: Action) -> tuple[int, int]:
        return stage, len(self.batch.bounds[action.micro_batch])

    def _pass_down(self, action: Action, outputs: tuple[Tensor, ...], drawn: int) -> None:
        key, noted = self._key(action.stage, action), self.stages[action.stage].noted
        given = Given([Spec.of(out) for out in outputs], drawn, noted)
        upper = self.schedule.rank_of(action.stage)
        alone = self.schedule.ranks == 1
        if key not in self.negotiated:
            self.negotiated[key] = given
            if not alone:
                self.channels.announce(upper, *given)
        elif given != self.negotiated[key]:
            raise ValueError(
                f"stage {action.stage} gave {given[:2]} for micro-batch {action.micro_batch}, but "
                f"{self.negotiated[key][:2]} for one of as many rows before: what a stage gives, and how often it "
                "draws at random, must follow from the shapes of its inputs"
            )
        arrays = [out._data for out in outputs]
        if alone:
            self._mail[action] = arrays
        else:
            self.channels.send(DOWN, upper, arrays)

    def _activations(self, action: Action) -> tuple[Tensor, ...]:
        arrays = self._received(action)
        specs = self.negotiated[self._key(action.stage - 1, action)].specs
        return tuple(Tensor(a, self.training and spec.differentiable) for a, spec in zip(arrays, specs, strict=True))

    def _pass_up(self, action: Action, inputs: tuple[Tensor, ...]) -> None:
        arrays = [
            module_of(x.data).zeros_like(x.data) if x.grad is None else x.grad.data for x in inputs if x.requires_grad
        ]
        if self.schedule.ranks == 1:
            self._mail[action] = arrays
        else:
            self.channels.send(UP, self.schedule.rank_of(action.stage - 1), arrays)

    def _expect(self, action: Action, ask: bool) -> None:
        """Start receiving what an action needs. ask: it is the next one, so wait for the shapes to be announced if they
        are not known; without, nothing is received where that could not be under way while this rank computes."""
        needed = self.schedule.needs(action)
        if needed is None or self.schedule.ranks == 1 or action in self._expected:
            return
        down = action.kind == FORWARD
        stage = needed.stage if down else action.stage
        upper, key = self.schedule.rank_of(stage), self._key(stage, action)
        if key not in self.negotiated:
            if not ask:
                return
            self.negotiated[key] = Given(*self.channels.learn(upper))
            if self.negotiated[key].drawn == _REFUSED and self.problem is None:
                self.problem = Elsewhere(f"stage {stage} cannot run its part of the batch")
        specs = [spec for spec in self.negotiated[key].specs if down or spec.differentiable]
        direction = DOWN if down else UP
        if ask or self.channels.may_receive_ahead(direction, upper, specs):
            self._expected[action] = self.channels.receive(direction, upper, specs)

    def _received(self, action: Action) -> list[Array]:
        if self.schedule.ranks == 1:
            needed = self.schedule.needs(action)
            assert needed is not None
            return self._mail.pop(needed)
        return [work.wait() for work in self._expected.pop(action)]
