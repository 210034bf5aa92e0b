"""Small data in the real formats: MNIST's IDX files under both of their names, CIFAR-10's in both of its formats."""

import pickle
import struct
from pathlib import Path

import numpy as np

IMAGES = 150


def noisy(rng: np.random.Generator, labels: np.ndarray, pixels: int) -> np.ndarray:
    """Images that show their label: a pattern each, and noise."""
    patterns = np.random.default_rng(9).integers(0, 256, (10, pixels))
    return ((patterns[labels] + rng.integers(0, 256, (len(labels), pixels))) // 2).astype(np.uint8)


def write_mnist(folder: Path, count: int = IMAGES) -> tuple[np.ndarray, np.ndarray]:
    """Returns the training images, as uint8 rows, and labels."""
    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(3)
    for prefix, rows in (("t10k", 10), ("train", count)):
        labels = rng.integers(0, 10, rows)
        images = noisy(rng, labels, 784)
        for mark in "-.":
            header = struct.pack(">IIII", 0x803, rows, 28, 28)
            (folder / f"{prefix}-images{mark}idx3-ubyte").write_bytes(header + images.tobytes())
            header = struct.pack(">II", 0x801, rows)
            (folder / f"{prefix}-labels{mark}idx1-ubyte").write_bytes(header + labels.astype(np.uint8).tobytes())
    return images, labels


def write_cifar(folder: Path) -> tuple[np.ndarray, np.ndarray]:
    """The same images as cifar-10-batches-bin and as cifar-10-batches-py; returns rows of 3072 numbers, and labels."""
    rng = np.random.default_rng(4)
    binary, pickled = folder / "cifar-10-batches-bin", folder / "cifar-10-batches-py"
    binary.mkdir(parents=True)
    pickled.mkdir()
    rows, all_labels = [], []
    for name in [f"data_batch_{number}" for number in range(1, 6)] + ["test_batch"]:
        labels = rng.integers(0, 10, 4)
        images = noisy(rng, labels, 3072)
        records = np.concatenate([labels[:, None].astype(np.uint8), images], axis=1)
        (binary / f"{name}.bin").write_bytes(records.tobytes())
        batch = {
            b"batch_label": name.encode(),
            b"labels": labels.tolist(),
            b"data": images,
            b"filenames": [b"image_%d.png" % i for i in range(len(labels))],
        }
        (pickled / name).write_bytes(pickle.dumps(batch, 2))
        if name != "test_batch":
            rows.append(images)
            all_labels.append(labels)
    return np.concatenate(rows), np.concatenate(all_labels)
