"""Datasets, samplers, loaders and readers."""

import gzip
import multiprocessing
import os
import pickle
import signal
import struct
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import NamedTuple

import numpy as np
import pytest

from qdist import data
from qdist.data import ArrayDataset, DataLoader, DistributedSampler
from qdist.tensor import Tensor


def numbers(n):
    return ArrayDataset(np.arange(n), np.arange(n, dtype=np.float32) * 2)


def flat(lists):
    return [item for part in lists for item in part]


def seen(loader):
    return [batch[0].tolist() for batch in loader]


@pytest.mark.parametrize("prefetch", [0, 3])
def test_batches_in_order_with_and_without_the_last(prefetch):
    loader = DataLoader(numbers(7), 3, prefetch=prefetch)
    assert seen(loader) == [[0, 1, 2], [3, 4, 5], [6]]
    assert len(loader) == 3
    assert seen(DataLoader(numbers(7), 3, drop_last=True, prefetch=prefetch)) == [[0, 1, 2], [3, 4, 5]]


@pytest.mark.parametrize("prefetch", [0, 2])
def test_shuffling_is_reproducible_and_new_each_pass(prefetch):
    def passes():
        loader = DataLoader(numbers(20), 6, shuffle=True, seed=3, prefetch=prefetch)
        return [seen(loader) for _ in range(2)]

    first, again = passes(), passes()
    assert first == again
    assert first[0] != first[1]
    assert sorted(flat(first[0])) == list(range(20))


def test_items_of_any_structure_are_stacked():
    class Pairs(data.Dataset):
        def __len__(self):
            return 3

        def __getitem__(self, i):
            return {"x": np.full(2, i, np.float32), "y": i}

    batch = next(iter(DataLoader(Pairs(), 3)))
    assert batch["x"].shape == (3, 2)
    assert batch["x"].dtype == np.float32
    assert batch["y"].tolist() == [0, 1, 2]


def test_named_tuples_keep_their_names():
    class Item(NamedTuple):
        x: np.ndarray
        rest: tuple[int, dict[str, float]]

    items = [Item(np.full(2, i), (i, {"y": i / 2})) for i in range(3)]
    shares = [SimpleNamespace(rank=r, size=4) for r in range(4)]
    for batch in (next(iter(DataLoader(items, 3))), *(next(iter(DataLoader(items, 3, ranks=of))) for of in shares)):
        assert type(batch) is Item
        rows = len(batch.x)
        assert batch.x.shape == (rows, 2)
        assert batch.rest[0].tolist() == batch.x.numpy()[:, 0].tolist() == (2 * batch.rest[1]["y"].numpy()).tolist()
    assert rows == 1


@pytest.mark.parametrize("indices", [np.arange(4) % 2 == 0, [True, False, True, True], [0.0, 1.5], ["a"]])
def test_masks_are_no_indices(indices):
    told = r"whole numbers.*flatnonzero"
    with pytest.raises(TypeError, match=told):
        data.Subset(np.arange(4), indices)
    for options in ({"sampler": indices}, {"sampler": SimpleNamespace(indices=lambda: indices)}):
        with pytest.raises(TypeError, match=told):
            DataLoader(np.arange(4), 2, **options).iterate()
    with pytest.raises(TypeError, match=told):
        DataLoader(np.arange(4), batch_sampler=[[1], indices]).iterate()
    assert len(data.Subset(np.arange(4), [])) == 0
    assert data.Subset(np.arange(4), np.array([3, 1], np.uint8))[0] == 3


@pytest.mark.parametrize("prefetch", [0, 2])
def test_an_error_in_the_dataset_reaches_the_caller(prefetch):
    class Broken(data.Dataset):
        def __len__(self):
            return 10

        def __getitem__(self, i):
            if i == 5:
                raise KeyError("item five")
            return i

    with pytest.raises(KeyError, match="item five"):
        list(DataLoader(Broken(), 2, prefetch=prefetch))


def test_leaving_early_ends_the_prefetching_thread():
    before = threading.active_count()
    for _ in DataLoader(numbers(1000), 1, prefetch=2):
        break
    assert threading.active_count() == before


def test_a_forked_child_goes_on_with_its_parents_pass():
    batches = iter(DataLoader(numbers(9), 2, prefetch=2))
    next(batches)
    ours, theirs = multiprocessing.get_context("fork").Pipe(duplex=False)
    child = os.fork()
    if not child:
        try:
            theirs.send(seen(batches))
        finally:
            os._exit(0)
    try:
        assert ours.poll(60), "the child waits for a thread that only its parent has"
        assert ours.recv() == seen(batches) == [[2, 3], [4, 5], [6, 7], [8]]
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


@pytest.mark.parametrize("indices", [[5, 0, 3], np.array([5, 0, 3])])
def test_a_sampler_of_another_library_may_have_an_array_of_indices(indices):
    class Chosen:
        def __init__(self):
            self.indices = indices

        def __iter__(self):
            return iter(self.indices)

        def __len__(self):
            return len(self.indices)

    assert seen(DataLoader(numbers(7), 2, sampler=Chosen())) == [[5, 0], [3]]


def test_wrong_loader_arguments_are_explained():
    with pytest.raises(ValueError, match="batch_size"):
        DataLoader(numbers(3), 0)
    with pytest.raises(ValueError, match="shuffle off"):
        DataLoader(numbers(3), 1, shuffle=True, sampler=DistributedSampler(3))
    with pytest.raises(ValueError, match="different lengths"):
        ArrayDataset(np.ones(2), np.ones(3))


@pytest.mark.parametrize("shuffle", [False, True])
@pytest.mark.parametrize(("n", "size"), [(12, 4), (10, 4), (3, 4), (1, 3)])
def test_ranks_together_see_everything_and_equally_much(n, size, shuffle):
    shares = [list(DistributedSampler(n, r, size, shuffle=shuffle, seed=1)) for r in range(size)]
    assert len({len(s) for s in shares}) == 1
    assert set(flat(shares)) == set(range(n))


def test_drop_last_never_repeats_an_item():
    shares = [list(DistributedSampler(10, r, 4, drop_last=True)) for r in range(4)]
    items = flat(shares)
    assert [len(s) for s in shares] == [2] * 4
    assert len(set(items)) == 8


def test_set_epoch_changes_the_order_the_same_way_on_every_rank():
    def order(epoch):
        shares = []
        for rank in range(2):
            sampler = DistributedSampler(numbers(8), SimpleNamespace(rank=rank, size=2), seed=5)
            sampler.set_epoch(epoch)
            shares.append(list(sampler))
        return shares

    assert order(0) == order(0)
    assert order(0) != order(1)
    assert sorted(flat(order(1))) == list(range(8))
    loader = DataLoader(numbers(8), 2, sampler=DistributedSampler(8, 1, 2, shuffle=False))
    assert seen(loader) == [[1, 3], [5, 7]]


def test_every_pass_has_a_new_order_and_set_epoch_goes_back():
    sampler = DistributedSampler(numbers(8), 0, 1, seed=5)
    first, second = list(sampler), list(sampler)
    assert first != second
    sampler.set_epoch(0)
    assert [list(sampler), list(sampler)] == [first, second]


def test_bad_ranks_are_refused():
    with pytest.raises(ValueError, match="rank 2 is not among 2"):
        DistributedSampler(8, 2, 2)
    with pytest.raises(ValueError, match="empty"):
        DistributedSampler(0, 0, 2)


def test_partitioner_shares_out_every_item_once():
    parts = data.DataPartitioner(np.arange(10), [1 / 3] * 3)
    shares = [[int(v) for v in (parts.use(i)[j] for j in range(len(parts.use(i))))] for i in range(3)]
    assert sorted(flat(shares)) == list(range(10))
    assert [len(s) for s in shares] == [3, 4, 3]
    same = data.DataPartitioner(np.arange(10), [1 / 3] * 3)
    assert [same.use(0)[i] for i in range(3)] == shares[0]
    with pytest.raises(IndexError, match="there are 3"):
        parts.use(3)
    with pytest.raises(ValueError, match="at most 1"):
        data.DataPartitioner(np.arange(10), [0.7, 0.7])


@pytest.mark.parametrize("shuffle", [False, True])
def test_split_data_shares_out_every_sample_once(shuffle):
    x, y = np.arange(20).reshape(10, 2), np.arange(10)
    shares = [data.split_data(x, y, shuffle, rank=r, size=3) for r in range(3)]
    assert sorted(np.concatenate([s[1] for s in shares])) == list(range(10))
    for sx, sy in shares:
        np.testing.assert_array_equal(sx[:, 0], 2 * sy)
    assert (np.concatenate([s[1] for s in shares]) == np.arange(10)).all() != shuffle
    alone = data.split_data(x, y)
    np.testing.assert_array_equal(alone[0], x)
    with pytest.raises(ValueError, match="labels"):
        data.split_data(x, y[:3])


def idx(array, code):
    return struct.pack(">BBBB", 0, 0, code, array.ndim) + struct.pack(f">{array.ndim}I", *array.shape) + array.tobytes()


@pytest.mark.parametrize(
    ("code", "dtype"),
    [(0x08, "u1"), (0x09, "i1"), (0x0B, ">i2"), (0x0C, ">i4"), (0x0D, ">f4"), (0x0E, ">f8")],
)
@pytest.mark.parametrize("compress", [False, True])
def test_idx_files_of_every_type(tmp_path, code, dtype, compress):
    array = np.arange(24).reshape(2, 3, 4).astype(dtype)
    raw = idx(array, code)
    path = tmp_path / "file"
    path.write_bytes(gzip.compress(raw) if compress else raw)
    read = data.read_idx(path)
    np.testing.assert_array_equal(read, array)
    assert read.dtype.isnative


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda raw: b"\x01" + raw[1:], "not an IDX file"),
        (lambda raw: raw[:2] + b"\x07" + raw[3:], "not an IDX file"),
        (lambda raw: raw[:-1], "needs 40 bytes, the file has 39"),
        (lambda raw: raw + b"x", "the file has 41"),
        (lambda raw: raw[:9], "cut off after 9"),
        (lambda raw: b"", "nothing"),
        (lambda raw: gzip.compress(raw)[:-5], "gzip"),
    ],
)
def test_bad_idx_files_are_explained(tmp_path, change, message):
    path = tmp_path / "bad"
    path.write_bytes(change(idx(np.zeros((2, 3, 4), np.uint8), 8)))
    with pytest.raises(ValueError, match=message):
        data.read_idx(path)


def read_or_error(path):
    try:
        return data.read_idx(path)
    except ValueError as error:
        return str(error)


def test_every_damaged_byte_of_a_compressed_file_is_explained(tmp_path):
    path, array = tmp_path / "file", np.arange(256, dtype=np.uint8).reshape(16, 16)
    whole = gzip.compress(idx(array, 8))
    refused = 0
    for at in range(len(whole)):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 0x80]) + whole[at + 1 :])
        found = read_or_error(path)
        if isinstance(found, str):
            assert str(path) in found
            refused += 1
        else:
            np.testing.assert_array_equal(found, array)
    assert refused > len(whole) - 20  # Some bits mean nothing: the time in gzip's header, what fills the last byte up.


def test_mnist_folder(tmp_path):
    images = np.random.default_rng(0).integers(0, 256, (5, 28, 28)).astype(np.uint8)
    (tmp_path / "train-images-idx3-ubyte.gz").write_bytes(gzip.compress(idx(images, 8)))
    (tmp_path / "train-labels-idx1-ubyte").write_bytes(idx(np.arange(5, dtype=np.uint8), 8))
    x, y = data.mnist(tmp_path)
    np.testing.assert_array_equal(x, images)
    assert y.dtype == np.int64
    with pytest.raises(FileNotFoundError, match="t10k-images-idx3-ubyte"):
        data.mnist(tmp_path, train=False)
    (tmp_path / "train-labels-idx1-ubyte").write_bytes(idx(np.arange(4, dtype=np.uint8), 8))
    with pytest.raises(ValueError, match="do not belong together"):
        data.mnist(tmp_path)


def test_cifar10_folder(tmp_path):
    rng = np.random.default_rng(0)
    expected = []
    for i in range(1, 6):
        labels = rng.integers(0, 10, (2, 1)).astype(np.uint8)
        pixels = rng.integers(0, 256, (2, 3072)).astype(np.uint8)
        expected.append(labels[:, 0])
        (tmp_path / f"data_batch_{i}.bin").write_bytes(np.hstack([labels, pixels]).tobytes())
    x, y = data.cifar10(tmp_path)
    assert x.shape == (10, 3, 32, 32)
    np.testing.assert_array_equal(y, np.concatenate(expected))
    np.testing.assert_array_equal(x[-1].reshape(-1), pixels[-1])
    with pytest.raises(FileNotFoundError, match=r"test_batch\.bin"):
        data.cifar10(tmp_path, train=False)
    (tmp_path / "test_batch.bin").write_bytes(b"\x0a" + bytes(3072))
    with pytest.raises(ValueError, match="label 10"):
        data.cifar10(tmp_path, train=False)
    (tmp_path / "test_batch.bin").write_bytes(bytes(3000))
    with pytest.raises(ValueError, match="whole number"):
        data.cifar10(tmp_path, train=False)


def test_digits_are_split_reproducibly():
    pytest.importorskip("sklearn")
    x, _, xt, yt = data.digits(seed=1)
    again = data.digits(seed=1)
    assert x.shape == (1438, 8, 8)
    assert xt.shape == (359, 8, 8)
    assert x.dtype == np.float32
    assert (x.min(), x.max()) == (0.0, 1.0)
    np.testing.assert_array_equal(xt, again[2])
    assert set(yt) == set(range(10))
    with pytest.raises(ValueError, match="between 0 and 1"):
        data.digits(1.5)


@pytest.mark.parametrize("file", ["datasets/data/digits.csv.gz", "elsewhere"])
def test_digits_are_those_of_scikit_learn(monkeypatch, file):
    bunch = pytest.importorskip("sklearn.datasets").load_digits()
    monkeypatch.setattr("qdist.data.readers._DIGITS_FILE", file)
    x, y, xt, yt = data.digits()
    found = {(label, image.tobytes()) for label, image in zip([*y, *yt], [*x, *xt])}
    assert found == {
        (label, (image / 16).astype(np.float32).tobytes()) for label, image in zip(bunch.target, bunch.images)
    }


@pytest.mark.parametrize("size", [1, 2, 3, 8])
@pytest.mark.parametrize("kind", ["array", "items"])
def test_ranks_share_out_every_batch_of_one_process(size, kind):
    arrays = data.ArrayDataset(np.arange(21), np.arange(42.0).reshape(21, 2))
    dataset = arrays if kind == "array" else [arrays[i] for i in range(21)]
    whole = list(data.DataLoader(dataset, 9, shuffle=True, seed=3))
    places = [SimpleNamespace(rank=rank, size=size) for rank in range(size)]
    parts = [list(data.DataLoader(dataset, 9, shuffle=True, seed=3, ranks=place)) for place in places]
    assert [len(batches) for batches in parts] == [3] * size
    for number, batch in enumerate(whole):
        for i, column in enumerate(batch):
            mine = [batches[number][i].numpy() for batches in parts]
            assert max(map(len, mine)) - min(map(len, mine)) <= 1
            assert {a.dtype for a in mine} == {column.dtype}
            np.testing.assert_array_equal(np.concatenate(mine), column.numpy())
    with pytest.raises(ValueError, match="leave ranks out"):
        DataLoader(dataset, 9, sampler=DistributedSampler(21), ranks=places[0])


def test_alone_there_is_one_share():
    assert list(DistributedSampler(5, shuffle=False)) == [0, 1, 2, 3, 4]


@pytest.mark.parametrize(
    ("rank", "size", "error", "text"),
    [
        (0, None, ValueError, "go together"),
        (None, 2, ValueError, "go together"),
        (1.0, 2, TypeError, "whole numbers"),
        ("0", 2, TypeError, "whole numbers"),
        (-1, 2, ValueError, "rank -1 is not among 2"),
        (2, 2, ValueError, "rank 2 is not among 2"),
        (0, 0, ValueError, "rank 0 is not among 0"),
        (SimpleNamespace(rank=0, size=2), 3, ValueError, "size=3: the communicator has 2"),
    ],
)
def test_ranks_and_sizes_are_checked(rank, size, error, text):
    with pytest.raises(error, match=text):
        DistributedSampler(8, rank, size)
    with pytest.raises(error, match=text):
        data.split_data(np.zeros(8), np.zeros(8), rank=rank, size=size)


@pytest.mark.parametrize("ranks", [0, 2, "all"])
def test_a_loader_takes_a_communicator(ranks):
    with pytest.raises((ValueError, TypeError)):
        DataLoader(numbers(8), 2, ranks=ranks)


def test_cifar10_in_its_python_format(tmp_path):
    rng = np.random.default_rng(1)
    wants = []
    for name in [f"data_batch_{i}" for i in range(1, 6)]:
        rows, labels = rng.integers(0, 256, (3, 3072), dtype=np.uint8), rng.integers(0, 10, 3)
        wants.append((rows, labels))
        # Protocol 2 and bytes as keys are what Python 2 left; others come from files that were written again.
        protocol, form = (2, lambda key: key.encode()) if name.endswith(("1", "2")) else (4, str)
        stored = rows if name != "data_batch_3" else np.asfortranarray(rows)
        content = {form("data"): stored, form("labels"): labels.tolist(), form("batch_label"): b"one"}
        (tmp_path / name).write_bytes(pickle.dumps(content, protocol))
    x, y = data.cifar10(tmp_path)
    np.testing.assert_array_equal(x.reshape(-1, 3072), np.concatenate([rows for rows, _ in wants]))
    np.testing.assert_array_equal(y, np.concatenate([labels for _, labels in wants]))
    (tmp_path / "archive").mkdir()
    for name in [f"data_batch_{i}" for i in range(1, 6)]:
        (tmp_path / "archive" / "cifar-10-batches-py").mkdir(exist_ok=True)
        (tmp_path / name).rename(tmp_path / "archive" / "cifar-10-batches-py" / name)
    np.testing.assert_array_equal(data.cifar10(tmp_path / "archive")[0], x)


def test_a_cifar10_pickle_calls_nothing(tmp_path):
    class Harm:
        def __reduce__(self):
            return (Path.touch, (tmp_path / "touched",))

    good = {b"data": np.zeros((1, 3072), np.uint8), b"labels": [3]}
    (tmp_path / "test_batch").write_bytes(pickle.dumps(good, 2))
    assert data.cifar10(tmp_path, train=False)[1].tolist() == [3]
    for bad, message in (
        (Harm(), "it names"),
        ({**good, b"x": Harm()}, "it names"),
        ([1], "a list, not a dict"),
        ({b"data": good[b"data"]}, "must be uint8"),
        ({**good, b"labels": [10]}, "from 0 to 9"),
        ({**good, b"labels": [3, 4]}, "from 0 to 9"),
        ({**good, b"data": np.zeros((1, 3072))}, "must be uint8"),
        ({**good, b"data": np.zeros((1, 3071), np.uint8)}, "must be uint8"),
        ({**good, b"data": [0] * 3072}, "must be uint8"),
    ):
        (tmp_path / "test_batch").write_bytes(pickle.dumps(bad, 2))
        with pytest.raises(ValueError, match=message):
            data.cifar10(tmp_path, train=False)
    (tmp_path / "test_batch").write_bytes(pickle.dumps(good, 2)[:-400])
    with pytest.raises(ValueError, match="not a batch of CIFAR-10"):
        data.cifar10(tmp_path, train=False)
    assert not (tmp_path / "touched").exists()


def test_random_split_gives_every_item_to_one_part():
    for lengths, counts in (([6, 4], [6, 4]), ([0.5, 0.3, 0.2], [5, 3, 2]), ([1 / 3] * 3, [4, 3, 3]), ([10], [10])):
        parts = data.random_split(numbers(10), lengths, seed=3)
        assert [len(part) for part in parts] == counts
        assert sorted(int(part[i][0]) for part in parts for i in range(len(part))) == list(range(10))
    again = data.random_split(numbers(10), [6, 4], seed=3)
    assert again[0].indices.tolist() == data.random_split(numbers(10), [6, 4], seed=3)[0].indices.tolist()
    assert again[0].indices.tolist() != data.random_split(numbers(10), [6, 4], seed=4)[0].indices.tolist()
    for lengths in ([5, 4], [5.5, 4.5], [11, -1], [0.5, 0.4], []):
        with pytest.raises(ValueError, match="numbers of items that add up to 10"):
            data.random_split(numbers(10), lengths)


def test_a_tuple_of_arrays_is_no_dataset():
    x, y = np.arange(8.0).reshape(4, 2), np.arange(4)
    for given in ((x, y), (y, y)):
        with pytest.raises(TypeError, match=r"ArrayDataset\(\*arrays\) has an item a row"):
            DataLoader(given, batch_size=2)
    assert [len(batch[1]) for batch in DataLoader(ArrayDataset(x, y), batch_size=2)] == [2, 2]


def test_what_is_no_dataset_is_named():
    for given in (None, 5):
        with pytest.raises(TypeError, match=f"which {type(given).__name__} has not"):
            DataLoader(given)
        with pytest.raises(TypeError, match=f"not {given}"):
            ArrayDataset(given)
    with pytest.raises(ValueError, match="a whole number, got '2'"):
        DataLoader(np.zeros(4), batch_size="2")


def test_the_partitioner_takes_an_array_of_sizes():
    whole = data.DataPartitioner(np.arange(10), np.array([0.5, 0.3, 0.2]), seed=3)
    same = data.DataPartitioner(np.arange(10), [0.5, 0.3, 0.2], seed=3)
    for part in range(3):
        assert whole.use(part).indices.tolist() == same.use(part).indices.tolist()


def test_lengths_may_be_numpy_numbers():
    for length in (5, np.int64(5), np.uint8(5)):
        assert list(data.BatchSampler(length, batch_size=2)) == [[0, 1], [2, 3], [4]]
        assert DistributedSampler(length, 1, 2, shuffle=False).indices().tolist() == [1, 3, 0]


@pytest.mark.parametrize("prefetch", [0, 2])
def test_a_list_of_arrays_from_a_collate_function_stays_a_list(prefetch):
    def columns(items):
        return [np.stack([x for x, _ in items]), Tensor([int(y) for _, y in items]), {"n": len(items)}, [1, 2]]

    rows = ArrayDataset(np.arange(6, dtype=np.float32), np.arange(6))
    whole = list(DataLoader(rows, 4, collate_fn=columns, prefetch=prefetch))
    assert [[part.tolist() for part in batch[:2]] for batch in whole] == [[[0, 1, 2, 3]] * 2, [[4, 5]] * 2]
    assert [part.dtype for part in whole[0][:2]] == [np.float32, np.int64]
    assert (whole[1][2]["n"].item(), whole[1][3].tolist()) == (2, [1, 2])
    other = DataLoader(ArrayDataset(*(a[:1] for a in rows.arrays)), 4, ranks=SimpleNamespace(rank=0, size=2))
    other.collate_fn = lambda items: columns(items)[:2]
    (empty,) = other
    assert [(part.shape, part.dtype) for part in empty] == [((0,), np.float32), ((0,), np.int64)]


def test_items_that_make_no_array_are_explained():
    for items, message in (
        ([[np.zeros(3), 1], [np.ones(3), 2]], "tuples"),
        # In batches of two, `for x, y in loader` would take the rows apart instead of the entries.
        ([[np.zeros(3), np.ones(3)], [np.zeros(3), np.ones(3)]], "tuples"),
        ([[Tensor(np.zeros(3)), 1], [Tensor(np.zeros(3)), 1]], "tuples"),
        ([np.zeros(2), np.zeros(3)], r"\(2,\) and \(3,\).*collate_fn"),
        ([(np.zeros(2), 1), (np.zeros(3), 2)], r"\(2,\) and \(3,\).*collate_fn"),
        ([Tensor(np.zeros(2)), Tensor(np.zeros(3))], r"\(2,\) and \(3,\).*collate_fn"),
    ):
        with pytest.raises(ValueError, match=message):
            list(DataLoader(items, 2))
