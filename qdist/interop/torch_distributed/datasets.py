"""torchvision's MNIST, from files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from ... import data

__all__ = ["MNIST"]


class MNIST(data.Dataset):
    """Handwritten digits; item i is (image, label).

    Args:
        root: the folder with MNIST's IDX files, compressed or not, or with MNIST/raw, where torchvision puts them.
        train: the training images, or those to test with.
        transform: what an image (28, 28, 1), uint8, passes through.
        target_transform: what a label passes through.
        download: must not be needed: nothing is downloaded, and FileNotFoundError names the files that are missing.
    """

    def __init__(
        self,
        root: str | Path,
        train: bool = True,
        transform: Callable[[Any], Any] | None = None,
        target_transform: Callable[[Any], Any] | None = None,
        download: bool = False,
    ) -> None:
        raw = Path(root) / "MNIST" / "raw"
        try:
            self.data, self.targets = data.mnist(raw if raw.is_dir() else root, train)
        except FileNotFoundError as error:
            note = ". Nothing is downloaded here, also with download=True: put the files there" if download else ""
            raise FileNotFoundError(f"{error}{note}") from None
        self.transform, self.target_transform = transform, target_transform

    def __len__(self) -> int:
        return len(self.data)

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        image, label = self.data[index][:, :, None], int(self.targets[index])
        image = image if self.transform is None else self.transform(image)
        return image, label if self.target_transform is None else self.target_transform(label)
