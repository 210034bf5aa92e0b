"""VQNet's names for transforms of images, and its dataset CIFAR10_Dataset, over qdist.data."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from ... import data
from ...data.transforms import CenterCrop, ChannelsFirst, Compose, Normalize, Resize, Transformed

__all__ = [
    "CIFAR10_Dataset",
    "TransformCenterCrop",
    "TransformCompose",
    "TransformNormalize",
    "TransformResize",
    "TransformToTensor",
]

TransformCompose = Compose
TransformResize = Resize
TransformCenterCrop = CenterCrop
TransformToTensor = ChannelsFirst
TransformNormalize = Normalize

_LAYOUTS = {"HWC": (0, 2, 3, 1), "CHW": (0, 1, 2, 3)}


class CIFAR10_Dataset(Transformed):  # noqa: N801
    """Images and labels of CIFAR-10, from the files of either of its formats.

    Args:
        root: the folder with data_batch_1.bin ... (binary) or data_batch_1 ... (Python), or the one that their archive
            was unpacked in.
        mode: "train" or "test".
        transform: what every image passes through.
        layout: "HWC" or "CHW", the axes of the uint8 images that `transform` is given.

    Item i is (image, label). Nothing is downloaded: FileNotFoundError names the files that are missing.
    """

    def __init__(
        self,
        root: str | Path = "./cifar10-data",
        mode: str = "train",
        transform: Callable[[Any], Any] | None = None,
        layout: str = "HWC",
    ) -> None:
        if mode not in ("train", "test"):
            raise ValueError(f"mode={mode!r}: use 'train' or 'test'")
        if layout not in _LAYOUTS:
            raise ValueError(f"layout={layout!r}: use {' or '.join(map(repr, _LAYOUTS))}")
        images, labels = data.cifar10(root, mode == "train")
        given = data.ArrayDataset(images.transpose(_LAYOUTS[layout]), labels)
        super().__init__(given, (lambda image: image) if transform is None else transform)
