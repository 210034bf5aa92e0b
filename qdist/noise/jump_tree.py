"""Trajectories as branches of a tree, one state after the other, depth first: for states of any size, anywhere.

Where a branch jumps is found by halving: it goes through all channels that are left at once, and only where its squared
norm says that a member jumps on the way, through their first half, and so on down to one channel. So a trajectory
without a jump is as few sweeps as its circuit, and a jump costs a few sweeps more, whatever the number of channels.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from qdist.noise.chain import advance
from qdist.noise.jump_programs import JumpPrograms, Record
from qdist.noise.numbers import Numbers, chosen_jumps
from qdist.state.statevector import StateVector

__all__ = ["Branch", "leaves"]


class Span(NamedTuple):
    """Channels first .. last - 1 of all. jumps: it is known that every member jumps in one of them."""

    first: int
    last: int
    jumps: bool = False


class Branch(NamedTuple):
    """Equal trajectories. state: after the jumps of ``record`` and what came since, normalised at the last of them.
    members: which trajectories. left: what they have not gone through."""

    state: StateVector
    members: NDArray[np.int64]
    record: Record
    left: tuple[Span, ...]


class Spares:
    """States that nobody uses any more: memory for the next copy."""

    def __init__(self) -> None:
        self._free: list[StateVector] = []

    def put(self, state: StateVector) -> None:
        self._free.append(state)

    def copy(self, state: StateVector) -> StateVector:
        if not self._free:
            return state.copy()
        found = self._free.pop()
        found.layout, found.local[:] = state.layout, state.local
        return found


def leaves(programs: JumpPrograms, theta: NDArray[np.float64], numbers: Numbers) -> Iterator[Branch]:
    """The branches at the end of the circuit, with normalised states; each is valid until the next."""
    everyone, spares = np.arange(len(numbers)), Spares()
    limits = numbers.draw(everyone)
    waiting = [Branch(programs.start(), everyone, (), (Span(0, len(programs.places)),))]
    while waiting:
        branch = waiting.pop()
        if not branch.left:
            branch.state.normalize()
            yield branch
            spares.put(branch.state)
            continue
        first, last, jumps = branch.left[0]
        if last - first == 1:
            waiting += _through_channel(programs, branch, theta, limits, numbers, spares)
        elif jumps:
            middle = (first + last) // 2
            waiting.append(branch._replace(left=(Span(first, middle), Span(middle, last, True), *branch.left[1:])))
        else:
            waiting += _through_span(programs, branch, theta, limits, spares)


def _through_span(
    programs: JumpPrograms, branch: Branch, theta: NDArray[np.float64], limits: NDArray[np.float64], spares: Spares
) -> Iterator[Branch]:
    """All gates and first operators of a span at once; those who jump in it go from its beginning again."""
    (first, last, _), *later = branch.left
    before = spares.copy(branch.state)
    state = advance(programs.span(first, last), theta, branch.state)
    jumps = (limits[branch.members] > state.norm() ** 2) & (last > first)
    if jumps.all():
        spares.put(state)
    else:
        yield branch._replace(state=state, members=branch.members[~jumps], left=tuple(later))
    if jumps.any():
        # Last, so that they are finished first, and few states wait. Who jumps here is in no other span for certain.
        left = (Span(first, last, True), *(span._replace(jumps=False) for span in later))
        yield branch._replace(state=before, members=branch.members[jumps], left=left)
    else:
        spares.put(before)


def _through_channel(
    programs: JumpPrograms,
    branch: Branch,
    theta: NDArray[np.float64],
    limits: NDArray[np.float64],
    numbers: Numbers,
    spares: Spares,
) -> Iterator[Branch]:
    """One channel: those who jump in it draw which of its operators it is, and when they jump next."""
    (place, _, certain), *later = branch.left
    layer, channel = programs.places[place]
    gates = programs.before(place)
    before = branch.state if gates is None else advance(gates, theta, branch.state)
    weights = _weights(programs, before, layer, channel)
    possible = bool(weights[1:].sum() > 0)
    jumps = (limits[branch.members] > weights[0]) | certain if possible else np.zeros(len(branch.members), np.bool_)
    if not jumps.all():
        state = spares.copy(before) if jumps.any() else before
        state = advance(programs.operator(layer, channel, 0)[0], theta, state)
        yield from _behind(programs, branch._replace(state=state, members=branch.members[~jumps]), theta)
    who = branch.members[jumps]
    if not len(who):
        return
    chosen = chosen_jumps(np.tile(weights, (len(who), 1)), numbers.draw(who))
    limits[who] = numbers.draw(who)
    rest = tuple(span._replace(jumps=False) for span in later)
    for operator in np.unique(chosen).tolist():
        state = advance(programs.operator(layer, channel, operator)[0], theta, spares.copy(before))
        state.normalize()
        record = (*branch.record, (layer, channel, operator))
        after = Branch(state, who[chosen == operator], record, (branch.left[0], *rest))
        yield from _behind(programs, after, theta)
    spares.put(before)


def _behind(programs: JumpPrograms, branch: Branch, theta: NDArray[np.float64]) -> Iterator[Branch]:
    """The branch behind the channel that it has gone through; behind the last of all also the gates that are left."""
    (place, _, _), *later = branch.left
    gates = programs.before(place + 1) if place + 1 == len(programs.places) else None
    state = branch.state if gates is None else advance(gates, theta, branch.state)
    yield branch._replace(state=state, left=tuple(later))


def _weights(programs: JumpPrograms, state: StateVector, layer: int, channel: int) -> NDArray[np.float64]:
    """The squared norms that the operators of a channel would leave."""
    gate, qubits, *_ = programs.layers[layer].channels[channel]
    effects = gate.data.conj().swapaxes(1, 2) @ gate.data
    diagonal = np.diagonal(effects, axis1=1, axis2=2)
    if np.count_nonzero(effects) == np.count_nonzero(diagonal):
        return diagonal.real @ state.probabilities(qubits)  # As damping is: one sweep.
    return np.einsum("kij,ji->k", effects, state.density_matrix(qubits)).real.clip(0.0)
