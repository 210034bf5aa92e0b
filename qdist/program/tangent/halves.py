"""The two halves of a tangent state: |psi>, where the added qubit is 0, and h |phi>, where it is 1.

Each is a state of one qubit less on the same ranks. The added qubit is the highest, and it is made close before the
amplitudes are copied: then a rank has both halves of each of its shards.
"""

from __future__ import annotations

from typing import Any

from qdist.plan.layout import Layout
from qdist.state.moves.relayout import relayout
from qdist.state.statevector import StateVector

__all__ = ["add_half", "half"]


def half(state: StateVector, which: int) -> StateVector:
    """A copy of one half. May leave the tangent state in another layout."""
    relayout(state, _close(state))
    position = state.layout.positions[-1]
    found = StateVector(state.num_qubits - 1, state.dtype, state.comm, _without(state.layout), state.device)
    for (_, own), (_, shard) in zip(found.shards(), state.shards()):
        own[:] = _part(shard, position, which).reshape(-1)
    return found


def add_half(bra: StateVector, which: int, added: StateVector) -> None:
    """Adds a state to one half of a tangent state, which stays in its layout."""
    close = _close(bra)
    inner = _without(close)
    if added.layout != inner:
        added = added.copy().relayout(inner)
    target = bra
    if close != bra.layout:
        target = bra.like()
        target.layout = close
    position = close.positions[-1]
    for (_, own), (_, shard) in zip(added.shards(), target.shards()):
        part = _part(shard, position, which)
        part += own.reshape(part.shape)
    if target is not bra:
        relayout(target, bra.layout)
        bra.local[:] += target.local


def _close(state: StateVector) -> Layout:
    """The state's layout, or, where the added qubit is far, with the highest close position for it."""
    position = state.layout.positions[-1]
    return state.layout if position < state.shard_bits else state.layout.swap(position, state.shard_bits - 1)


def _without(layout: Layout) -> Layout:
    position = layout.positions[-1]
    return Layout([p - (p > position) for p in layout.positions[:-1]])


def _part(shard: Any, position: int, which: int) -> Any:
    return shard.reshape(-1, 2, 1 << position)[:, which]
