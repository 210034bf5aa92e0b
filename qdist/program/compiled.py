"""A plan lowered to executors, the parameter values bound to them, and how they run on a state."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from qdist.backends import Backend, Executor
from qdist.circuit import AffineMap
from qdist.plan.plan import Part, Plan, Segment
from qdist.plan.precision import LONG
from qdist.program.product_start import ProductStart
from qdist.program.watch import Watch
from qdist.progress import Progress
from qdist.state.moves.exchange import swap_bits
from qdist.state.prepare import prepare
from qdist.state.statevector import StateVector

__all__ = ["Compiled", "Values"]


class Values:
    """Values of a circuit's parameters, or of its angles, that executors are bound to. Never changed."""

    __slots__ = ("angles", "theta")

    def __init__(self, theta: NDArray[np.float64] | None = None, angles: NDArray[np.float64] | None = None) -> None:
        self.theta, self.angles = theta, angles

    def of_angles(self, affine: AffineMap) -> NDArray[np.float64]:
        """The angles' values, which may follow from the parameters'."""
        if self.angles is not None:
            return self.angles
        assert self.theta is not None, "values are of one or the other"
        return affine(self.theta)


class Compiled:
    """A plan with its executors. is_random: whether two runs may end in different states. support: nonzero-support
    mask of the states it starts from, 0 for the initial product state and -1 for any."""

    def __init__(self, plan: Plan, affine: AffineMap, backend: Backend, is_random: bool, support: int = 0) -> None:
        self.plan, self.is_random, self._support = plan, is_random, support
        self.start = ProductStart(plan)
        self._affine = affine
        self._held: Values | None = None
        self.parts = [
            (part, [backend.lower(plan, segment, affine) for segment in part.segments]) for part in plan.parts
        ]
        self.executors = [executor for _, executors in self.parts for executor in executors]
        for executor, segment in zip(self.executors, plan.segments):
            executor.origin = plan, segment
        stages = (stage for segment in plan.segments for stage, _ in segment.stages)
        # A collapse normalises the state too.
        unitary = all(part.instruction is None for part in plan.parts)
        long = plan.dtype == np.complex64 and plan.num_gates >= LONG
        self.keeps_norm = long and unitary and not any(o.changes_norm for stage in stages for o in stage.operations)

    def hold(self, values: Values) -> bool:
        """Binds the executors to these values, unless they are bound to them already; False if one is not finite."""
        if self._held is values:
            return True
        self._held = None
        theta, angles = values.theta, values.angles
        for executor in self.executors:
            if theta is None:
                assert angles is not None, "values are of one or the other"
                executor.bind_angles(angles)
            elif not executor.bind(theta):
                return False
        if self.plan.folded:
            self.start.bind(values.of_angles(self._affine))
        self._held = values
        return True

    @cached_property
    def steps_back(self) -> list[tuple[Segment, Executor, int]]:
        """All segments in the order they run, with their executors, made ready for the adjoint sweep, and the
        nonzero-support masks before them (see ``Executor.run``): 0 at the beginning of a product state, else -1 (any
        amplitude)."""
        support = self._support
        found = []
        for part, executors in self.parts:
            for segment, executor in zip(part.segments, executors):
                executor.lower_back(self.plan.backward(segment, support))
                found.append((segment, executor, support))
                support = -1
            if not executors and part.instruction is not None:
                support = -1
        return found

    def run(
        self,
        state: StateVector,
        support: int,
        bits: list[int],
        rng: Any,
        bar: Progress | None,
        watch: Watch | None = None,
    ) -> None:
        """Runs on a state in place, and writes mid-circuit outcomes into ``bits``.

        watch: told of every segment and every instruction, which are counted from 1; it may skip the first ones.

        support: nonzero-support mask, as for ``Executor.run``; 0 for an initial product state, in which only the first
        amplitude of a shard can be nonzero.
        """
        norm = (1.0 if support == 0 else state.norm()) if self.keeps_norm else 0.0
        number, done = 0, 0 if watch is None else watch.done
        if watch is not None:
            norm = watch.begin(norm)
        for part, executors in self.parts:
            runs = part.instruction is None or _holds(part, bits)
            for segment, executor in zip(part.segments, executors):
                number += 1
                if number <= done:
                    support = -1
                    continue
                # Exchanges run whether or not the condition holds, so that the layout is always the planned one.
                if segment.swaps:
                    swap_bits(state, segment.swaps)
                state.layout = segment.layout
                if runs:
                    if watch is not None:
                        watch.before(number, state, executor, support)
                    self._sweep(state, executor, support, bar)
                    support = -1
                if watch is not None:
                    watch.after(number, state, bits, rng)
            if not executors and part.instruction is not None:
                number += 1
                if number <= done:
                    support = -1
                    continue
                if runs:
                    _perform(part, state, bits, rng)
                    support = -1
                if watch is not None:
                    watch.after(number, state, bits, rng)
        if norm > 0:
            state.scale_to(norm)

    def _sweep(self, state: StateVector, executor: Executor, support: int, bar: Progress | None) -> None:
        for offset, shard in state.shards():
            # Most shards of the initial state may be all zero; to look there would wait for a GPU.
            if support != 0 or self.start.value(offset >> state.shard_bits) != 0:
                executor.run(shard, offset, support, bar.advance if bar is not None else None)


def _holds(part: Part, bits: Sequence[int]) -> bool:
    assert part.instruction is not None
    return all(test.holds(bits) for test in part.instruction.condition)


def _perform(part: Part, state: StateVector, bits: list[int], rng: Any) -> None:
    """A measurement, reset or initialisation."""
    assert part.instruction is not None
    gate, qubits, _, clbits, _ = part.instruction
    if gate.kind == "measure":
        bits[clbits[0]] = state.measure(qubits, seed=rng)
    elif gate.kind == "reset":
        state.reset_qubit(qubits[0], seed=rng)
    elif gate.kind == "initialize":
        prepare(state, gate, qubits, rng)
