"""A two-level interconnect: exchanges that stay inside the node, where that takes less time.

The bits at the lowest far positions number the shards of a node. Between nodes, a node is one large shard: the same
search first finds few exchanges between nodes, then, for what runs between two of them, few inside the node.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from qdist.plan.cost import Cluster, bytes_of_swaps
from qdist.plan.layout import Layout
from qdist.plan.network.exchanges import NetworkStage, few_sets, lazy, mask_of, placed
from qdist.plan.operations import Operation

__all__ = ["Network", "lazy_in_nodes"]


@dataclass(frozen=True, slots=True)
class Network:
    """The shards and the interconnect, as the planner sees them."""

    num_qubits: int
    close: int
    """Positions inside a shard."""
    inside: int
    """Far positions, from the lowest, whose bits number the shards of a node."""
    shard_bytes: int
    cluster: Cluster

    def seconds(self, stages: Sequence[NetworkStage]) -> float:
        """The time of the exchanges by their bytes. Latency is left out: it would favour many small exchanges."""
        total = 0.0
        for stage in stages:
            crossing = sum(b >= self.close + self.inside for _, b in stage.swaps)
            sent = bytes_of_swaps(self.shard_bytes, len(stage.swaps), crossing)
            total += self.cluster.exchange_seconds(*sent, messages=0)
        return total


def lazy_in_nodes(
    operations: Sequence[Operation], network: Network, layout: Layout | None, limit: int
) -> tuple[list[NetworkStage], int]:
    """As ``exchanges.lazy``, on nodes of several shards: the faster of a plan with the fewest exchanges and one with
    the fewest between nodes."""
    n, close = network.num_qubits, network.close
    if network.inside in (0, n - close):
        return lazy(operations, n, close, layout, limit)
    flat, work = lazy(operations, n, close, layout, limit // 2)
    nested, more = _nested(operations, network, layout, limit // 2)
    return min(flat, nested, key=network.seconds), work + more


def _nested(
    operations: Sequence[Operation], network: Network, layout: Layout | None, limit: int
) -> tuple[list[NetworkStage], int]:
    """First sets of qubits that are in the node, then, for the gates of each, sets that are close."""
    n, close, in_node = network.num_qubits, network.close, network.close + network.inside
    masks = [(o.mixes, o.x_like, o.z_like) for o in operations]
    start = None if layout is None else mask_of(layout.qubits[:in_node])
    nodes, when, work = few_sets(masks, n, in_node, start, limit // 2)
    sets: list[int] = []
    groups: list[list[Operation]] = []
    for number, node in enumerate(nodes):
        own = [k for k, stage in enumerate(when) if stage == number]
        qubits = [q for q in range(n) if node >> q & 1]
        # Gates of this stage mix no qubit outside the node: there they are all diagonal, and commute.
        small = [(_seen(m, qubits), _seen(x, qubits), _seen(z, qubits)) for m, x, z in (masks[k] for k in own)]
        # A fictitious first gate mixes the qubits that come from other nodes, so that one exchange brings them all.
        coming = _seen(node & ~nodes[number - 1], qubits) if number else 0
        wanted = (coming if coming.bit_count() <= close else 0, 0, 0)
        # The set that is close when the stage begins.
        before = sets[-1] if sets else None if layout is None else mask_of(layout.qubits[:close])
        first = None if before is None else _seen(before, qubits)
        share = max(0, limit - work) // (len(nodes) - number)
        found, stages, more = few_sets([wanted, *small], in_node, close, first, share)
        work += more
        inner: list[list[Operation]] = [[] for _ in found]
        for k, stage in zip(own, stages[1:]):
            inner[stage].append(operations[k])
        for mask, group in zip(found, inner):
            if group:
                sets.append(mask_of([q for k, q in enumerate(qubits) if mask >> k & 1]))
                groups.append(group)
    return placed(sets, groups, n, close, layout), work


def _seen(mask: int, qubits: Sequence[int]) -> int:
    """The mask compressed to some qubits: bit k for qubits[k]."""
    return mask_of([k for k, q in enumerate(qubits) if mask >> q & 1])
