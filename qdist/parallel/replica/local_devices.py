"""Data parallel from one plain script: a rank for every device of this machine, without a launcher."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from qdist import comm as qc
from qdist.comm.launch import spawn
from qdist.data.dataset import share
from qdist.tensor import Tensor
from qdist.tensor.arrays import is_array

__all__ = ["on_local_devices", "share_rows"]


def on_local_devices(fn: Callable[..., Any], *args: Any, ranks: int | None = None, timeout: float | None = None) -> Any:
    """Run fn(comm, device, *args) on one rank for each device of this machine and give what the first rank returned.

    Args:
        fn: gets the communicator of all ranks, and the device for its tensors: "cuda:<index>" where there are GPUs,
            else "cpu". It wraps its model in DataParallel(model.to(device), comm) and takes its share of each batch
            with share_rows().
        ranks: how many; one a GPU when not given, one a core without GPUs.
        timeout: seconds for everything; None means no limit.

    In a process that a launcher has started among others, no rank is started: fn runs with those that are there, so
    the same script works both ways.

    Raises what fn raised first on any rank, and CommError when a rank dies or the time is up.

    >>> def train(comm, device):
    ...     model = DataParallel(build().to(device), comm)
    ...     for x, y in batches():
    ...         x, y = share_rows((x, y), comm)
    ...         ...
    ...     return model.state_dict()
    >>> state = on_local_devices(train)
    """
    if ranks is not None and ranks < 1:
        raise ValueError(f"ranks={ranks}: at least one")
    if qc.world().size > 1:
        return _one_rank(fn, *args)
    return spawn(_one_rank, ranks or qc.cuda_devices() or qc.cores(), (fn, *args), timeout=timeout)[0]


def _one_rank(fn: Callable[..., Any], *args: Any) -> Any:
    comm = qc.world()
    if comm.devices == 0:
        return fn(comm, "cpu", *args)
    if comm.local_size <= comm.devices and comm.backend == "mpi":
        # A GPU for every rank: arrays on them travel directly.
        qc.shutdown()
        comm = qc.init("nccl")
    return fn(comm, f"cuda:{comm.local_rank % comm.devices}", *args)


def share_rows(batch: Any, comm: qc.Communicator) -> Any:
    """This rank's rows of a batch that all ranks have: shares differ by at most one row.

    Args:
        batch: Tensors and arrays with the rows along their first axis, in nested tuples, lists and dicts.
    """
    if isinstance(batch, Tensor) or is_array(batch):
        return batch[share(len(batch), comm.rank, comm.size)]
    if isinstance(batch, dict):
        return {key: share_rows(part, comm) for key, part in batch.items()}
    if isinstance(batch, (tuple, list)):
        parts = [share_rows(part, comm) for part in batch]
        return tuple(parts) if isinstance(batch, tuple) else parts
    raise TypeError(f"a batch is made of Tensors and arrays, not {type(batch).__name__}")
