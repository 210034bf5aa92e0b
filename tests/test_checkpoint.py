"""Checkpoints: exact, atomic, and never silently wrong."""

import json
import os
import pickle
import re
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from qdist import checkpoint, nn, optim, tensor
from qdist.checkpoint import CheckpointError, Part
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


def test_a_saved_file_has_the_rights_of_any_new_file(tmp_path, monkeypatch):
    # The mask belongs to the whole process: changed for a moment, it would be changed for other threads' files too.
    monkeypatch.setattr(os, "umask", lambda mask: pytest.fail("the process's umask was touched"))
    checkpoint.save(tmp_path / "saved", {"w": np.zeros(2)})
    (tmp_path / "ordinary").touch()
    assert (tmp_path / "saved").stat().st_mode == (tmp_path / "ordinary").stat().st_mode


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


class Together:
    """Ranks of one process that save in turn: every collective waits for all of them."""

    def __init__(self, rank, size, shared):
        self.rank, self.size, self.shared, self.calls = rank, size, shared, 0

    def all_gather_object(self, value):
        number, self.calls = self.calls, self.calls + 1
        self.shared["values"].setdefault(number, {})[self.rank] = pickle.dumps(value)
        self.shared["barrier"].wait(timeout=30)
        return [pickle.loads(self.shared["values"][number][r]) for r in range(self.size)]

    def broadcast_object(self, value=None, root=0):
        return self.all_gather_object(value)[root]


def save_together(path, states):
    """Saves one state a rank; gives the error of each rank, or None."""
    shared = {"values": {}, "barrier": threading.Barrier(len(states))}

    def one(rank):
        try:
            checkpoint.save(path, states[rank], Together(rank, len(states), shared))
        except (OSError, TypeError, ValueError) as error:
            return error
        return None

    with ThreadPoolExecutor(len(states)) as pool:
        return list(pool.map(one, range(len(states))))


def parts(whole, cuts):
    """One part of a tensor for every list of places along its flattened elements."""
    return [Part(whole.reshape(-1)[places], whole.shape, np.asarray(places)) for places in cuts]


def test_ranks_write_one_file_of_whole_tensors(tmp_path):
    rng = np.random.default_rng(0)
    weight, moment = rng.normal(size=(4, 6)), rng.normal(size=(5,)) + 1j * rng.normal(size=(5,))
    columns = [np.arange(24).reshape(4, 6)[:, 2 * r : 2 * r + 2].ravel() for r in range(3)]
    split = zip(parts(weight, columns), parts(moment, [[4, 0], [1, 2], [3]]))
    states = [
        {"model": {"w": w, f"stage{r}": np.full(2, r)}, "moment": m, "epoch": 7, "order": [1, {"deep": w}]}
        for r, (w, m) in enumerate(split)
    ]
    assert save_together(tmp_path / "c", states) == [None] * 3
    got = checkpoint.load(tmp_path / "c")
    np.testing.assert_array_equal(got["model"]["w"].numpy(), weight)
    np.testing.assert_array_equal(got["order"][1]["deep"].numpy(), weight)
    np.testing.assert_array_equal(got["moment"].numpy(), moment)
    assert [got["model"][f"stage{r}"].tolist() for r in range(3)] == [[0, 0], [1, 1], [2, 2]]
    assert got["epoch"] == 7
    assert os.listdir(tmp_path) == ["c"]
    # One process that has the same state whole writes the same file.
    whole = {"model": {"w": weight, **{f"stage{r}": np.full(2, r) for r in range(3)}}, "moment": moment}
    checkpoint.save(tmp_path / "alone", {**whole, "epoch": 7, "order": [1, {"deep": weight}]})
    assert (tmp_path / "alone").stat().st_size == (tmp_path / "c").stat().st_size
    assert equal(checkpoint.load(tmp_path / "alone")["model"]["w"], got["model"]["w"])


def test_replicas_are_written_by_the_first_rank_that_has_them(tmp_path):
    halves = parts(np.arange(4.0), [[0, 1], [2, 3], [0, 1], [2, 3]])
    halves[2].data = halves[2].data + 100  # Would be seen if the second replica were written.
    states = [{"w": half, "b": np.full(1, rank)} for rank, half in enumerate(halves)]
    assert save_together(tmp_path / "c", states) == [None] * 4
    got = checkpoint.load(tmp_path / "c")
    assert got["w"].tolist() == [0, 1, 2, 3]
    assert got["b"].tolist() == [0]


@pytest.mark.parametrize(
    ("states", "kind", "message"),
    [
        ([{"n": 1}, {"n": 2}], ValueError, "'n' differs between ranks"),
        ([{"a": {"n": [1]}}, {"a": {"n": [1, 2]}}], ValueError, "'a.n' differs"),
        ([{"w": np.zeros(2)}, {"w": np.zeros(3)}], ValueError, "'w' differs"),
        ([{"w": p} for p in parts(np.zeros(5), [[0, 1], [2, 3]])], ValueError, "'w'.*4 of its 5 elements"),
        ([{"w": 1}, {"w": print}], TypeError, "'w' is a builtin"),
    ],
)
def test_ranks_that_do_not_agree_all_raise(tmp_path, states, kind, message):
    errors = save_together(tmp_path / "c", states)
    for error in errors:
        assert isinstance(error, kind)
        assert re.search(message, str(error))
    assert os.listdir(tmp_path) == []


def test_a_tensor_is_read_alone(tmp_path):
    path = tmp_path / "c"
    checkpoint.save(path, {"a": np.arange(6.0).reshape(2, 3), "b": np.zeros(1000)})
    raw = bytearray(path.read_bytes())
    raw[-1] ^= 1
    path.write_bytes(raw)
    with checkpoint.reading(path) as state:
        assert (state["a"].shape, state["a"].dtype) == ((2, 3), np.float64)
        assert state["a"].read().tolist() == [[0, 1, 2], [3, 4, 5]]
        with pytest.raises(CheckpointError, match="damaged: b does not match"):
            state["b"].read()


def test_a_disk_that_is_full_for_one_rank_stops_all_of_them(tmp_path, monkeypatch):
    path = tmp_path / "c"
    checkpoint.save(path, {"epoch": 1})
    real, failing = os.fsync, []

    def full(handle):
        # The second rank to write; the first may have come to the end of its part.
        failing.append(handle)
        if len(failing) == 2:
            raise OSError("no space left on device")
        real(handle)

    monkeypatch.setattr(os, "fsync", full)
    errors = save_together(path, [{"w": part} for part in parts(np.arange(4.0), [[0, 1], [2, 3]])])
    assert [str(error).endswith("no space left on device") for error in errors] == [True, True]
    assert os.listdir(tmp_path) == ["c"]
    assert checkpoint.load(path) == {"epoch": 1}
