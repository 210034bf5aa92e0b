"""Where a process runs: its node, its number there, the devices it sees."""

from __future__ import annotations

import ctypes
import os
import socket
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import lru_cache

__all__ = [
    "Place",
    "affinity",
    "core_share",
    "cores",
    "crowded",
    "cuda_devices",
    "cuda_extra",
    "few_cores",
    "shared_cores",
]


@dataclass(frozen=True, slots=True)
class Place:
    """A process's place in the job."""

    host: str
    local_rank: int = 0
    local_size: int = 1
    node: int = 0
    nodes: tuple[int, ...] = ()
    """The node of each of the job's processes; empty for one that is alone."""
    cuda_aware_mpi: bool = False
    cores: int = 1
    """Cores for this process's threads, when the job's processes on the node share them fairly."""

    @property
    def num_nodes(self) -> int:
        """How many nodes the job's processes are on."""
        return max(self.nodes, default=0) + 1

    @property
    def devices(self) -> int:
        return cuda_devices()

    @staticmethod
    def alone() -> Place:
        return Place(socket.gethostname(), cores=cores())

    @staticmethod
    def among(rank: int, nodes: Sequence[Hashable], cuda_aware_mpi: bool = False, cores: int = 1) -> Place:
        """The place of ``rank`` when ``nodes[r]`` tells rank r's node; nodes are numbered as they first appear."""
        numbers = {node: number for number, node in enumerate(dict.fromkeys(nodes))}
        here = nodes[rank]
        return Place(
            host=socket.gethostname(),
            local_rank=sum(node == here for node in nodes[:rank]),
            local_size=sum(node == here for node in nodes),
            node=numbers[here],
            nodes=tuple(numbers[node] for node in nodes),
            cuda_aware_mpi=cuda_aware_mpi,
            cores=cores,
        )


def cores() -> int:
    """CPU cores that this process may use: its affinity, within its control group's share."""
    return shared_cores([affinity()])


def affinity() -> int:
    """Mask of the cores that this process may run on."""
    return sum(1 << core for core in os.sched_getaffinity(0))


def core_share(own: int, masks: Sequence[int], quota: int | None) -> int:
    """Cores for each of a node's processes.

    own: mask of the cores that this one may run on; masks: of all processes on the node, this one among them. Those
        that a launcher has bound to cores of their own keep them; those that overlap share.
    quota: cores that all of them may use together, if that is limited.
    """
    share = own.bit_count() // sum(bool(own & mask) for mask in masks)
    return max(1, share if quota is None else min(share, quota // len(masks)))


def crowded(own: int, masks: Sequence[int], quota: int | None) -> bool:
    """Whether a node's processes have less than a core each; arguments as core_share's."""
    return own.bit_count() < sum(bool(own & mask) for mask in masks) or (quota is not None and quota < len(masks))


def _quota() -> int | None:
    """Cores' worth of time that this control group may use; None without a limit."""
    try:
        with open("/sys/fs/cgroup/cpu.max") as f:
            quota, period = f.read().split()
        return None if quota == "max" else max(1, int(quota) // int(period))
    except (OSError, ValueError):
        return None


def shared_cores(masks: Sequence[int]) -> int:
    """This process's share of its node's cores; masks: the affinities of the job's processes there."""
    return core_share(affinity(), masks, _quota())


def few_cores(masks: Sequence[int]) -> bool:
    """Whether this process shares a core with another of the job's; masks: the affinities of those on its node."""
    return crowded(affinity(), masks, _quota())


@lru_cache(maxsize=1)
def cuda_devices() -> int:
    """CUDA devices that the driver shows this process; 0 without a driver. Needs no CUDA package."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return 0
    count = ctypes.c_int(0)
    if driver.cuInit(0) != 0 or driver.cuDeviceGetCount(ctypes.byref(count)) != 0:
        return 0
    return count.value


def cuda_extra() -> str:
    """The extra for the newest CUDA that the driver on this machine serves."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return "cuda13" if os.path.exists("/usr/local/cuda-13") else "cuda12"
    version = ctypes.c_int(0)
    driver.cuDriverGetVersion(ctypes.byref(version))
    return "cuda13" if version.value >= 13000 else "cuda12"
