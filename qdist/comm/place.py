"""Where a process runs: its node, its number there, the devices it sees."""

from __future__ import annotations

import ctypes
import os
import socket
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import lru_cache

__all__ = ["Place", "cores", "cuda_devices"]


@dataclass(frozen=True, slots=True)
class Place:
    """A process's place in the job."""

    host: str
    local_rank: int = 0
    local_size: int = 1
    node: int = 0
    num_nodes: int = 1
    cuda_aware_mpi: bool = False

    @property
    def devices(self) -> int:
        return cuda_devices()

    @staticmethod
    def alone() -> Place:
        return Place(socket.gethostname())

    @staticmethod
    def among(rank: int, nodes: Sequence[Hashable], cuda_aware_mpi: bool = False) -> Place:
        """The place of ``rank`` when ``nodes[r]`` tells rank r's node; nodes are numbered as they first appear."""
        order = list(dict.fromkeys(nodes))
        here = nodes[rank]
        return Place(
            host=socket.gethostname(),
            local_rank=sum(node == here for node in nodes[:rank]),
            local_size=sum(node == here for node in nodes),
            node=order.index(here),
            num_nodes=len(order),
            cuda_aware_mpi=cuda_aware_mpi,
        )


def cores() -> int:
    """CPU cores that this process may use: its affinity, within its control group's share."""
    available = len(os.sched_getaffinity(0))
    try:
        with open("/sys/fs/cgroup/cpu.max") as f:
            quota, period = f.read().split()
        if quota != "max":
            available = min(available, max(1, int(quota) // int(period)))
    except (OSError, ValueError):
        pass
    return available


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
