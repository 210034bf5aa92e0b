"""Shards: the amplitudes of a state in physical order, on a device, distributed over the ranks of a communicator."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from qdist.backends import Backend, backend_on, chosen_device
from qdist.backends.errors import StateError
from qdist.backends.memory import SMALL, check_memory
from qdist.comm import Communicator
from qdist.plan.layout import Layout
from qdist.state.alone import alone
from qdist.state.given import checked_communicator, checked_layout
from qdist.state.threads import share_cores

__all__ = ["Shards", "Traffic"]


@dataclass(slots=True)
class Traffic:
    """What exchanges of a state have cost this rank so far."""

    exchanges: int = 0
    messages: int = 0
    bytes_sent: int = 0
    pack_seconds: float = 0.0
    """Spent in copying amplitudes within this rank; on a GPU, in launching the copies."""
    network_seconds: float = 0.0
    """Spent in starting messages and waiting for them."""


class Shards:
    """2**n amplitudes in memory and their distribution; StateVector adds what they mean.

    There are 2**far shards of 2**shard_bits amplitudes each, and a rank holds a contiguous run of them. An amplitude's
    physical index says where it is stored: the high ``far`` bits number the shard, the others the amplitude in it.
    """

    __slots__ = ("_comm", "_first", "_layout", "_local", "_shard_bits", "backend", "traffic")

    backend: Backend
    """The device that the amplitudes are on, and its kernels."""

    traffic: Traffic
    """What exchanges of this state between ranks have cost this rank."""

    def _allocate(
        self,
        num_qubits: int,
        dtype: np.dtype[Any],
        comm: Communicator | None,
        layout: Layout | None,
        device: str,
        zeros: bool = True,
    ) -> None:
        """All amplitudes zero, or anything."""
        self._comm = alone() if comm is None else checked_communicator(comm)
        self._layout = Layout.identity(num_qubits) if layout is None else _checked(layout, num_qubits)
        ranks, rank = self._comm.size, self._comm.rank
        far = (ranks - 1).bit_length()
        if ranks > 1 << num_qubits:
            raise StateError(
                f"{num_qubits} qubits have {1 << num_qubits} amplitudes, too few for {ranks} ranks: ranks "
                f"{1 << num_qubits} to {ranks - 1} would hold nothing"
            )
        chosen = chosen_device(device, num_qubits, dtype, self._comm)
        self.backend = backend_on(chosen)
        self.check_room(num_qubits, dtype, self._comm, chosen)
        share_cores(self._comm)
        if ranks > 1:
            self.backend.share(self._comm)
        self._shard_bits = num_qubits - far
        self._first, end = self.bounds(rank)
        self._set_local(self._memory(end - self._first, dtype, zeros))

    def _memory(self, size: int, dtype: np.dtype[Any], zeros: bool) -> NDArray[Any]:
        """Of so many amplitudes: zeros, or anything."""
        return self.backend.zeros(size, dtype) if zeros else self.backend.empty((size,), dtype)

    def _set_local(self, local: NDArray[Any]) -> None:
        """These are this rank's amplitudes, which nothing has happened to yet."""
        self._local, self.traffic = local, Traffic()

    @staticmethod
    def check_room(
        num_qubits: int,
        dtype: Any = "complex64",
        comm: Communicator | None = None,
        device: str = "auto",
        states: int = 1,
    ) -> None:
        """Raises MemoryError where so many states like this do not fit into what is free now; takes nothing.

        num_qubits, dtype, comm, device: as for a StateVector. states: how many of them.
        """
        comm, kind = alone() if comm is None else comm, np.dtype(dtype)
        if states * kind.itemsize << num_qubits <= SMALL:
            return
        where = chosen_device(device, num_qubits, kind, comm) if device == "auto" else device
        check_memory(num_qubits, kind, comm.size, backend_on(where).free_memory(comm), states)

    def like(self, zeros: bool = True) -> Self:
        """Another of the same shape, all amplitudes zero, or not set."""
        self.check_room(self.num_qubits, self.dtype, self._comm, self.device)
        share_cores(self._comm)
        return self.on(self._memory(len(self._local), self.dtype, zeros))

    def on(self, local: NDArray[Any]) -> Self:
        """Another of the same shape, of which these are this rank's amplitudes."""
        result = type(self).__new__(type(self))
        result._comm, result._layout, result.backend = self._comm, self._layout, self.backend
        result._shard_bits, result._first = self._shard_bits, self._first
        result._set_local(local)
        return result

    def copy(self) -> Self:
        """The same in memory of its own."""
        result = self.like(zeros=False)
        result._local[:] = self._local
        return result

    @property
    def num_qubits(self) -> int:
        """Of the state."""
        return self._layout.num_qubits

    @property
    def dtype(self) -> np.dtype[Any]:
        """complex64 or complex128."""
        return self._local.dtype

    @property
    def device(self) -> str:
        """Where the amplitudes are: "cpu" or "cuda:N"."""
        return self.backend.device

    @property
    def comm(self) -> Communicator:
        """The ranks that share the state."""
        return self._comm

    @property
    def layout(self) -> Layout:
        """Which bit of the physical index each qubit is. Setting it moves no amplitudes: it records what was moved."""
        return self._layout

    @layout.setter
    def layout(self, layout: Layout) -> None:
        self._layout = _checked(layout, self.num_qubits)

    @property
    def local(self) -> NDArray[Any]:
        """This rank's amplitudes in physical order, without a copy: 1-D, aligned to 64 bytes; CuPy's on a GPU."""
        return self._local

    @property
    def shard_bits(self) -> int:
        """Index bits of a shard. Positions below are close: amplitudes that differ there are on the same rank."""
        return self._shard_bits

    def shards(self) -> Iterator[tuple[int, NDArray[Any]]]:
        """This rank's shards of 2**shard_bits amplitudes (views), each with its first amplitude's physical index."""
        size = 1 << self._shard_bits
        for start in range(0, len(self._local), size):
            yield self._first + start, self._local[start : start + size]

    def bounds(self, rank: int) -> tuple[int, int]:
        """The half-open range of physical indices that a rank holds: a run of the 2**far shards."""
        far, ranks = self.num_qubits - self._shard_bits, self._comm.size
        return (rank << far) // ranks << self._shard_bits, (rank + 1 << far) // ranks << self._shard_bits

    def owner(self, shard: int) -> int:
        """The rank that holds shard number ``shard``."""
        far = self.num_qubits - self._shard_bits
        return ((shard + 1) * self._comm.size - 1) >> far

    def sum_over_ranks(self, x: NDArray[Any]) -> NDArray[Any]:
        """The sum of all ranks' arrays, on every rank, in place."""
        return self._comm.all_reduce(x, out=x) if self._comm.size > 1 else x

    def norm(self) -> float:
        """The square root of the sum of all |amplitude|^2."""
        return math.sqrt(self.sum_over_ranks(np.array([self.backend.kernels.squared_norm(self._local)]))[0])

    def scale_to(self, norm: float) -> None:
        """Rescales to a given norm, in place, against the drift of rounding errors; not within 1e-7 of it."""
        factor = norm / self.norm()
        if abs(factor - 1) > 1e-7:
            self._scale(factor)

    def _scale(self, factor: float) -> None:
        for first, shard in self.shards():
            self.backend.kernels.project(shard, first, 0, 0, factor)


def _checked(layout: Layout, num_qubits: int) -> Layout:
    if checked_layout(layout).num_qubits != num_qubits:
        raise StateError(f"the layout is one of {layout.num_qubits} qubits; the state has {num_qubits}")
    return layout
