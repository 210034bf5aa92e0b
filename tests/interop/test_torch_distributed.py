"""torch.distributed's surface in one process: what is refused, stores, futures, data. On ranks: tests/seeds."""

import importlib
import os
import subprocess
import sys
import threading
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import qdist.interop.torch_distributed as dist
from qdist.comm import CommError
from qdist.interop.torch_distributed import datasets, torch, transforms
from qdist.tensor import Tensor


@pytest.fixture
def group():
    dist.init_process_group("mpi")
    yield
    if dist.is_initialized():
        dist.destroy_process_group()


def test_nothing_works_before_the_group_is_there() -> None:
    assert not dist.is_initialized()
    for call in (dist.get_rank, dist.get_world_size, dist.barrier, lambda: dist.all_reduce(torch.ones(1))):
        with pytest.raises(RuntimeError, match=r"call init_process_group\(\) first"):
            call()
    with pytest.raises(RuntimeError, match=r"call init_process_group\(\) first"):
        torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(1, 1))


def test_one_process_is_a_group(group) -> None:
    assert dist.is_initialized()
    assert (dist.get_rank(), dist.get_world_size(), dist.get_backend()) == (0, 1, "mpi")
    x = torch.ones(2)
    assert dist.all_reduce(x) is x
    work = dist.all_reduce(x, async_op=True)
    assert work.wait()
    assert work.get_future().value() == [x]
    with pytest.raises(RuntimeError, match="source_rank"):
        work.source_rank()
    with pytest.raises(RuntimeError, match=r"call destroy_process_group\(\) first"):
        dist.init_process_group("mpi")
    dist.destroy_process_group()
    assert not dist.is_initialized()


def test_gloo_is_mpi_with_a_note() -> None:
    with pytest.warns(UserWarning, match="backend='gloo' is MPI here"):
        dist.init_process_group("GLOO")
    assert dist.get_backend() == "mpi"
    dist.destroy_process_group()
    assert dist.Backend("NCCL") == dist.Backend.NCCL == "nccl"


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"backend": "tpu"}, ValueError, "backend='tpu': use mpi, nccl, gloo, ucc"),
        ({"store": dist.HashStore(), "init_method": "env://"}, ValueError, "exclude each other"),
        ({"store": dist.HashStore()}, ValueError, "store= takes rank and world_size"),
        ({"store": dist.HashStore(), "rank": 0, "world_size": 2}, ValueError, "in which ranks cannot meet"),
        ({"rank": 0}, ValueError, "rank=0 and world_size=-1: give both or none"),
        ({"timeout": "soon"}, TypeError, "give a datetime.timedelta"),
        ({"timeout": timedelta(0)}, ValueError, "longer than 0 s"),
        ({"init_method": "tcp://10.1.1.20:23456", "rank": 0, "world_size": 4}, CommError, "share no secret"),
    ],
)
def test_wrong_arguments_are_told(arguments: dict, error: type, message: str) -> None:
    with pytest.raises(error, match=message):
        dist.init_process_group(**arguments)
    assert not dist.is_initialized()


def test_timeouts_are_timedeltas() -> None:
    dist.init_process_group(timeout=timedelta(minutes=2), store=dist.HashStore(), rank=0, world_size=1)
    assert dist.new_group(timeout=timedelta(seconds=120)).timeout == 120
    dist.destroy_process_group()


def test_what_cannot_be_written_is_refused(group) -> None:
    with pytest.raises(TypeError, match="tensor is a Tensor or an array, into which the result is written, not list"):
        dist.all_reduce([1.0])
    with pytest.raises(ValueError, match=r"tensor_list holds float32\[3\], the tensor is float32\[2\]"):
        dist.all_gather([torch.zeros(3)], torch.zeros(2))
    with pytest.raises(ValueError, match="gather_list is a list of 1 tensors"):
        dist.gather(torch.zeros(2))
    with pytest.raises(ValueError, match="output_tensor_list has 0 tensors"):
        dist.all_to_all([], [torch.zeros(2)])
    with pytest.raises(ValueError, match=r"rank 3 is not in the group of ranks \[0\]"):
        dist.broadcast(torch.zeros(2), 3)
    with pytest.raises(TypeError, match=r"a group is what new_group\(\) gave"):
        dist.barrier([0])


def test_elastic_launches_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TORCHELASTIC_RUN_ID", raising=False)
    assert not dist.is_torchelastic_launched()
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "7")
    assert dist.is_torchelastic_launched()


@pytest.mark.parametrize("kind", ["hash", "file", "tcp"])
def test_stores(kind: str, tmp_path: Path, free_port: int) -> None:
    make = {
        "hash": dist.HashStore,
        "file": lambda: dist.FileStore(str(tmp_path / "store")),
        "tcp": lambda: dist.TCPStore("127.0.0.1", free_port, is_master=True),
    }[kind]
    store = make()
    others = {"hash": lambda: store, "file": make, "tcp": lambda: dist.TCPStore("localhost", free_port)}[kind]
    other = others()
    store.set("a", "text")
    other.set("b", b"\x00\xff")
    assert (other.get("a"), store.get("b")) == (b"text", b"\x00\xff")
    assert store.check(["a", "b"])
    assert not store.check(["a", "c"])
    assert store.num_keys() == 2
    assert [s.add("n", k) for s, k in ((store, 2), (other, 3), (store, -1))] == [2, 5, 4]
    assert store.get("n") == b"4"
    threading.Timer(0.05, lambda: other.set("late", "here")).start()
    assert store.get("late") == b"here"
    with pytest.raises(CommError, match=r"nobody set 'never' within 0.02 s"):
        store.wait(["a", "never"], timedelta(milliseconds=20))
    store.set_timeout(timedelta(milliseconds=20))
    with pytest.raises(CommError, match=r"nobody set 'never' within 0.02 s"):
        store.get("never")
    for wrong in (
        lambda: store.set("a", 5),
        lambda: store.set("a", None),
        lambda: store.set(5, "a"),
        lambda: store.add("n", 1.5),
        lambda: store.add("n", "1"),
        lambda: store.add(b"n", 1),
        lambda: store.get(5),
        lambda: store.wait("ab"),
        lambda: store.check("ab"),
    ):
        with pytest.raises(TypeError, match=r"give (text|a list of keys|a whole number)"):
            wrong()
    with pytest.raises(CommError, match="'a' holds no number to add to"):
        store.add("a", 1)
    assert (other.get("a"), other.get("n"), store.num_keys()) == (b"text", b"4", 4)
    large = b"x" * 2_000_000
    if kind == "tcp":
        with pytest.raises(ValueError, match="2000000 bytes for 'large': a TCPStore takes 1 MB"):
            store.set("large", large)
        large = b"x" * 1_000_000
    store.set("large", large)
    assert other.get("large") == large


def test_file_stores_are_their_owners_alone(tmp_path: Path) -> None:
    dist.FileStore(str(tmp_path / "store")).set("a", "1")
    assert (tmp_path / "store").stat().st_mode & 0o777 == 0o600
    (tmp_path / "store").chmod(0o666)
    with pytest.raises(CommError, match="only its owner reads and writes"):
        dist.FileStore(str(tmp_path / "store"))
    (tmp_path / "link").symlink_to(tmp_path / "store")
    with pytest.raises(CommError, match="FileStore"):
        dist.FileStore(str(tmp_path / "link"))
    for number, content in enumerate(("text\n", "5\n", '["a"]\n', '["a", 1]\n', '["a", "MQ=="]\n["b", "M')):
        other = tmp_path / f"other{number}"
        other.touch(0o600)
        other.write_text(content)
        with pytest.raises(CommError, match="its file holds something else; take a new one"):
            dist.FileStore(str(other)).get("a")
    with pytest.raises(ValueError, match="the store was made for 4 processes"):
        dist.FileStore(str(tmp_path / "other"), 4).init_method(0, 2)


def test_processes_meet_in_stores(bundled_mpich, tmp_path: Path, free_port: int) -> None:
    program = Path(__file__).parent / "meeting_in_stores.py"
    plain = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, program, tmp_path, str(free_port)],
        capture_output=True, text=True, timeout=180, env=os.environ | plain,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    for kind in ("tcp", "file"):
        found = [(tmp_path / f"{kind}.{rank}").read_text().split() for rank in (0, 1)]
        assert [words[:2] for words in found] == [["[3.0,", "3.0]"]] * 2
        assert sorted(words[3] for words in found) == ["1", "2"]
    assert (tmp_path / "error").read_text() == "process 1 ended with exit code 3"


def test_mnist_from_a_folder(tmp_path: Path) -> None:
    sys.path.insert(0, str(Path(__file__).parents[1] / "seeds"))
    try:
        import image_files
    finally:
        sys.path.pop(0)
    images, labels = image_files.write_mnist(tmp_path / "MNIST" / "raw", 12)
    prepare = transforms.Compose([transforms.ToTensor(), transforms.Normalize((0.1307,), (0.3081,))])
    dataset = datasets.MNIST(tmp_path, transform=prepare, target_transform=lambda label: label + 1)
    image, label = dataset[5]
    assert (len(dataset), image.shape, label) == (12, (1, 28, 28), labels[5] + 1)
    np.testing.assert_allclose(image.ravel(), (images[5] / 255 - 0.1307) / 0.3081, rtol=1e-5)
    with pytest.raises(FileNotFoundError, match=r"train-images.*is in .*Nothing is downloaded here"):
        datasets.MNIST(tmp_path / "MNIST", download=True)


def test_samplers_take_torchs_names() -> None:
    sampler = torch.utils.data.distributed.DistributedSampler(
        Tensor(np.arange(10)), num_replicas=4, rank=3, shuffle=False
    )
    assert list(sampler) == [3, 7, 1]


SCHEDULES: dict[str, dict[str, Any]] = {
    "StepLR": {"step_size": 3, "gamma": 0.5},
    "MultiStepLR": {"milestones": [2, 5, 5, 8], "gamma": 0.5},
    "ExponentialLR": {"gamma": 0.9},
    "LinearLR": {"start_factor": 0.25, "total_iters": 4},
    "LambdaLR": {"lr_lambda": [lambda t: 1 / (1 + t), lambda t: 0.9**t]},
    "CosineAnnealingLR": {"T_max": 4, "eta_min": 0.01},
}


@pytest.mark.parametrize("name", SCHEDULES)
def test_schedules_are_those_of_torch(name: str) -> None:
    peer = pytest.importorskip("torch")

    def start(library: Any) -> tuple[Any, list[Any]]:
        groups = [{"params": [library.nn.Linear(1, 1).weight], "lr": lr} for lr in (0.1, 0.4)]
        optimizer = library.optim.SGD(groups, lr=0.2)
        made = library.optim.lr_scheduler
        # Two schedules of one optimiser act together.
        chain = [getattr(made, name)(optimizer, **SCHEDULES[name])]
        return optimizer, [*chain, *([] if name == "LambdaLR" else [made.ExponentialLR(optimizer, 0.95)])]

    both = [start(torch), start(peer)]
    for step in range(14):
        for i, (optimizer, schedules) in enumerate(both):
            if step == 6:
                optimizer.param_groups[1]["lr"] *= 0.5
            if step == 9:
                # Resumed elsewhere.
                both[i] = start(torch if i == 0 else peer)
                both[i][0].load_state_dict(optimizer.state_dict())
                for new, old in zip(both[i][1], schedules, strict=True):
                    new.load_state_dict(old.state_dict())
            both[i][0].step()
            for schedule in both[i][1]:
                schedule.step()
        ours, theirs = (schedules[0].get_last_lr() for _, schedules in both)
        rates = [[group["lr"] for group in optimizer.param_groups] for optimizer, _ in both]
        np.testing.assert_allclose(rates[0], rates[1], rtol=1e-12)
        assert ours == rates[0]
        assert len(ours) == len(theirs)


def test_schedules_refuse_what_they_cannot_do() -> None:
    made, optimizer = torch.optim.lr_scheduler, torch.optim.SGD(torch.nn.Linear(1, 1).parameters(), lr=0.1)
    for call, message in (
        (lambda: made.StepLR(optimizer, 2, last_epoch=3), r"last_epoch=3: resume by load_state_dict\(\)"),
        (lambda: made.StepLR(optimizer, 0), "step_size"),
        (lambda: made.CosineAnnealingLR(optimizer, 0), "T_max"),
        (lambda: made.LinearLR(optimizer, 0.0), "start_factor=0.0"),
        (lambda: made.LambdaLR(optimizer, [float, float]), r"2 functions were given for 1 group\(s\)"),
    ):
        with pytest.raises(ValueError, match=message):
            call()
    with pytest.raises(TypeError, match="not Linear"):
        made.ExponentialLR(torch.nn.Linear(1, 1), 0.9)


def test_loaders_take_torchs_options_or_name_them() -> None:
    peer = pytest.importorskip("torch")
    data, x = torch.utils.data, np.arange(10.0)
    given = {"batch_size": 3, "sampler": [3, 1, 4, 1, 5], "drop_last": True, "num_workers": 2}
    for options in (given, {"batch_sampler": [[0, 5], [7]]}, {"batch_size": 4, "num_workers": 1, "prefetch_factor": 3}):
        mine = [batch[0].tolist() for batch in data.DataLoader(data.TensorDataset(x), **options)]
        options = {k: v for k, v in options.items() if k not in ("num_workers", "prefetch_factor")}
        their = peer.utils.data
        assert mine == [b[0].tolist() for b in their.DataLoader(their.TensorDataset(peer.tensor(x)), **options)]
    assert data.DataLoader(x, 2, False, None, None, 3).prefetch == 6
    for options, message in (
        ({"pin_memory": True}, "pin_memory=True: batches are copied to GPUs from ordinary memory here: leave it out"),
        ({"num_workers": 1, "persistent_workers": True}, "persistent_workers=True: a thread"),
        ({"worker_init_fn": print}, "worker_init_fn="),
        ({"generator": object()}, "give seed="),
        ({"prefetch_factor": 2}, "at least one worker"),
        ({"num_workers": -1}, "num_workers=-1"),
    ):
        with pytest.raises(ValueError, match=message):
            data.DataLoader(x, **options)


@pytest.mark.parametrize(
    ("line", "name", "where"),
    [
        ("import {}.nn.functional as m", "relu", "qdist.tensor.functional"),
        ("from {}.nn import functional as m", "max_pool2d", "qdist.tensor.functional"),
        ("import {}.optim as m", "SGD", "qdist.optim"),
        (
            "import {}.optim.lr_scheduler as m",
            "StepLR",
            "qdist.interop.torch_distributed.torch.lr_scheduler",
        ),
        ("from {} import optim as m", "AdamW", "qdist.optim"),
        ("import {}.nn as m", "Linear", "qdist.nn"),
        ("import {}.multiprocessing as m", "Process", "qdist.interop.torch_distributed.torch.multiprocessing"),
        ("import {}.utils.data as m", "DataLoader", "qdist.interop.torch_distributed.torch.utils.data"),
    ],
)
def test_import_lines_need_another_beginning_alone(line: str, name: str, where: str) -> None:
    found: dict[str, Any] = {}
    exec(line.format("qdist.interop.torch_distributed.torch"), found)
    assert getattr(found["m"], name) is getattr(importlib.import_module(where), name)
