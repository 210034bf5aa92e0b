"""CommController and its companions: VQNet's names for communication, over qdist.comm.

As in VQNet, collectives other than allgather change the tensor they are given, and reductions average by default.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np

from .... import comm as qc
from ....comm import Communicator
from ....comm.bootstrap.named_backend import world_over
from ....data import split_data as _share
from ....nn import Module
from ....tensor import Tensor, no_grad
from ....tensor.arrays import module_of
from ..tensor import QTensor

__all__ = [
    "CommController",
    "get_host_name",
    "get_local_rank",
    "get_rank",
    "init_group",
    "split_data",
]


class OtherGroup:
    """Stands in the place of the communicator of a group that this rank is not in."""

    def __init__(self, ranks: list[int]) -> None:
        self.ranks = ranks


# What the _group calls take: an entry of what split_group gave, or its first element; None for all ranks.
Group: TypeAlias = Communicator | OtherGroup | Sequence[Any] | None


class CommController:
    """All ranks of the job.

    Args:
        backend: "mpi", or "nccl" for tensors on GPUs.
        rank, world_size: this process's place, where no MPI launcher started it.

    Raises CommError if ranks talk over another backend already (since get_rank(), say).
    """

    def __init__(self, backend: str, rank: int | None = None, world_size: int | None = None) -> None:
        self.comm = world_over(backend, rank, world_size)

    @staticmethod
    def of_world() -> CommController:
        """All ranks of the job over whatever they talk over."""
        return CommController("nccl" if qc.world().backend == "nccl" else "mpi")

    def getRank(self) -> int:
        """This process's number among all."""
        return self.comm.rank

    def getSize(self) -> int:
        """How many processes there are."""
        return self.comm.size

    def getLocalRank(self) -> int:
        """This process's number on its machine."""
        return self.comm.local_rank

    def get_device_num(self) -> int:
        """How many CUDA devices this process sees on its machine."""
        return self.comm.devices

    def barrier(self) -> None:
        """Returns once every process has called it."""
        self.comm.barrier()

    def allreduce(self, tensor: Tensor, c_op: str = "avg") -> None:
        """The reduction of every process's tensor, in place; c_op is avg, sum, max, min or product.

        The average of integers is the integer next to the mean on the side of 0, as NCCL has it.
        """
        self.allreduce_group(tensor, c_op)

    def reduce(self, tensor: Tensor, root: int = 0, c_op: str = "avg") -> None:
        """The reduction of every process's tensor, in place on `root`; the others keep theirs."""
        self.reduce_group(tensor, root, c_op)

    def broadcast(self, tensor: Tensor, root: int = 0) -> None:
        """`root`'s tensor, in place, on every process."""
        self.broadcast_group(tensor, root)

    def allgather(self, tensor: Tensor) -> QTensor:
        """Every process's tensor, one behind the other along the first axis, as a new one."""
        return self.allgather_group(tensor)

    def send(self, tensor: Tensor, dest: int) -> None:
        """Sends a tensor to one process, which calls recv."""
        self.comm.send(tensor.data, dest)

    def recv(self, tensor: Tensor, source: int) -> None:
        """Receives from one process into a tensor of the same shape and dtype."""
        _write(tensor, self.comm.recv(tensor.data.copy(), source))

    def split_group(self, rankL: Sequence[Sequence[int]]) -> list[tuple[Any, list[int]]]:
        """Groups of processes, one a list of ranks; every process calls, with the same lists.

        Returns a pair (communicator, ranks) for each. Either the pair or the communicator is what the _group calls
        take; the communicator of a group that this process is not in can only be passed on.
        """
        ranks = [list(group) for group in rankL]
        mine = self.comm.split(ranks)
        return [(mine if self.comm.rank in group else OtherGroup(group), group) for group in ranks]

    def allreduce_group(self, tensor: Tensor, c_op: str = "avg", group: Group = None) -> None:
        """allreduce within a group."""
        comm = self._of(group)
        if _is_mean_of_integers(tensor, c_op):
            _write(tensor, _mean(comm.all_reduce(_shares(tensor, comm.size)), comm.size))
        else:
            _write(tensor, comm.all_reduce(tensor.data, c_op))

    def reduce_group(self, tensor: Tensor, root: int = 0, c_op: str = "avg", group: Group = None) -> None:
        """reduce within a group; `root` counts within it."""
        comm = self._of(group)
        whole = _is_mean_of_integers(tensor, c_op)
        result = comm.reduce(_shares(tensor, comm.size), root) if whole else comm.reduce(tensor.data, root, c_op)
        if result is not None:
            _write(tensor, _mean(result, comm.size) if whole else result)

    def broadcast_group(self, tensor: Tensor, root: int = 0, group: Group = None) -> None:
        """broadcast within a group; `root` counts within it."""
        _write(tensor, self._of(group).broadcast(tensor.data, root))

    def allgather_group(self, tensor: Tensor, group: Group = None) -> QTensor:
        """allgather within a group."""
        rows = self._of(group).all_gather(tensor.data)
        return QTensor(rows if tensor.ndim == 0 else rows.reshape(len(rows) * tensor.shape[0], *tensor.shape[1:]))

    # VQNet's documentation lists one name and its examples use the other.
    all_gather_group = allgather_group

    def broadcast_model_params(self, model: Module, root: int = 0) -> None:
        """Gives every process `root`'s parameters of a model, in place.

        Those that are divided over ranks (by ColumnParallelLinear, RowParallelLinear) stay: `root` has another part.
        """
        for parameter in model.parameters():
            if parameter.partition is None:
                self.broadcast(parameter, root)

    def _of(self, group: Group) -> Communicator:
        chosen = group[0] if isinstance(group, Sequence) else group
        if isinstance(chosen, OtherGroup):
            raise ValueError(f"rank {self.comm.rank} is not in the group {chosen.ranks}: only its members call")
        if not isinstance(chosen, Communicator | None):
            raise TypeError(f"group={group!r}: give what split_group or init_group gave")
        return self.comm if chosen is None else chosen


def _is_mean_of_integers(tensor: Tensor, c_op: str) -> bool:
    return c_op == "avg" and tensor.dtype.kind in "iu"


def _shares(tensor: Tensor, count: int) -> Any:
    """Integers divided by the number of ranks, and what is left over: their sums fit where that of the integers may
    not."""
    wide = tensor.data.astype(np.uint64 if tensor.dtype == np.uint64 else np.int64)
    return module_of(wide).stack([wide // count, wide % count])


def _mean(total: Any, count: int) -> Any:
    """The mean, on the side of 0, of integers whose shares add up to this; // alone would give the smaller."""
    rest = total[1] % count
    mean = total[0] + total[1] // count
    return mean + ((mean < 0) & (rest > 0)).astype(mean.dtype)


def _write(tensor: Tensor, values: Any) -> None:
    with no_grad():
        tensor.assign(values.astype(tensor.dtype, copy=False))


def get_rank() -> int:
    """This process's number among all."""
    return qc.world().rank


def get_local_rank() -> int:
    """This process's number on its machine."""
    return qc.world().local_rank


def get_host_name() -> str:
    """The name of this machine."""
    return qc.world().host


def init_group(rank_lists: Sequence[Sequence[int]]) -> list[tuple[Any, list[int]]]:
    """Groups of processes, as CommController.split_group gives them."""
    return CommController.of_world().split_group(rank_lists)


def split_data(x_train: Any, y_train: Any, shuffle: bool = False) -> tuple[np.ndarray, np.ndarray]:
    """This process's share of samples and labels; `shuffle` shuffles first, in the same way on every process."""
    return _share(x_train, y_train, shuffle, rank=qc.world())
