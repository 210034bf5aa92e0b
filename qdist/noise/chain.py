"""Gradients through steps that cannot be undone.

An adjoint sweep undoes gates on ket and bra together, and a Kraus operator or a superoperator has no inverse. So the
ket is stored before each such step: the bra goes back through it by the adjoint matrix, and the ket is taken from the
store. Between two of them gates are undone as ever. Memory: a state a step, besides the two.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from qdist.program.adjoint import sweep_back
from qdist.program.program import Program
from qdist.program.runner import Runner
from qdist.state.statevector import StateVector

__all__ = ["Step", "advance", "chain_gradient"]


class Step(NamedTuple):
    """One program. ``adjoint``: for matrices that are not unitary, the program of their adjoints in reverse order; None
    for gates."""

    program: Program
    adjoint: Program | None = None


def advance(program: Runner, theta: NDArray[np.float64], state: StateVector) -> StateVector:
    """Runs a program on a state, in place."""
    values = program.values(theta if program.source.parameters else None)
    return program.run_with(values, state, None, state)


def chain_gradient(
    steps: Sequence[Step],
    theta: NDArray[np.float64],
    state: StateVector,
    bra_of: Callable[[StateVector], StateVector],
) -> NDArray[np.float64]:
    """2 Re <bra|d ket> by the parameters, of the ket after all steps.

    state: the ket before them, which is overwritten. bra_of: makes the bra from the ket after them.
    """
    stored, starts = [], []
    for step in steps:
        starts.append(state.layout)
        if step.adjoint is not None:
            stored.append(state.copy())
        state = advance(step.program.for_gradients, theta, state)
    bra = bra_of(state)
    gradient = np.zeros(len(theta))
    for step, layout in zip(reversed(steps), reversed(starts)):
        if step.adjoint is not None:
            bra = advance(step.adjoint, theta, bra)
            state = stored.pop()
            bra.relayout(state.layout)
            continue
        program = step.program.for_gradients
        with program.lock:
            values = program.values(theta if program.source.parameters else None)
            runner = program.of_states(layout)
            runner.hold()
            by_angle = sweep_back(runner, state, bra, recover=True)
            if runner.steps_back:
                state.layout = bra.layout = layout
        by_parameter = state.sum_over_ranks(program.affine.transposed(by_angle))
        if values.theta is not None:
            by_parameter = program.source.pulled_back(values.theta, by_parameter)
        gradient += by_parameter
    return gradient
