"""Graph: the operations of one training step, captured once, with global shapes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Any

import numpy as np

from qdist.nn.module import Module
from qdist.parallel.auto.eager.capture import capturing
from qdist.parallel.auto.eager.dispatch import form_for
from qdist.parallel.auto.placement.process_mesh import ProcessMesh
from qdist.parallel.auto.rules.forms import Form, Split
from qdist.tensor import Rule, Tensor, random

__all__ = ["Graph", "Operation", "Recorder", "Value", "trace"]


@dataclass(eq=False)
class Value:
    """A tensor of the graph.

    Attributes:
        kind: "input", "parameter", "constant" or "result".
        name: of an input or parameter; %number otherwise.
        tensor: the Tensor itself, for parameters and constants.
        needs_grad: gradients travel back to it.
    """

    name: str
    kind: str
    shape: tuple[int, ...]
    dtype: np.dtype
    tensor: Tensor | None = None
    needs_grad: bool = False

    @property
    def nbytes(self) -> int:
        """Bytes of the whole tensor."""
        return int(np.prod(self.shape, dtype=np.int64)) * self.dtype.itemsize


@dataclass(eq=False)
class Operation:
    """One operation: a rule, its inputs (Values and Python numbers), and what it makes.

    Attributes:
        pinned: the splits that the user asked for.
        row: the row of a mesh that the user asked for, a pipeline stage.
        unused_draws: how many operations before it drop elements of what nobody needs. They are left out, and their
            random draws are not: those that follow are as in a model that is not captured.
    """

    rule: Rule
    inputs: tuple[Any, ...]
    attributes: dict[str, Any]
    outputs: tuple[Value, ...]
    pinned: tuple[Split, ...] | None = None
    row: ProcessMesh | None = None
    unused_draws: int = 0

    @property
    def drops(self) -> bool:
        """Whether it draws at random which elements to drop."""
        return self.attributes.get("ticket") is not None

    def form(self) -> Form:
        """How its dimensions may be cut."""
        shapes = [x.shape if isinstance(x, Value) else None for x in self.inputs]
        return form_for(self.rule.name, shapes, self.attributes)


@dataclass
class Graph:
    """What one step computes: from `inputs` and `parameters` to `output`, what the model gives, and `loss`."""

    operations: list[Operation] = field(default_factory=list)
    inputs: list[Value] = field(default_factory=list)
    parameters: list[Value] = field(default_factory=list)
    output: Value | None = None
    loss: Value | None = None
    passed_on: list[Value] = field(default_factory=list)
    """What else is wanted at the end: values that a later part of a larger graph takes."""
    unused_draws: int = 0
    """As of an operation, behind the last."""

    @property
    def results(self) -> list[Value]:
        """All that is wanted at the end."""
        return [*(value for value in (self.output, self.loss) if value is not None), *self.passed_on]

    def users(self) -> dict[Value, list[Operation]]:
        """The operations that take each value."""
        found: dict[Value, list[Operation]] = {}
        for operation in self.operations:
            for x in operation.inputs:
                if isinstance(x, Value):
                    found.setdefault(x, []).append(operation)
        return found


def trace(
    model: Module,
    loss: Callable[..., Any] | None,
    inputs: Sequence[Tensor],
    labels: Sequence[Tensor],
    names: Sequence[str | None] = (),
) -> Graph:
    """Run model and loss once and write down what they do.

    Args:
        model: called with the inputs; gives one Tensor.
        loss: called with the model's output and the labels, gives a number or a pair (numerator, denominator); None for
            a graph without a loss.
        inputs, labels: samples with the global shapes of a batch.
        names: of the inputs and then the labels; "input" and "label", with numbers where there are several, where there
            is none.

    Raises:
        TypeError: when the model gives anything but one Tensor.
        RuntimeError: when it changes a buffer (the running averages of a batch norm): a graph would not; or when it
            draws random numbers itself: a graph would repeat them.
    """
    recorder = Recorder(model)
    usual = [f"input{i}" if len(inputs) > 1 else "input" for i in range(len(inputs))]
    usual += [f"label{i}" if len(labels) > 1 else "label" for i in range(len(labels))]
    chosen = [given or name for given, name in zip_longest(names, usual)][: len(usual)]
    if len({*chosen, *recorder.names.values()}) < len(chosen) + len(recorder.names):
        raise ValueError(f"inputs and labels {chosen} need names of their own, which no parameter has")
    for name, x in zip(chosen, (*inputs, *labels), strict=True):
        recorder.add_input(name, x)
    before = {name: (buffer, buffer.version) for name, buffer in model.named_buffers()}
    # What is drawn here is drawn again when the graph runs: a captured model has the masks of one that is not.
    drawn = random.get_state()
    with capturing(recorder.take):
        made = model(*inputs)
        if not isinstance(made, Tensor):
            raise TypeError(f"a captured model gives one Tensor, not {type(made).__name__}")
        value: Any = None if loss is None else loss(made, *labels)
        if isinstance(value, (tuple, list)) and len(value) == 2:
            value = value[0] / value[1]
    draws = random.get_state()["draw"] - drawn["draw"]
    random.set_state(drawn)
    if draws > sum(operation.drops for operation in recorder.graph.operations):
        raise RuntimeError(
            "the model draws random numbers besides dropout: a captured graph would repeat those of its capture in "
            "every step; draw them outside and pass them as an input, or train the model without capture"
        )
    after = dict(model.named_buffers())
    changed = [name for name, (b, version) in before.items() if after.get(name) is not b or b.version != version]
    if changed:
        raise RuntimeError(
            f"the model changes its buffers {', '.join(changed)} while it runs, which a captured graph would leave "
            "out; train it without capture, or in eval() mode"
        )
    graph = recorder.graph
    graph.output = recorder.value(made)
    graph.loss = None if value is None else recorder.value(value)
    return _pruned(graph)


class Recorder:
    """Makes a Graph of what a capture tells; `model` gives parameters their names."""

    def __init__(self, model: Module) -> None:
        self.graph = Graph()
        self.names = {id(p): name for name, p in model.named_parameters()}
        self.known: dict[int, Value] = {}
        # Keeps every tensor alive, so that no two share an id.
        self.alive: list[Tensor] = []
        self.numbers = iter(range(1 << 62))

    def add_input(self, name: str, tensor: Tensor) -> None:
        """From now on this tensor stands for an input."""
        value = Value(name, "input", tensor.shape, tensor.dtype, needs_grad=tensor.requires_grad)
        self._know(tensor, value)
        self.graph.inputs.append(value)

    def value(self, tensor: Tensor) -> Value:
        """The value that stands for a tensor; one that nobody made is a parameter or a constant."""
        known = self.known.get(id(tensor))
        if known is not None:
            return known
        name = self.names.get(id(tensor))
        kind = "constant" if name is None else "parameter"
        value = Value(name or f"%{next(self.numbers)}", kind, tensor.shape, tensor.dtype, tensor, tensor.requires_grad)
        self._know(tensor, value)
        if kind == "parameter":
            self.graph.parameters.append(value)
        return value

    def take(
        self, rule: Rule, inputs: tuple[Any, ...], attributes: dict[str, Any], made: Any, pinned: Any, stage: Any
    ) -> None:
        """One operation, as `capturing` tells it."""
        values = tuple(self.value(x) if isinstance(x, Tensor) else x for x in inputs)
        outputs = made if isinstance(made, tuple) else (made,)
        results = []
        for out in outputs:
            result = Value(f"%{next(self.numbers)}", "result", out.shape, out.dtype, None, out.requires_grad)
            self._know(out, result)
            results.append(result)
        self.graph.operations.append(Operation(rule, values, dict(attributes), tuple(results), pinned, stage))

    def _know(self, tensor: Tensor, value: Value) -> None:
        self.known[id(tensor)] = value
        self.alive.append(tensor)


def _pruned(graph: Graph) -> Graph:
    """Without the operations that neither the output nor the loss needs."""
    needed = {value for value in (graph.output, graph.loss) if value is not None}
    kept: list[Operation] = []
    for operation in reversed(graph.operations):
        if needed.intersection(operation.outputs):
            kept.append(operation)
            needed.update(_values(operation.inputs))
        elif operation.drops:
            following = kept[-1] if kept else graph
            following.unused_draws += 1
    graph.operations = kept[::-1]
    graph.parameters = [p for p in graph.parameters if p in needed]
    return graph


def _values(inputs: Sequence[Any]) -> Iterator[Value]:
    return (x for x in inputs if isinstance(x, Value))
