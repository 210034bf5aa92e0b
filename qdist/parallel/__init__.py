"""Classical parallelism: each module a small file, a client of the communicator and the tensor core."""

from .data import DataParallel, average_gradients
from .local import on_local_devices, share_rows
from .loss_scale import LossScale
from .zero import Zero

__all__ = [
    "DataParallel",
    "LossScale",
    "Zero",
    "average_gradients",
    "on_local_devices",
    "share_rows",
]
