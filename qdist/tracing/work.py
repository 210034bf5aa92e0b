"""How much work a stage is: bytes and flops, as the plan counts them."""

from __future__ import annotations

from typing import Any, NamedTuple

from qdist.backends import Executor
from qdist.plan.cost import block_flops

__all__ = ["StageWork", "work_of"]


class StageWork(NamedTuple):
    """A stage on one shard. bytes, flops: if every amplitude is read, computed and written, as ``Plan.bytes_moved`` and
    ``Plan.flops`` count. close: mask of the positions in a tile. in_double: whether it computes in double precision.
    only_moves: whether it is left out of a run from |0...0>, where it comes first."""

    name: str
    bytes: int
    flops: float
    close: int
    in_double: bool
    only_moves: bool

    def touched(self, support: int, bits: int) -> float:
        """The share of the amplitudes that is read and written: those not known to be zero."""
        return 2.0 ** (self.spread(support).bit_count() - bits) if self.spread(support) else 0.0

    def spread(self, support: int) -> int:
        """The nonzero-support mask after it."""
        return support if self.only_moves and not support else support | self.close

    def args(self, touched: float) -> dict[str, Any]:
        return {"bytes": self.bytes, "flops": self.flops, "touched": touched, "double": self.in_double}


def work_of(executor: Executor, bits: int) -> list[StageWork]:
    """The work of every stage of an executor, on a shard of so many index bits."""
    if executor.origin is None:
        return []
    plan, segment = executor.origin
    in_double = plan.in_double or plan.dtype.itemsize == 16
    found = []
    for number, (stage, blocks) in enumerate(segment.stages):
        kinds = ", ".join(dict.fromkeys(block.kind for block in blocks))
        flops = sum(map(block_flops, blocks)) * 2.0**bits
        close = (1 << bits) - 1 if stage.is_wide else sum(1 << p for p in stage.close)
        name = f"stage {number}: {stage.num_gates} gates as {len(blocks)} {kinds}"
        only_moves = segment.still is not None and stage.only_moves
        found.append(StageWork(name, 2 * (plan.dtype.itemsize << bits), flops, close, in_double, only_moves))
    return found
