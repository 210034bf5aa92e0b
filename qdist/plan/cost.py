"""What a plan costs: flops of its blocks, and seconds on a machine described by a few numbers."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from qdist.plan.fuse import Block
from qdist.plan.operations import Operation

__all__ = ["SERVERS_OF_GPUS", "Cluster", "Machine", "block_flops", "bytes_of_swaps", "is_real"]


@dataclass(frozen=True, slots=True)
class Machine:
    """What limits a machine: bytes a second of its memory, flops a second in single and double precision."""

    bandwidth: float
    flops_single: float
    flops_double: float

    def seconds(self, nbytes: float, flops: float, dtype: np.dtype) -> float:
        peak = self.flops_single if dtype == np.complex64 else self.flops_double
        return max(nbytes / self.bandwidth, flops / peak)


@dataclass(frozen=True, slots=True)
class Cluster:
    """Ranks of a kind, and what joins them."""

    machine: Machine
    """What one rank has."""
    inside: float
    """Bytes a second that a rank sends to others of its node."""
    between: float
    """Bytes a second that a rank sends to other nodes."""
    latency: float
    """Seconds that a message takes whatever its size."""

    def exchange_seconds(self, bytes_inside: float, bytes_between: float, messages: int) -> float:
        """What a rank takes to send so much."""
        return bytes_inside / self.inside + bytes_between / self.between + messages * self.latency


SERVERS_OF_GPUS = Cluster(Machine(4e12, 60e12, 30e12), inside=400e9, between=40e9, latency=5e-6)
"""A rank is a GPU like an H200, with NVLink inside its server and 400 Gbit/s to others."""


def bytes_of_swaps(shard_bytes: float, swaps: int, crossing: int) -> tuple[float, float]:
    """What a shard sends inside its node and to others when so many positions are swapped, some of which tell nodes
    apart: of the 2^swaps parts of a shard one stays, and those that differ in no crossing bit stay in the node."""
    between = shard_bytes * (1 - 0.5**crossing)
    return shard_bytes * (1 - 0.5**swaps) - between, between


def block_flops(block: Block) -> float:
    """Floating-point operations an amplitude: of the arithmetic alone, for the structure the kernels use."""
    if block.kind in ("linear", "permute"):
        return 0.0
    if block.kind in ("diagonal", "table"):
        return 6.0
    if block.kind == "rotation":
        return 6.0
    size = 1 << block.mixes.bit_count()
    share = 0.5 ** len(block.operations[0].controls)
    # A row of the matrix: `size` products and sums, of reals on both parts or of complex numbers.
    return share * (2 * (2 * size - 1) if is_real(block) else 8 * size - 2)


def is_real(block: Block) -> bool:
    """Whether a dense block's matrix is real, whatever the angles."""
    return all(map(_is_real, block.operations))


def _is_real(operation: Operation) -> bool:
    if operation.parts:
        return all(map(_is_real, operation.parts))
    if operation.gate is not None:
        return operation.gate.is_real
    return operation.kind in ("flip", "swap")
