"""Checkpoints: exact, atomic, and never silently wrong."""

import errno
import hashlib
import json
import os
import pickle
import re
import threading
import zlib
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import qdist as qd
from qdist import checkpoint, checkpoint_plan, nn, optim, statetree, tensor, tensorfile
from qdist.blocks import LARGE, PAGE, sums
from qdist.checkpoint import CheckpointError, Part
from qdist.state import storage
from qdist.state.statevector import StateVector
from qdist.tensor import Tensor
from qdist.tensorfile import BLANK, agreeing, header_bytes


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


def _saved_checkpoint(path):
    checkpoint.save(path, {"w": np.zeros(1 << 18)})


def _saved_state(path):
    StateVector(18).save(path)


def _run_with_checkpoint(path):
    # Told before the run, not when it is time to save.
    qd.compile(qd.Circuit(6).h(0)).run(checkpoint=path, seconds=1e6)


@pytest.mark.parametrize("save", [_saved_checkpoint, _saved_state, _run_with_checkpoint])
def test_a_file_that_cannot_be_written_is_named_as_it_was_given(tmp_path, save):
    (tmp_path / "file").write_text("")
    (tmp_path / "folder").mkdir()
    for given, kind, reason in [
        ("none/c", FileNotFoundError, "No such file or directory"),
        ("file/c", NotADirectoryError, "Not a directory"),
        ("folder", IsADirectoryError, "Is a directory"),
    ]:
        with pytest.raises(kind, match=re.escape(f"{reason}: '{tmp_path / given}'") + "$"):
            save(tmp_path / given)
    assert sorted(os.listdir(tmp_path)) == ["file", "folder"]


@pytest.mark.parametrize("save", [_saved_checkpoint, _saved_state])
def test_a_full_disk_names_the_file_that_it_has_no_room_for(tmp_path, monkeypatch, save):
    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    for step in ("truncate", "pwrite", "fsync"):
        with monkeypatch.context() as disk:
            disk.setattr(os, step, full)
            with pytest.raises(OSError, match="No space left") as told:
                save(tmp_path / "c")
        assert (told.value.errno, told.value.filename) == (errno.ENOSPC, str(tmp_path / "c"))
    assert os.listdir(tmp_path) == []


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


def test_parts_that_are_slices_give_the_file_of_their_places(tmp_path):
    whole, cuts = np.arange(30.0).reshape(5, 6), [slice(0, 7), slice(7, 7), slice(7, 30)]
    arrays = parts(whole, [np.arange(cut.start, cut.stop) for cut in cuts])
    slices = [Part(whole.reshape(-1)[cut], whole.shape, cut) for cut in cuts]
    for name, split in (("arrays", arrays), ("slices", slices), ("mixed", [slices[0], arrays[1], arrays[2]])):
        # Twice, as replicas have it.
        assert save_together(tmp_path / name, [{"w": part} for part in [*split, *arrays]]) == [None] * 6
    assert (tmp_path / "arrays").read_bytes() == (tmp_path / "slices").read_bytes() == (tmp_path / "mixed").read_bytes()
    with pytest.raises(ValueError, match="a part of 7 elements is given 8 places"):
        Part(np.zeros(7), (5, 6), slice(0, 8))


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
        # As many elements as the tensor has, and not each of them once.
        ([{"w": p} for p in parts(np.zeros(4), [[0, 1], [1, 2]])], ValueError, "'w'.*overlap"),
        ([{"w": p} for p in parts(np.zeros(4), [[0, 0], [2, 3]])], ValueError, "'w'.*overlap"),
        ([{"w": p} for p in parts(np.zeros(6), [[0, 1, 4, 5], [3, 4]])], ValueError, "'w'.*overlap"),
        ([{"w": Part(np.zeros(2), (4,), cut)} for cut in (slice(0, 2), slice(1, 3))], ValueError, "'w'.*overlap"),
        ([{"w": Part(np.zeros(2), (4,), np.array(cut))} for cut in ([0, 1], [4, 5])], ValueError, "'w'.*outside"),
        ([{"w": Part(np.zeros(2), (4,), np.array(cut))} for cut in ([0, 1], [-1, 2])], ValueError, "'w'.*outside"),
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


def test_large_tensors_of_many_ranks_give_the_file_of_one(tmp_path):
    """Checksums are of whole tensors, whoever wrote which part, and however: directly, or through the page cache."""
    rng = np.random.default_rng(0)
    weight, small = rng.normal(size=(3, LARGE // 8 + 5)), np.arange(7, dtype=np.int16)
    cuts = [slice(0, 70_001), slice(70_001, 300_000), slice(300_000, weight.size)]
    split = [Part(weight.reshape(-1)[cut], weight.shape, cut) for cut in cuts]
    assert save_together(tmp_path / "parts", [{"a": small, "w": part} for part in split]) == [None] * 3
    checkpoint.save(tmp_path / "whole", {"a": small, "w": weight})
    assert (tmp_path / "parts").read_bytes() == (tmp_path / "whole").read_bytes()
    values, copies = weight.copy(), {}
    for _ in range(2):
        with checkpoint.Saving(tmp_path / "copied", {"a": small, "w": weight}, copies=copies) as saving:
            weight[:] = 0  # The next step.
            saving.write()
            saving.commit()
        weight[:] = values
    assert (tmp_path / "copied").read_bytes() == (tmp_path / "whole").read_bytes()
    raw = (tmp_path / "whole").read_bytes()
    assert (8 + int.from_bytes(raw[:8], "little")) % PAGE == 0


def test_what_is_saved_is_read_once_and_written_once(tmp_path, monkeypatch):
    """No copy, no second look at the file: every byte is summed once and given to the disk once."""
    summed, given, real_sum, real_write = [], [], sums._crc32, os.pwrite

    def crc32(data, start=0):
        summed.append(len(data))
        return real_sum(data, start)

    def pwrite(file, data, offset):
        given.append(len(data))
        return real_write(file, data, offset)

    whole = np.zeros(3 * LARGE, np.uint8)
    cuts = [slice(0, 2 * LARGE), slice(2 * LARGE, 3 * LARGE)]
    sums._zeros(LARGE)
    monkeypatch.setattr(sums, "_crc32", crc32)
    monkeypatch.setattr(os, "pwrite", pwrite)
    monkeypatch.setattr(os, "read", lambda *_: pytest.fail("what was written was read again"))
    assert save_together(tmp_path / "c", [{"w": Part(whole[cut], whole.shape, cut)} for cut in cuts]) == [None] * 2
    assert sum(summed) == sum(given) == whole.size


def test_a_part_is_read_with_its_blocks_alone(tmp_path, monkeypatch):
    monkeypatch.setattr(checkpoint_plan, "block_size", lambda nbytes: 64)
    path, whole = tmp_path / "c", np.arange(50.0).reshape(5, 10)  # 7 blocks of 8 numbers
    checkpoint.save(path, {"w": whole, "c": np.zeros(3, np.complex128)})
    parts = [slice(0, 8), slice(7, 9), slice(20, 50), slice(49, 50), slice(3, 3), np.array([9, 8, 15]), np.arange(0)]
    needed = [{0}, {0, 1}, {2, 3, 4, 5, 6}, {6}, set(), {1}, set()]
    with checkpoint.reading(path) as state:
        for part in parts:
            got = state["w"].read_part(part)
            assert got.flags.owndata or got.base.size == got.nbytes
            np.testing.assert_array_equal(got, whole.reshape(-1)[part])
    raw = path.read_bytes()
    start = 8 + int.from_bytes(raw[:8], "little")
    for block in range(7):
        damaged = bytearray(raw)
        damaged[start + 64 * block + 5] ^= 16
        path.write_bytes(damaged)
        with checkpoint.reading(path) as state:
            for part, blocks in zip(parts, needed):
                if block not in blocks:
                    state["w"].read_part(part)
                else:
                    with pytest.raises(CheckpointError, match="damaged: w does not match"):
                        state["w"].read_part(part)
            with pytest.raises(CheckpointError, match="damaged: w does not match"):
                state["w"].read()


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


# Files that somebody made on purpose ---------------------------------------------------------------------------------


def crafted(path, tree, table=None, data=b"", metadata=None, former=False):
    """A checkpoint with checksums that are right, whatever it says; former: with those of earlier versions."""
    table = {} if table is None else table
    if former:
        sums = {"tensors_sha256": json.dumps({name: hashlib.sha256(data).hexdigest() for name in table})}
    else:
        text = f"{zlib.crc32(data):08x}" if data else ""
        sums = {"block": "1024", "tensors_crc32": json.dumps(dict.fromkeys(table, text))}
    texts = {"format": "qdist", "tree": json.dumps(tree), **sums, "sha256": BLANK}
    texts |= metadata or {}
    texts["sha256"] = hashlib.sha256(header_bytes(table, {**texts, "sha256": BLANK})).hexdigest()
    path.write_bytes(header_bytes(table, texts) + data)
    return path


def entry(shape=(2,), dtype="F32", offsets=(0, 8)):
    return {"dtype": dtype, "shape": list(shape), "data_offsets": list(offsets)}


def note(name="w", shape=(2,), dtype="float32"):
    return {"tensor": name, "dtype": dtype, "shape": list(shape)}


def nested(depth):
    tree = None
    for _ in range(depth):
        tree = {"list": [tree]}
    return tree


def test_a_crafted_file_that_is_right_is_read(tmp_path):
    for former in (False, True):
        right = crafted(tmp_path / "c", note(), {"w": entry()}, bytes(8), former=former)
        assert checkpoint.load(right).tolist() == [0, 0]
        tree = {"dict": {"a": {"tuple": [1, None]}}}
        assert checkpoint.load(crafted(tmp_path / "c", tree, former=former)) == {"a": (1, None)}


def test_files_of_earlier_versions_are_read_and_verified(tmp_path):
    data = np.arange(2.0, dtype="<f4").tobytes()
    path = crafted(tmp_path / "c", note(), {"w": entry()}, data, former=True)
    assert checkpoint.load(path).tolist() == [0, 1]
    with checkpoint.reading(path) as stored:
        assert stored.read_part(slice(1, 2)).tolist() == [1]
    path.write_bytes(path.read_bytes()[:-1] + b"\x40")
    with pytest.raises(CheckpointError, match="damaged: w does not match its checksum"):
        checkpoint.load(path)
    with checkpoint.reading(path) as stored, pytest.raises(CheckpointError, match="damaged: w"):
        stored.read_part(slice(0, 1))
    empty = {"w": entry((0,), offsets=(0, 0))}
    assert checkpoint.load(crafted(path, note(shape=(0,)), empty, former=True)).shape == (0,)


TABLES = {
    "not a table": 3,
    "no bounds": {"dtype": "F32", "shape": [2]},
    "one more field": {**entry(), "more": 1},
    "a list": [0, 8],
    "an unknown dtype": entry(dtype="F31"),
    "a dtype that is a list": {**entry(), "dtype": ["F32"]},
    "a shape that is a number": {**entry(), "shape": 2},
    "a negative size": entry(shape=(-2,)),
    "two negative sizes": entry(shape=(-1, -2)),
    "a size that is a float": entry(shape=(2.0,)),
    "a size that is true": entry(shape=(True, 2)),
    "a size of many digits": entry(shape=(10**60, 0), offsets=(0, 0)),
    "a size that overflows": entry(shape=(2**62, 4), offsets=(0, 0)),
    "too many dimensions": entry(shape=(1,) * 70 + (2,)),
    "another size": entry(shape=(3,)),
    "bounds in the wrong order": entry(offsets=(8, 0)),
    "bounds before the data": entry(offsets=(-8, 0)),
    "bounds behind the file": entry(shape=(2**40,), offsets=(0, 2**42)),
    "one bound": entry(offsets=(8,)),
    "bounds that are text": entry(offsets=("0", "8")),
    "no bounds at all": entry(offsets=()),
}


@pytest.mark.parametrize("name", TABLES)
def test_entries_that_make_no_sense_are_refused(tmp_path, name):
    with pytest.raises(CheckpointError, match=r"damaged|cut off"):
        checkpoint.load(crafted(tmp_path / "c", note(), {"w": TABLES[name]}, bytes(8)))


TREES = {
    "a list": [1],
    "a float": 0.5,
    "an unknown kind": {"set": [1]},
    "two kinds": {"list": [], "dict": {}},
    "no kind": {},
    "a dict that is a list": {"dict": []},
    "a list that is a dict": {"list": {}},
    "a list that is text": {"list": "abc"},
    "a float that is a number": {"float": 1},
    "a float that is none": {"float": "one"},
    "a float that is too large": {"float": "0x1p99999"},
    "nested": nested(101),
    "nested deeper": nested(300),
    "a tensor that is not there": {"list": [note(), note("v")]},
    "a tensor twice": {"list": [note(), note()]},
    "no tensor": None,
    "a name that is a list": note([]),
    "another dtype": note(dtype="float64"),
    "an object's dtype": note(dtype="O"),
    "a dtype that is a number": note(dtype=7),
    "another shape": note(shape=(1, 2)),
    "a shape of floats": note(shape=(2.0,)),
    "complex numbers": note(dtype="complex64"),
    "no shape": {"tensor": "w", "dtype": "float32"},
}


@pytest.mark.parametrize("name", TREES)
def test_trees_that_make_no_sense_are_refused(tmp_path, name):
    with pytest.raises(CheckpointError, match="makes no sense"):
        checkpoint.load(crafted(tmp_path / "c", TREES[name], {"w": entry()}, bytes(8)))


METADATA = {
    "checksums that are a list": {"tensors_crc32": "[]"},
    "no checksums": {"tensors_crc32": "{}"},
    "checksums that are numbers": {"tensors_crc32": '{"w": 1}'},
    "checksums of more blocks": {"tensors_crc32": '{"w": "0000000000000000"}'},
    "a block of 3": {"block": "3"},
    "no block": {"block": "0"},
    "a block of many digits": {"block": "1" * 5000},
    "a block that is no number": {"block": "all"},
    "digests that are a list": {"tensors_sha256": "[]"},
    "no digests": {"tensors_sha256": "{}"},
    "digests that are numbers": {"tensors_sha256": '{"w": 1}'},
    "digests that are no JSON": {"tensors_sha256": "{"},
    "a tree that is no JSON": {"tree": "\x00"},
    "a tree without an end": {"tree": "[" * 100_000},
    "a tree with NaN": {"tree": "NaN"},
    "a tree with a key twice": {"tree": '{"dict": {"a": 1, "a": 2}}'},
    "a number of many digits": {"tree": "1" * 5000},
}


@pytest.mark.parametrize("name", METADATA)
def test_metadata_that_make_no_sense_are_refused(tmp_path, name):
    with pytest.raises(CheckpointError, match="damaged"):
        checkpoint.load(crafted(tmp_path / "c", note(), {"w": entry()}, bytes(8), METADATA[name]))


@pytest.mark.parametrize(
    "header",
    [
        b"[" * 100_000,
        b'{"a":' * 100_000,
        b'{"__metadata__": {"format": "qdist", "format": "qdist"}}',
        b'{"__metadata__": {"format": ["qdist"]}}',
        b'{"__metadata__": []}',
        b'{"w": {"dtype": "F32", "shape": [NaN], "data_offsets": [0, Infinity]}}',
        b"\xff",
        b"",
    ],
)
def test_headers_that_make_no_sense_are_refused(tmp_path, header):
    path = tmp_path / "c"
    path.write_bytes(len(header).to_bytes(8, "little") + header)
    with pytest.raises(CheckpointError):
        checkpoint.load(path)


def test_tensors_that_overlap_or_leave_gaps_are_refused(tmp_path):
    both = {"list": [note("v"), note("w")]}
    for bounds in ((0, 8), (4, 12), (12, 20)):
        with pytest.raises(CheckpointError, match="overlap or leave gaps"):
            checkpoint.load(crafted(tmp_path / "c", both, {"v": entry(), "w": entry(offsets=bounds)}, bytes(20)))


def test_a_shape_that_no_array_has_is_refused(tmp_path):
    shape = (0, 2**62, 2**62)
    with pytest.raises(CheckpointError, match="no shape of an array"):
        checkpoint.load(crafted(tmp_path / "c", note(shape=shape), {"w": entry(shape, offsets=(0, 0))}))


def test_a_declared_size_is_compared_with_the_file_before_memory_is_taken(tmp_path):
    path = tmp_path / "c"
    path.write_bytes((2**63 - 1).to_bytes(8, "little") + bytes(100))
    with pytest.raises(CheckpointError, match="does not fit its 108 bytes"):
        checkpoint.load(path)
    huge = {"w": entry((2**58,), offsets=(0, 2**60))}
    with pytest.raises(CheckpointError, match="cut off"):
        checkpoint.load(crafted(path, note(shape=(2**58,)), huge, bytes(8)))


def test_pipes_and_folders_are_refused_and_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(CheckpointError, match="not a regular file"):
        checkpoint.load(tmp_path / "pipe")
    open_files = len(os.listdir("/proc/self/fd"))
    for load in (checkpoint.load, StateVector.load):
        with pytest.raises(IsADirectoryError) as told:
            load(tmp_path)
        assert told.value.filename == str(tmp_path)
    assert len(os.listdir("/proc/self/fd")) == open_files
    with pytest.raises(FileNotFoundError):
        checkpoint.load(tmp_path / "nothing")


def test_states_may_be_nested_as_deep_as_can_be_read_everywhere(tmp_path):
    state = {"leaf": np.ones(1)}
    for _ in range(99):
        state = [state]
    checkpoint.save(tmp_path / "c", state)
    loaded = checkpoint.load(tmp_path / "c")
    for _ in range(99):
        (loaded,) = loaded
    assert loaded["leaf"].tolist() == [1.0]
    with pytest.raises(ValueError, match="nested more than 100 deep"):
        checkpoint.save(tmp_path / "d", [state])
    assert os.listdir(tmp_path) == ["c"]


def test_nothing_is_unpickled():
    for module in (checkpoint, tensorfile, statetree, storage):
        assert not {"pickle", "marshal", "shelve", "eval", "exec"} & set(vars(module))


@pytest.mark.parametrize("kind", [MemoryError, KeyError, RecursionError, OSError, CheckpointError, ZeroDivisionError])
def test_whatever_fails_on_one_rank_is_raised_on_all(kind):
    shared = {"values": {}, "barrier": threading.Barrier(3)}

    def one(rank):
        try:
            with agreeing(Together(rank, 3, shared)):
                if rank == 1:
                    raise kind("why")
        except Exception as error:
            return error
        return None

    with ThreadPoolExecutor(3) as pool:
        errors = list(pool.map(one, range(3)))
    assert type(errors[1]) is kind
    for rank in (0, 2):
        assert isinstance(
            errors[rank], kind if kind not in (KeyError, ZeroDivisionError, RecursionError) else RuntimeError
        )
        assert re.search("rank 1: .*why", str(errors[rank]))


def test_files_have_the_mode_of_any_new_file_and_the_umask_is_left_alone(tmp_path, monkeypatch):
    before = os.umask(0o027)
    try:
        with monkeypatch.context() as patch:
            patch.setattr(os, "umask", lambda mask: pytest.fail("other threads would see this"))
            checkpoint.save(tmp_path / "c", {"epoch": 1})
    finally:
        os.umask(before)
    assert (tmp_path / "c").stat().st_mode & 0o777 == 0o640


def test_a_state_in_the_place_of_the_path_is_named(tmp_path):
    for path in ({"epoch": 1}, nn.Linear(2, 2), None, 3):
        kind = type(path).__name__
        with pytest.raises(TypeError, match=rf"the path of a checkpoint is a string or a Path, not {kind}"):
            checkpoint.save(path, tmp_path / "c")
        with pytest.raises(TypeError, match=rf"the path of a checkpoint is a string or a Path, not {kind}"):
            checkpoint.load(path)
    assert os.listdir(tmp_path) == []
