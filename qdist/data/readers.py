"""Readers of image datasets: IDX (MNIST and its kin), CIFAR-10, scikit-learn's digits."""

from __future__ import annotations

import gzip
import importlib.util
import math
import struct
import zlib
from pathlib import Path
from typing import Any

import numpy as np

from .cifar_batches import read_batch

_IDX_TYPES = {0x08: "u1", 0x09: "i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8"}
_CIFAR_RECORD = 1 + 3 * 32 * 32
_DIGITS_FILE = "datasets/data/digits.csv.gz"


def read_idx(path: str | Path) -> np.ndarray:
    """The array in an IDX file, plain or gzip-compressed (by its first bytes), in native byte order.

    Raises:
        ValueError: when the file is not IDX, or its length is not what its header says.
    """
    path = Path(path)
    raw = path.read_bytes()
    if raw[:2] == b"\x1f\x8b":
        try:
            raw = gzip.decompress(raw)
        except (OSError, EOFError, zlib.error) as error:
            raise ValueError(f"{path}: the gzip data is damaged: {error}") from error
    if len(raw) < 4 or raw[:2] != b"\0\0" or raw[2] not in _IDX_TYPES or raw[3] == 0:
        raise ValueError(f"{path}: not an IDX file (it starts with {raw[:4].hex(' ') or 'nothing'})")
    dtype, ndim = np.dtype(_IDX_TYPES[raw[2]]), raw[3]
    start = 4 + 4 * ndim
    if len(raw) < start:
        raise ValueError(f"{path}: the header is cut off after {len(raw)} bytes")
    shape = struct.unpack(f">{ndim}I", raw[4:start])
    expected = start + math.prod(shape) * dtype.itemsize
    if len(raw) != expected:
        raise ValueError(f"{path}: shape {shape} needs {expected} bytes, the file has {len(raw)}")
    return np.frombuffer(raw, dtype, offset=start).reshape(shape).astype(dtype.newbyteorder("="))


def mnist(folder: str | Path, train: bool = True) -> tuple[np.ndarray, np.ndarray]:
    """Images (n, 28, 28) uint8 and labels (n,) int64 from MNIST's IDX files in a folder, compressed or not.

    Raises:
        FileNotFoundError: naming the files that were looked for.
        ValueError: for damaged files, or images and labels that do not belong together.
    """
    prefix = "train" if train else "t10k"
    images = read_idx(_find(Path(folder), f"{prefix}-images", 3))
    labels = read_idx(_find(Path(folder), f"{prefix}-labels", 1))
    if images.ndim != 3 or labels.ndim != 1 or len(images) != len(labels):
        raise ValueError(f"{folder}: images {images.shape} and labels {labels.shape} do not belong together")
    return images, labels.astype(np.int64)


def _find(folder: Path, stem: str, ndim: int) -> Path:
    names = [f"{stem}{mark}idx{ndim}-ubyte{end}" for mark in "-." for end in ("", ".gz")]
    for name in names:
        if (folder / name).is_file():
            return folder / name
    raise FileNotFoundError(f"none of {', '.join(names)} is in {folder}")


def cifar10(folder: str | Path, train: bool = True) -> tuple[np.ndarray, np.ndarray]:
    """Images (n, 3, 32, 32) uint8 and labels (n,) int64 of CIFAR-10, from the batches in a folder.

    Both of its formats are read: binary (data_batch_1.bin ...) and Python (data_batch_1 ..., pickles, of which nothing
    is executed). The folder may also be the one that an archive, with its own folder, was unpacked in.

    Raises:
        FileNotFoundError: naming the files that are missing.
        ValueError: when a file is damaged, or holds a label above 9.
    """
    stems = [f"data_batch_{i}" for i in range(1, 6)] if train else ["test_batch"]
    inside = ("cifar-10-batches-bin", "cifar-10-batches-py")
    folders = [Path(folder), *(Path(folder) / name for name in inside)]
    for place in folders:
        if all((place / f"{stem}.bin").is_file() for stem in stems):
            records = np.concatenate([_cifar_records(place / f"{stem}.bin") for stem in stems])
            return records[:, 1:].reshape(-1, 3, 32, 32), records[:, 0].astype(np.int64)
        if all((place / stem).is_file() for stem in stems):
            batches = [read_batch(place / stem) for stem in stems]
            return np.concatenate([x for x, _ in batches]), np.concatenate([y for _, y in batches])
    missing = [f"{stem}.bin" for stem in stems if not (Path(folder) / f"{stem}.bin").is_file()]
    raise FileNotFoundError(
        f"{', '.join(missing)} not found in {folder}, nor all of {', '.join(stems)} (the Python version), nor the "
        f"folders {' and '.join(inside)} of the archives"
    )


def _cifar_records(path: Path) -> np.ndarray:
    raw = np.fromfile(path, np.uint8)
    if raw.size == 0 or raw.size % _CIFAR_RECORD:
        raise ValueError(f"{path}: {raw.size} bytes are not a whole number of {_CIFAR_RECORD}-byte records")
    records = raw.reshape(-1, _CIFAR_RECORD)
    if records[:, 0].max() > 9:
        raise ValueError(f"{path}: label {records[:, 0].max()} is above 9; this is not a CIFAR-10 file")
    return records


def digits(test_fraction: float = 0.2, seed: int = 0) -> tuple[Any, Any, Any, Any]:
    """scikit-learn's 1,797 handwritten digits, which need no network.

    Returns:
        x_train, y_train, x_test, y_test: images (n, 8, 8) float32 in [0, 1], labels (n,) int64, shuffled by
        `seed`.

    Raises:
        ImportError: when scikit-learn is not installed.
    """
    if not 0 < test_fraction < 1:
        raise ValueError(f"test_fraction must be between 0 and 1, got {test_fraction}")
    from ..tensor import Generator

    values, labels = _digits()
    images = (values / 16).astype(np.float32).reshape(-1, 8, 8)
    order = Generator(seed).permutation(len(images))
    held = round(len(images) * test_fraction)
    test, train = order[:held], order[held:]
    return images[train], labels[train], images[test], labels[test]


def _digits() -> tuple[np.ndarray, np.ndarray]:
    """The digits (n, 64), from 0 to 16, and their labels (n,), int64. Their file is read as it lies in scikit-learn,
    whose import takes a second or two; where it does not lie there, scikit-learn is asked."""
    package = importlib.util.find_spec("sklearn")
    if package is None or package.origin is None:
        raise ImportError("the digits come with scikit-learn: pip install scikit-learn")
    file = Path(package.origin).parent / _DIGITS_FILE
    if file.is_file():
        table = np.loadtxt(file, delimiter=",")
        return table[:, :-1], table[:, -1].astype(np.int64)
    from sklearn.datasets import load_digits

    bunch = load_digits()
    return bunch.data, bunch.target.astype(np.int64)
