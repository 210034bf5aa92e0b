"""Trajectories as branches of a tree, one state after the other, depth first: for states of any size, anywhere."""

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


class Branch(NamedTuple):
    """Equal trajectories. state: after the jumps of ``record`` and what came since, normalised at the last of them.
    members: which trajectories. place: the next layer, and the next channel in it, -1 before its gates."""

    state: StateVector
    members: NDArray[np.int64]
    record: Record
    place: tuple[int, int]


def leaves(programs: JumpPrograms, theta: NDArray[np.float64], numbers: Numbers) -> Iterator[Branch]:
    """The branches at the end of the circuit, with normalised states; each is valid until the next."""
    everyone = np.arange(len(numbers))
    limits = numbers.draw(everyone)
    waiting = [Branch(programs.start(), everyone, (), (0, -1))]
    while waiting:
        branch = waiting.pop()
        layer, channel = branch.place
        if layer == len(programs.layers):
            branch.state.normalize()
            yield branch
        elif channel < 0:
            waiting += _through_layer(programs, branch, theta, limits)
        else:
            waiting += _through_channel(programs, branch, theta, limits, numbers)


def _through_layer(
    programs: JumpPrograms, branch: Branch, theta: NDArray[np.float64], limits: NDArray[np.float64]
) -> Iterator[Branch]:
    """All gates and first operators of a layer at once; those who jump in it go from its beginning again."""
    layer, _ = branch.place
    if not programs.layers[layer].channels:
        yield branch._replace(state=advance(programs.calm[layer], theta, branch.state), place=(layer + 1, -1))
        return
    before = branch.state.copy()
    state = advance(programs.calm[layer], theta, branch.state)
    jumps = limits[branch.members] > state.norm() ** 2
    if not jumps.all():
        yield branch._replace(state=state, members=branch.members[~jumps], place=(layer + 1, -1))
    if jumps.any():
        # Last, so that they are finished first, and few states wait.
        before = advance(programs.gates(layer), theta, before)
        yield branch._replace(state=before, members=branch.members[jumps], place=(layer, 0))


def _through_channel(
    programs: JumpPrograms,
    branch: Branch,
    theta: NDArray[np.float64],
    limits: NDArray[np.float64],
    numbers: Numbers,
) -> Iterator[Branch]:
    layer, channel = branch.place
    channels = programs.layers[layer].channels
    after = (layer, channel + 1) if channel + 1 < len(channels) else (layer + 1, -1)
    gate, qubits, *_ = channels[channel]
    rho = branch.state.density_matrix(qubits)
    weights = np.einsum("kij,jl,kil->k", gate.data, rho, gate.data.conj()).real.clip(0.0)
    jumps = (limits[branch.members] > weights[0]) & bool(weights[1:].sum() > 0)
    if not jumps.all():
        state = branch.state.copy() if jumps.any() else branch.state
        state = advance(programs.operator(layer, channel, 0)[0], theta, state)
        yield branch._replace(state=state, members=branch.members[~jumps], place=after)
    who = branch.members[jumps]
    if not len(who):
        return
    chosen = chosen_jumps(np.tile(weights, (len(who), 1)), numbers.draw(who))
    limits[who] = numbers.draw(who)
    for operator in np.unique(chosen).tolist():
        state = advance(programs.operator(layer, channel, operator)[0], theta, branch.state.copy())
        state.normalize()
        record = (*branch.record, (layer, channel, operator))
        yield Branch(state, who[chosen == operator], record, after)
