"""Transforms: what is done to an image on its way from a dataset into a batch."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .dataset import Dataset


class Transformed(Dataset):
    """A dataset of (image, ...) items whose images pass through a function when they are asked for."""

    def __init__(self, data: Any, transform: Callable[[Any], Any]) -> None:
        self.data, self.transform = data, transform

    def __len__(self) -> int:
        return len(self.data)

    def __getitem__(self, index: int) -> tuple[Any, ...]:
        image, *rest = self.data[index]
        return self.transform(image), *rest


class Compose:
    """Transforms one after the other."""

    def __init__(self, transforms: Sequence[Callable[[Any], Any]]) -> None:
        self.transforms = list(transforms)

    def __call__(self, image: Any) -> Any:
        for transform in self.transforms:
            image = transform(image)
        return image


class Resize:
    """Scale an image (height, width, channels), uint8 or floating, keeping its dtype.

    Args:
        size: (height, width), or one number for the shorter side, the other keeping its proportion.

    Every new pixel is the mean of the old ones under a triangle as wide as two pixels, old or new, whichever are
    larger: linear interpolation where the image grows, and no aliasing where it shrinks.
    """

    def __init__(self, size: int | tuple[int, int]) -> None:
        self.size = _size("Resize", size)

    def __call__(self, image: np.ndarray) -> np.ndarray:
        _check("Resize", image)
        height, width = self._target(*image.shape[:2])
        rows, columns = _weights(image.shape[0], height), _weights(image.shape[1], width)
        wide = np.einsum("xw,hwc->hxc", columns, image.astype(np.float64))
        scaled = np.einsum("yh,hxc->yxc", rows, wide)
        return (np.rint(scaled) if image.dtype.kind in "iu" else scaled).astype(image.dtype)

    def _target(self, height: int, width: int) -> tuple[int, int]:
        if not isinstance(self.size, int):
            return self.size
        short = min(height, width)
        return max(1, height * self.size // short), max(1, width * self.size // short)


class CenterCrop:
    """The middle of an image (height, width, channels).

    Args:
        size: (height, width), or one number for both.
    """

    def __init__(self, size: int | tuple[int, int]) -> None:
        sides = _size("CenterCrop", size)
        self.size = (sides, sides) if isinstance(sides, int) else sides

    def __call__(self, image: np.ndarray) -> np.ndarray:
        _check("CenterCrop", image)
        (height, width), (high, wide) = image.shape[:2], self.size
        if high > height or wide > width:
            raise ValueError(f"CenterCrop({self.size}) of an image of {height} x {width} pixels: Resize it first")
        top, left = round((height - high) / 2), round((width - wide) / 2)
        return image[top : top + high, left : left + wide]


class ChannelsFirst:
    """(height, width, channels) in 0 ... 255 to (channels, height, width) float32 in 0 ... 1; floats are not scaled."""

    def __call__(self, image: np.ndarray) -> np.ndarray:
        _check("ChannelsFirst", image)
        scale = 255 if image.dtype.kind in "iu" else 1
        return np.ascontiguousarray(image.transpose(2, 0, 1).astype(np.float32) / np.float32(scale))


class Normalize:
    """Subtract a mean and divide by a deviation, one of each a channel of (channels, height, width)."""

    def __init__(self, mean: Sequence[float], std: Sequence[float]) -> None:
        if len(mean) != len(std) or min(std) <= 0:
            raise ValueError(f"Normalize needs a mean and a positive deviation a channel, got {mean} and {std}")
        self.mean = np.asarray(mean, np.float32).reshape(-1, 1, 1)
        self.std = np.asarray(std, np.float32).reshape(-1, 1, 1)

    def __call__(self, image: np.ndarray) -> np.ndarray:
        if image.ndim != 3 or len(image) != len(self.mean):
            raise ValueError(f"Normalize takes ({len(self.mean)}, height, width), got shape {image.shape}")
        return (image - self.mean) / self.std


def _size(name: str, size: Any) -> int | tuple[int, int]:
    """The size that a transform is given, in ints. Raises ValueError unless it is one number of pixels, or two."""
    try:
        if not isinstance(size, (tuple, list)):
            high = wide = operator.index(size)
        else:
            high, wide = map(operator.index, size)
    except (TypeError, ValueError):
        high = wide = 0
    if min(high, wide) < 1:
        raise ValueError(f"{name}({size}): takes (height, width) or one number, of at least one pixel")
    return (high, wide) if isinstance(size, (tuple, list)) else high


def _check(name: str, image: np.ndarray) -> None:
    if image.ndim != 3:
        raise ValueError(f"{name} takes an image (height, width, channels), got shape {image.shape}")


def _weights(old: int, new: int) -> np.ndarray:
    """(new, old): the share that every old pixel of a row has in every new one."""
    step = old / new
    reach = max(step, 1.0)
    centres = (np.arange(new) + 0.5) * step
    distance = np.abs(np.arange(old) + 0.5 - centres[:, None]) / reach
    weights = np.maximum(0.0, 1.0 - distance)
    return weights / weights.sum(axis=1, keepdims=True)
