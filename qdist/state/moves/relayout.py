"""Changes of layout: the exchanges and local permutations that bring qubits to other positions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from time import perf_counter
from typing import Any

from numpy.typing import NDArray

from qdist.backends.errors import StateError
from qdist.native import kernels
from qdist.plan.layout import Layout
from qdist.state.moves.exchange import swap_bits, together
from qdist.state.shards import Shards

__all__ = ["relayout", "reorder"]

Swaps = list[tuple[int, int]]


def relayout(states: Shards | Sequence[Shards], layout: Layout) -> None:
    """Moves the amplitudes of one state, or of several that are alike, to where a layout wants them.

    Takes at most two exchanges (one where no qubit goes from one far position to another) and two sweeps of the
    memory, and no memory beside the buffers of an exchange. Raises StateError for a layout of another size.
    """
    group = together(states)
    if layout.num_qubits != group[0].num_qubits:
        raise StateError(f"the layout is one of {layout.num_qubits} qubits; the state has {group[0].num_qubits}")
    bits = group[0].shard_bits
    for swaps in _exchanges(group[0].layout, layout, bits):
        swap_bits(group, swaps)
        _record(group, swaps)
    for swaps in _local_swaps(group[0].layout, layout, bits):
        for state in group:
            start = perf_counter()
            for _, shard in state.shards():
                state.backend.kernels.swap_positions(shard, _partners(swaps, bits))
            state.traffic.pack_seconds += perf_counter() - start
        _record(group, swaps)


def reorder(amplitudes: NDArray[Any], layout: Layout) -> None:
    """Puts all amplitudes of a state, which are in the physical order of a layout, into logical order, in place."""
    for swaps in _local_swaps(layout, Layout.identity(layout.num_qubits), layout.num_qubits):
        kernels.swap_positions(amplitudes, _partners(swaps, layout.num_qubits))


def _record(group: Sequence[Shards], swaps: Swaps) -> None:
    layout = group[0].layout
    for a, b in swaps:
        layout = layout.swap(a, b)
    for state in group:
        state.layout = layout


def _partners(swaps: Swaps, bits: int) -> list[int]:
    """Which position each position is exchanged with; itself where nothing happens."""
    partner = list(range(bits))
    for a, b in swaps:
        partner[a], partner[b] = b, a
    return partner


def _exchanges(here: Layout, there: Layout, bits: int) -> list[Swaps]:
    """The swaps after which all far positions hold their qubits; the close ones hold the rest in any order."""

    def target(position: int) -> int:
        return there.positions[here.qubits[position]]

    # A qubit that comes from a far position may go to the position at which its chain of moves began.
    starts = [p for p in range(bits) if target(p) >= bits]
    return _in_pairs([*starts, *range(bits, here.num_qubits)], target, lambda p: p >= bits)


def _local_swaps(here: Layout, there: Layout, bits: int) -> list[Swaps]:
    return _in_pairs(range(bits), lambda p: there.positions[here.qubits[p]], lambda p: True)


def _in_pairs(starts: Iterable[int], target: Callable[[int], int], goes_on: Callable[[int], bool]) -> list[Swaps]:
    """Moves p -> target(p) as at most two lists of swaps, each of different positions.

    A chain of moves begins at each of ``starts`` and ends where it closes or does not go on. The cycle c[0] -> c[1] ->
    ... is the product of two reflections: c[i] with c[-i], then c[i] with c[1 - i].
    """
    first: Swaps = []
    second: Swaps = []
    seen: set[int] = set()
    for start in starts:
        if start in seen:
            continue
        cycle = [start]
        while (following := target(cycle[-1])) != start and goes_on(following):
            cycle.append(following)
        seen.update(cycle)
        for swaps, total in ((first, 0), (second, 1)):
            for i, position in enumerate(cycle):
                j = (total - i) % len(cycle)
                if i < j:
                    swaps.append((min(position, cycle[j]), max(position, cycle[j])))
    return [swaps for swaps in (first, second) if swaps]
