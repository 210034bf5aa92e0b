"""DP: one process, several devices. Changed: imports; the devices (device_ids)."""

import qdist.interop.torch_distributed.torch.nn as nn

device_ids = DEVICE_IDS  # noqa: F821


def wrapped(model):
    """The model over these devices, and over all there are."""
    return nn.DataParallel(model, device_ids=device_ids), nn.DataParallel(model)
