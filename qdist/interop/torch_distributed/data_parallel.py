"""DistributedDataParallel: a rank a process, each with its own rows and, with GPUs, a device of its own."""

from __future__ import annotations

from typing import Any

from ... import parallel
from ...comm import Communicator
from ...nn import Module
from ...parallel.replica.buckets import BUCKET_BYTES
from .devices import device_name, moved
from .process_group import communicator

__all__ = ["DistributedDataParallel"]


class DistributedDataParallel(parallel.DataParallel):
    """A model that is trained by many ranks: `qdist.parallel.DataParallel` with torch's arguments.

    Args:
        module: the same on every rank, on its device already. The first rank's values are taken over by all.
        device_ids: the one device of this rank: [k] for the k-th GPU, ["cpu"]. Inputs are moved there.
        output_device: where outputs are moved to; that of device_ids when not given.
        process_group: the ranks; all when not given.
        bucket_cap_mb: size of the messages that gradients travel in, in MiB; 4 when not given.

    Gradients become those of the whole batch: where ranks have different numbers of rows, each is weighted by its own,
    while torch takes the plain mean over ranks. `state_dict()` has the plain model's names, like `module.state_dict()`.
    Parameters that no rank used are found without being asked for, and keep no gradient. Buffers are the first rank's
    at the start of every forward pass that records gradients.

    Raises RuntimeError before init_process_group(), and ValueError for a module that is on another device.
    """

    def __init__(
        self,
        module: Module,
        device_ids: list[Any] | None = None,
        output_device: Any = None,
        process_group: Communicator | None = None,
        bucket_cap_mb: float | None = None,
    ) -> None:
        comm = communicator(process_group)
        if comm is None:
            raise ValueError("this rank is not in process_group: only its members train the model")
        if device_ids is not None and len(device_ids) != 1:
            raise ValueError(f"device_ids={device_ids}: one device, this rank's; DataParallel takes several")
        device = None if device_ids is None else device_name(device_ids[0])
        if isinstance(module, Module) and device is not None:
            elsewhere = {p.device for p in module.parameters()} - {device}
            if elsewhere:
                raise ValueError(
                    f"device_ids={device_ids}, but the module is on {', '.join(sorted(elsewhere))}: move it first, "
                    f"with module.to({device!r})"
                )
        size = BUCKET_BYTES if bucket_cap_mb is None else int(bucket_cap_mb * (1 << 20))
        super().__init__(module, comm, bucket_bytes=size)
        self.device = device
        self.output_device = device if output_device is None else device_name(output_device)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """What the module computes, for this rank's rows."""
        if self.device is not None:
            args, kwargs = moved(args, self.device), moved(kwargs, self.device)
        output = super().forward(*args, **kwargs)
        return output if self.output_device is None else moved(output, self.output_device)
