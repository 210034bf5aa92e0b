"""torch.nn.parallel's names."""

from ...data_parallel import DistributedDataParallel
from ...local_devices import DataParallel

__all__ = ["DataParallel", "DistributedDataParallel"]
