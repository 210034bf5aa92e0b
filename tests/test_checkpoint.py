"""Checkpoints: exact, atomic, and never silently wrong."""

import json
import os

import numpy as np
import pytest

from qdist import checkpoint, nn, optim, tensor
from qdist.checkpoint import CheckpointError
from qdist.tensor import Tensor


def state():
    model = nn.Sequential(nn.Linear(3, 2), nn.BatchNorm2d(2))
    optimizer = optim.AdamW(model.parameters(), lr=0.1)
    for p in model.parameters():
        p.grad = Tensor(np.ones(p.shape, np.float32))
    optimizer.step()
    return {
        "model": model.state_dict(),
        "optimizer": optimizer.state_dict(),
        "random": tensor.random.get_state(),
        "epoch": 3,
        "loss": 0.1,
        "best": float("inf"),
        "name": "run é",
        "done": False,
        "nothing": None,
        "list": [1, (2.5, "x"), {"deep": np.arange(3, dtype=np.int16)}],
        "complex": Tensor(np.array([[1 + 2j]], np.complex64)),
        "half": np.ones(2, np.float16),
        "scalar": Tensor(2.0),
        "empty": np.zeros((0, 3)),
        "transposed": np.arange(6).reshape(2, 3).T,
        "a.b": np.ones(1),
        "a": {"b": np.zeros(1)},
        "": {"": 1},
    }


def equal(a, b):
    if isinstance(a, dict):
        return isinstance(b, dict) and a.keys() == b.keys() and all(equal(a[k], b[k]) for k in a)
    if isinstance(a, (list, tuple)):
        return type(a) is type(b) and len(a) == len(b) and all(map(equal, a, b))
    if isinstance(a, (Tensor, np.ndarray)):
        x, y = np.asarray(a), np.asarray(b)
        return isinstance(b, Tensor) and x.dtype == y.dtype and x.shape == y.shape and np.array_equal(x, y)
    return type(a) is type(b) and a == b


def test_a_nested_state_comes_back_exactly(tmp_path):
    path = tmp_path / "state.safetensors"
    saved = state()
    checkpoint.save(path, saved)
    assert equal(saved, checkpoint.load(path))
    assert os.listdir(tmp_path) == [path.name]


def test_training_goes_on_as_if_never_interrupted(tmp_path):
    x, y = tensor.randn(8, 3), tensor.randn(8, 2)

    def start():
        tensor.manual_seed(1)
        model = nn.Sequential(nn.Linear(3, 4), nn.Dropout(0.5), nn.Linear(4, 2))
        return model, optim.Adam(model.parameters(), lr=0.01)

    def train(model, optimizer, steps):
        for _ in range(steps):
            optimizer.zero_grad()
            nn.MSELoss()(model(x), y).backward()
            optimizer.step()

    model, optimizer = start()
    train(model, optimizer, 6)
    first, second = start()
    train(first, second, 3)
    parts = {
        "model": first.state_dict(),
        "optimizer": second.state_dict(),
        "random": tensor.random.get_state(),
    }
    checkpoint.save(tmp_path / "c", parts)
    first, second = start()
    loaded = checkpoint.load(tmp_path / "c")
    first.load_state_dict(loaded["model"])
    second.load_state_dict(loaded["optimizer"])
    tensor.random.set_state(loaded["random"])
    train(first, second, 3)
    for p, q in zip(model.parameters(), first.parameters()):
        np.testing.assert_array_equal(p.numpy(), q.numpy())


def test_loaded_tensors_can_be_changed(tmp_path):
    checkpoint.save(tmp_path / "c", {"w": np.ones(2)})
    w = checkpoint.load(tmp_path / "c")["w"]
    w.data += 1
    assert w.tolist() == [2.0, 2.0]


def test_every_flipped_byte_is_noticed(tmp_path):
    path = tmp_path / "c"
    checkpoint.save(path, {"w": np.arange(6.0).reshape(2, 3), "epoch": 3})
    raw = path.read_bytes()
    for position in range(len(raw)):
        changed = bytearray(raw)
        changed[position] ^= 0x01
        path.write_bytes(changed)
        with pytest.raises(CheckpointError, match=r"damaged|cut off|not a checkpoint"):
            checkpoint.load(path)


def test_every_truncation_is_noticed(tmp_path):
    path = tmp_path / "c"
    checkpoint.save(path, {"w": np.arange(6.0)})
    raw = path.read_bytes()
    for length in [*range(0, 40), len(raw) - 8, len(raw) - 1]:
        path.write_bytes(raw[:length])
        with pytest.raises(CheckpointError):
            checkpoint.load(path)
    path.write_bytes(raw + b"\0")
    with pytest.raises(CheckpointError, match="damaged"):
        checkpoint.load(path)


def test_a_failed_save_leaves_the_old_file_and_no_litter(tmp_path, monkeypatch):
    path = tmp_path / "c"
    checkpoint.save(path, {"epoch": 1})

    def full(_):
        raise OSError("no space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="no space"):
        checkpoint.save(path, {"epoch": 2})
    assert os.listdir(tmp_path) == ["c"]
    assert checkpoint.load(path) == {"epoch": 1}


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ({"f": print}, "'f' is a builtin"),
        ({"a": {1: 2}}, "'a' has a key that is not a string: 1"),
        ({"o": np.array([object()])}, "dtype object"),
    ],
)
def test_what_cannot_be_stored_is_named(tmp_path, bad, message):
    with pytest.raises(TypeError, match=message):
        checkpoint.save(tmp_path / "c", bad)
    assert os.listdir(tmp_path) == []


def test_the_safetensors_library_reads_the_file(tmp_path):
    safetensors = pytest.importorskip("safetensors.numpy")
    path = tmp_path / "c.safetensors"
    checkpoint.save(path, state())
    tensors = safetensors.load_file(path)
    np.testing.assert_array_equal(tensors["list.2.deep"], np.arange(3, dtype=np.int16))
    assert tensors["complex"].shape == (1, 1, 2)


def test_a_foreign_safetensors_file_is_refused_clearly(tmp_path):
    header = json.dumps({"w": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}).encode()
    path = tmp_path / "other"
    path.write_bytes(len(header).to_bytes(8, "little") + header + bytes(4))
    with pytest.raises(CheckpointError, match="not a checkpoint of this library"):
        checkpoint.load(path)
