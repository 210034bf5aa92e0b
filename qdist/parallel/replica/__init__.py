"""Data parallelism: the whole model on every rank, each with its own rows of the batch; gradients are averaged."""

from qdist.parallel.replica.data_parallel import DataParallel, average_gradients, check_replicas
from qdist.parallel.replica.local_devices import on_local_devices, share_rows
from qdist.parallel.replica.replica import Replica
from qdist.parallel.replica.sync_batch_norm import SyncBatchNorm

__all__ = [
    "DataParallel",
    "Replica",
    "SyncBatchNorm",
    "average_gradients",
    "check_replicas",
    "on_local_devices",
    "share_rows",
]
