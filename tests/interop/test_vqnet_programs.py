"""VQNet's programs for ZeRO, tensor parallelism and pipelines on two ranks, beside the same training done plainly."""

import json
import struct
from pathlib import Path

import numpy as np
import pytest

from qdist import nn, optim
from qdist.data import ArrayDataset, DistributedSampler, cifar10
from qdist.data.transforms import CenterCrop, ChannelsFirst, Compose, Normalize, Resize
from qdist.tensor import Tensor, functional, manual_seed

PROGRAM = Path(__file__).parent / "ranks" / "vqnet_programs.py"
IMAGES = 150


def noisy(rng: np.random.Generator, labels: np.ndarray, pixels: int) -> np.ndarray:
    """Images that show their label: a pattern each, and noise."""
    patterns = np.random.default_rng(9).integers(0, 256, (10, pixels))
    return ((patterns[labels] + rng.integers(0, 256, (len(labels), pixels))) // 2).astype(np.uint8)


def write_mnist(folder: Path) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(3)
    for prefix, count in (("t10k", 10), ("train", IMAGES)):
        labels = rng.integers(0, 10, count)
        images = noisy(rng, labels, 784)
        for mark in "-.":
            header = struct.pack(">IIII", 0x803, count, 28, 28)
            (folder / f"{prefix}-images{mark}idx3-ubyte").write_bytes(header + images.tobytes())
            header = struct.pack(">II", 0x801, count)
            (folder / f"{prefix}-labels{mark}idx1-ubyte").write_bytes(header + labels.astype(np.uint8).tobytes())
    return images.astype(np.float32) / np.float32(255), labels


def write_cifar(folder: Path) -> None:
    rng = np.random.default_rng(4)
    for number in range(1, 6):
        labels = rng.integers(0, 10, 4)
        records = np.concatenate([labels[:, None].astype(np.uint8), noisy(rng, labels, 3072)], axis=1)
        (folder / f"data_batch_{number}.bin").write_bytes(records.tobytes())


def classifier() -> nn.Module:
    manual_seed(0)
    layers = [nn.Linear(a, b) for a, b in ((784, 512), (512, 256), (256, 128), (128, 64), (64, 10))]
    return nn.Sequential(layers[0], nn.ReLU(), *layers[1:])


def train_plainly(model: nn.Module, batches: list[tuple[np.ndarray, np.ndarray]]) -> list[float]:
    update = optim.Adam(model.parameters(), lr=0.001)
    losses = []
    for x, y in batches:
        update.zero_grad()
        loss = functional.cross_entropy(model(Tensor(x)), Tensor(y))
        loss.backward()
        update.step()
        losses.append(loss.item())
    return losses


def convolutions() -> nn.Module:
    manual_seed(0)
    channels = ((3, 8), (8, 16), (16, 32), (32, 64), (64, 64))
    convs = [nn.Conv2d(a, b, 3, padding=1) for a, b in channels]
    pools = {0: nn.MaxPool2d(2), 1: nn.MaxPool2d(2), 4: nn.MaxPool2d(3, 2)}
    layers: list[nn.Module] = []
    for number, conv in enumerate(convs):
        layers += [conv, nn.ReLU(), *([pools[number]] if number in pools else [])]
    heads = [nn.Linear(576, 512), nn.ReLU(), nn.Linear(512, 256), nn.ReLU(), nn.Linear(256, 10)]
    return nn.Sequential(*layers, nn.Flatten(), *heads)


def cifar_batches(folder: Path) -> list[tuple[np.ndarray, np.ndarray]]:
    """The first four batches of eight in the order of the program's seed."""
    images, labels = cifar10(folder)
    normal = Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225])
    transform = Compose([Resize(40), CenterCrop(32), ChannelsFirst(), normal])
    batches = []
    for epoch in range(2):
        sampler = DistributedSampler(ArrayDataset(images, labels), seed=42)
        sampler.set_epoch(epoch)
        order = sampler.indices()
        for rows in (order[start : start + 8] for start in range(0, 20, 8)):
            batches.append((np.stack([transform(images[i].transpose(1, 2, 0)) for i in rows]), labels[rows]))
    return batches[:4]


@pytest.fixture(scope="module")
def programs(run_ranks, tmp_path_factory) -> tuple[dict, Path]:
    folder = tmp_path_factory.mktemp("vqnet")
    write_mnist(folder)
    write_cifar(folder)
    done = run_ranks(2, [PROGRAM, folder, folder, folder / "results.json"])
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-6000:]
    assert done.stdout.count("Accuracy of the model on the 10000 Train images") == 4
    return json.loads((folder / "results.json").read_text()), folder


@pytest.fixture(scope="module")
def plain_mnist(tmp_path_factory) -> tuple[nn.Module, list[float]]:
    """Five passes over the images, in one process."""
    images, labels = write_mnist(tmp_path_factory.mktemp("mnist"))
    model = classifier()
    batches = [(images[i : i + 64], labels[i : i + 64]) for _ in range(5) for i in range(0, IMAGES, 64)]
    return model, train_plainly(model, batches)


@pytest.mark.parametrize("program", ["zero", "tensor_parallel"])
def test_mnist_is_trained_as_in_one_process(programs, plain_mnist, program: str) -> None:
    found = programs[0][program]
    model, losses = plain_mnist
    assert losses[0] == pytest.approx(np.log(10), rel=0.05)
    assert found["loss"] == pytest.approx(losses[-1], rel=1e-3)
    assert losses[-1] < 0.5 * losses[0]
    assert found["accuracy"] > 80
    if program == "zero":
        np.testing.assert_allclose(found["fc5.weight"], model[5].weight.numpy(), atol=1e-4)
    else:
        assert found["parameters"] == sum(p.size for p in model.parameters()) // 2 + 512 // 2 + 128 // 2 + 10 // 2


def test_the_pipeline_trains_as_one_process(programs) -> None:
    found, folder = programs[0]["pipeline"], programs[1]
    assert found["ranks"] == 2
    np.testing.assert_allclose(found["losses"], train_plainly(convolutions(), cifar_batches(folder)), rtol=2e-3)
