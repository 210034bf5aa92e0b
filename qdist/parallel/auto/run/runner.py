"""PlanRunner: the run of a plan's instructions on local parts."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from qdist.parallel.auto.eager.dispatch import run_local
from qdist.parallel.auto.ir.graph import Operation, Value
from qdist.parallel.auto.ir.lower import Instruction, Move, given_by, lower, made, taken_by
from qdist.parallel.auto.ir.sharding_plan import Need, ShardingPlan
from qdist.parallel.auto.placement.reshard import reshard_local
from qdist.tensor import Tensor, checkpoint, random
from qdist.tensor.functional import check_classes, check_rows

__all__ = ["PlanRunner"]

Values = dict[Need, Tensor]
Around = Callable[[Operation, list[Any], Callable[[list[Any]], Any]], Any]


class PlanRunner:
    """Runs the instructions of a plan.

    Args:
        plan: what to run.
        segments: cuts the instructions into lists of which only inputs and outputs are kept for the backward pass,
            the rest being computed again; everything is kept when not given.
        around: around(operation, inputs, run) runs an operation on its local inputs by run(inputs), in a way of its
            own (another precision).
        trains: whether gradients and updates follow, for whoever shows the program.
    """

    def __init__(
        self,
        plan: ShardingPlan,
        *,
        segments: Callable[[list[Instruction]], list[list[Instruction]]] | None = None,
        around: Around | None = None,
        trains: bool = False,
    ) -> None:
        self.plan = plan
        self.trains = trains
        self.instructions = lower(plan)
        self._around = around
        self._segments = None if segments is None else segments(self.instructions)

    def run(self, inputs: dict[str, Tensor]) -> tuple[Tensor, Tensor | None]:
        """One pass.

        Args:
            inputs: this rank's part of every input by name, lying as the plan says.

        Returns:
            This rank's part of the output, and of the loss if there is one.
        """
        values = self.values(inputs)
        graph = self.plan.graph
        assert graph.output is not None
        return values[graph.output], None if graph.loss is None else values[graph.loss]

    def values(self, inputs: dict[str, Tensor], dropping: bool = True) -> dict[Value, Tensor]:
        """This rank's part of everything that the graph has as a result; inputs as for `run`.

        dropping: whether dropout drops, as it did when the graph was captured.
        """
        values: Values = {}
        for value in self.plan.graph.inputs:
            values[made(self.plan, value)] = inputs[value.name]
        for value in _stored_values(self.plan):
            assert value.tensor is not None
            values[made(self.plan, value)] = getattr(value.tensor, "local", value.tensor)
        # Drawn before anything runs, in program order, so that a second run of a segment drops the same elements.
        # Shapes are those of the graph: where that is captured for a micro-batch, of all its rows on all replicas.
        tickets = self._tickets() if dropping else {}
        if self._segments is None:
            self._run(self.instructions, values, tickets)
        else:
            self._run_segments(values, tickets)
        return {value: values[made(self.plan, value)] for value in self.plan.graph.results}

    def _tickets(self) -> dict[Operation, Any]:
        """What is drawn for each operation that drops elements."""
        tickets = {}
        for operation in self.plan.graph.operations:
            random.skip(operation.unused_draws)
            if operation.drops:
                tickets[operation] = random.ticket(_masked(operation))
        random.skip(self.plan.graph.unused_draws)
        return tickets

    def _run(self, instructions: list[Instruction], values: Values, tickets: dict[Operation, Any]) -> None:
        mesh = self.plan.mesh
        for instruction in instructions:
            if isinstance(instruction, Move):
                source, target = instruction.source, instruction.target
                values[target] = reshard_local(
                    values[source], mesh, target.value.shape, source.placements, target.placements, target.differs
                )
                continue
            operation = instruction.operation
            locals_ = [values[x] if isinstance(x, Need) else x for x in instruction.inputs]
            attributes = operation.attributes
            if operation.drops:
                drawn: dict[str, Any] = {"ticket": tickets[operation]} if operation in tickets else {"p": 0.0}
                attributes = {**attributes, **drawn}
            shapes = [x.shape if isinstance(x, Value) else None for x in operation.inputs]
            splits = self.plan.splits[operation]
            run = partial(_run_on, operation, attributes, mesh, shapes, splits)
            result = run(locals_) if self._around is None else self._around(operation, locals_, run)
            values.update(zip(instruction.outputs, result if isinstance(result, tuple) else (result,)))

    def _run_segments(self, values: Values, tickets: dict[Operation, Any]) -> None:
        assert self._segments is not None
        ends = {made(self.plan, v) for v in self.plan.graph.results}
        for i, segment in enumerate(self._segments):
            later = {need for rest in self._segments[i + 1 :] for one in rest for need in taken_by(one)} | ends
            outputs = [need for one in segment for need in given_by(one) if need in later]
            known = dict(values)

            def work(segment: Any = segment, outputs: Any = outputs, known: Values = known) -> tuple[Tensor, ...]:
                inside = dict(known)
                self._run(segment, inside, tickets)
                return tuple(inside[need] for need in outputs)

            values.update(zip(outputs, checkpoint(work)))


def _masked(operation: Operation) -> tuple[int, ...]:
    """The shape of what is dropped: of the only input, or of the weights of an attention's queries and keys."""
    shapes = [x.shape for x in operation.inputs if isinstance(x, Value)]
    return shapes[0] if len(shapes) == 1 else (*shapes[0][:-1], shapes[1][-2])


def _run_on(operation: Operation, attributes: Any, mesh: Any, shapes: Any, splits: Any, inputs: list[Any]) -> Any:
    # The model and the loss look at indices when they are called, and a graph calls neither.
    name = operation.rule.name
    if name == "embedding":
        check_rows(inputs[1]._data, shapes[0][0])
    elif name == "cross_entropy":
        check_classes(name, inputs[1]._data, shapes[0][1])
    elif name == "gather" and "loss" in attributes:
        check_classes(attributes["loss"], inputs[1]._data, shapes[0][attributes["axis"]])
    return run_local(operation.rule, inputs, attributes, mesh, shapes, splits)


def _stored_values(plan: ShardingPlan) -> list[Value]:
    """Parameters and constants."""
    constants = {
        x: None
        for operation in plan.graph.operations
        for x in operation.inputs
        if isinstance(x, Value) and x.kind == "constant"
    }
    return [*plan.graph.parameters, *constants]
