"""torch.distributed's collectives and messages in place, on every rank at once, beside NumPy on all ranks' numbers.

On ranks that a test started for NCCL, tensors are on GPUs.
"""

import os
from datetime import timedelta

import numpy as np
import pytest

import qdist.interop.torch_distributed as dist
from qdist import nn
from qdist.comm import CommError
from qdist.interop.torch_distributed import ReduceOp
from qdist.interop.torch_distributed.process_group import communicator
from qdist.interop.torch_distributed.torch.nn.parallel import DistributedDataParallel
from qdist.tensor import Tensor, manual_seed

BACKEND = os.environ.get("QDIST_TEST_BACKEND", "mpi")
TAG = 0 if BACKEND == "nccl" else 3
"""NCCL has no others."""
NO_BITS = pytest.mark.skipif(BACKEND == "nccl", reason="NCCL has none")
REDUCTIONS = {
    "SUM": np.add.reduce,
    "PRODUCT": np.multiply.reduce,
    "MIN": np.minimum.reduce,
    "MAX": np.maximum.reduce,
    "BAND": np.bitwise_and.reduce,
    "BOR": np.bitwise_or.reduce,
    "BXOR": np.bitwise_xor.reduce,
}


@pytest.fixture(autouse=True)
def _group():
    if not dist.is_initialized():
        dist.init_process_group(BACKEND, timeout=timedelta(seconds=120))
    yield
    dist.barrier()


def of_rank(rank: int, dtype=np.float64) -> np.ndarray:
    return np.random.default_rng(rank).integers(1, 9, (2, 3)).astype(dtype)


def everyone(dtype=np.float64) -> np.ndarray:
    return np.stack([of_rank(r, dtype) for r in range(dist.get_world_size())])


def made(array, kind: str = "tensor"):
    """A Tensor, or an array, where the collectives are to work."""
    world = communicator(None)
    place = "cpu" if BACKEND == "mpi" else f"cuda:{world.local_rank % world.devices}"
    tensor = Tensor(np.asarray(array), device=place)
    return tensor if kind == "tensor" else tensor.data


def own(kind: str = "tensor", dtype=np.float64):
    return made(of_rank(dist.get_rank(), dtype), kind)


def values(tensor) -> np.ndarray:
    return Tensor(tensor).numpy()


def finished(call, async_op: bool):
    """What a call gives, once it is done."""
    if not async_op:
        return call
    assert call.wait(timedelta(seconds=60))
    assert call.is_completed()
    assert call.is_success()
    future = call.get_future()
    assert future.wait() is call.result()
    return call.result()


@pytest.mark.parametrize("async_op", [False, True])
@pytest.mark.parametrize("kind", ["tensor", "array"])
def test_every_collective_writes_into_what_it_is_given(kind: str, async_op: bool) -> None:
    rank, size = dist.get_rank(), dist.get_world_size()
    last = size - 1

    x = own(kind)
    got = finished(dist.all_reduce(x, async_op=async_op), async_op)
    assert (got[0] if async_op else got) is x
    np.testing.assert_array_equal(values(x), everyone().sum(0))

    x = own(kind)
    finished(dist.reduce(x, last, ReduceOp.MAX, async_op=async_op), async_op)
    np.testing.assert_array_equal(values(x), everyone().max(0) if rank == last else of_rank(rank))

    x = own(kind)
    finished(dist.broadcast(x, last, async_op=async_op), async_op)
    np.testing.assert_array_equal(values(x), of_rank(last))

    rows = [own(kind) for _ in range(size)]
    finished(dist.all_gather(rows, own(kind), async_op=async_op), async_op)
    np.testing.assert_array_equal([values(row) for row in rows], everyone())

    rows = [own(kind) for _ in range(size)] if rank == last else None
    finished(dist.gather(own(kind), rows, last, async_op=async_op), async_op)
    if rows is not None:
        np.testing.assert_array_equal([values(row) for row in rows], everyone())

    x = own(kind)
    given = [made(10.0 * r + of_rank(rank), kind) for r in range(size)] if rank == last else None
    finished(dist.scatter(x, given, last, async_op=async_op), async_op)
    np.testing.assert_array_equal(values(x), 10.0 * rank + of_rank(last))

    for shape in ((size * of_rank(0).shape[0], *of_rank(0).shape[1:]), (size, *of_rank(0).shape)):
        whole = made(np.zeros(shape), kind)
        finished(dist.all_gather_into_tensor(whole, own(kind), async_op=async_op), async_op)
        np.testing.assert_array_equal(values(whole), everyone().reshape(shape))
        x, parts = own(kind), made((10.0 * rank + everyone()).reshape(shape), kind)
        finished(dist.reduce_scatter_tensor(x, parts, async_op=async_op), async_op)
        np.testing.assert_array_equal(values(x), size * of_rank(rank) + 10.0 * sum(range(size)))
        with pytest.raises(ValueError, match=rf"of {size} ranks output_tensor is float64"):
            dist.all_gather_into_tensor(own(kind)[1:], own(kind), async_op=async_op)

    x = own(kind)
    finished(dist.reduce_scatter(x, [made(r + of_rank(rank)) for r in range(size)], async_op=async_op), async_op)
    np.testing.assert_array_equal(values(x), size * rank + everyone().sum(0))

    outputs = [made(np.zeros((r + 1, rank + 1))) for r in range(size)]
    inputs = [made(np.full((rank + 1, r + 1), 10.0 * rank + r)) for r in range(size)]
    finished(dist.all_to_all(outputs, inputs, async_op=async_op), async_op)
    for source, output in enumerate(outputs):
        assert set(output.numpy().ravel()) == {10.0 * source + rank}

    work = dist.barrier(async_op=async_op)
    assert work.wait() if async_op else work is None


def test_objects_of_every_rank() -> None:
    rank, size = dist.get_rank(), dist.get_world_size()
    last, mine = size - 1, {"rank": rank, "x": np.arange(rank + 1)}
    found: list = [None] * size
    dist.all_gather_object(found, mine)
    assert [(one["rank"], len(one["x"])) for one in found] == [(r, r + 1) for r in range(size)]
    found = [rank, "none"]
    dist.broadcast_object_list(found, last)
    assert found == [last, "none"]
    found = [None] * size
    dist.gather_object(rank, found if rank == last else None, last)
    assert found == (list(range(size)) if rank == last else [None] * size)
    found = [None]
    dist.scatter_object_list(found, [f"for {r}" for r in range(size)] if rank == last else None, last)
    assert found == [f"for {rank}"]
    with pytest.raises(ValueError, match=rf"all_gather_object: {size} objects come for a list of {size + 1}"):
        dist.all_gather_object([None] * (size + 1), rank)
    with pytest.raises(ValueError, match=rf"rank {last} gives 1 objects to {size} ranks"):
        dist.scatter_object_list([None], ["one"], last)


@pytest.mark.parametrize("name", [pytest.param(n, marks=NO_BITS) if n[0] == "B" else n for n in REDUCTIONS])
def test_reductions(name: str) -> None:
    x = own(dtype=np.int64)
    dist.all_reduce(x, getattr(ReduceOp, name))
    np.testing.assert_array_equal(x.numpy(), REDUCTIONS[name](everyone(np.int64)))


def test_means_and_weighted_sums() -> None:
    x, y = own(), own()
    dist.all_reduce(x, ReduceOp.AVG)
    np.testing.assert_allclose(x.numpy(), everyone().mean(0), rtol=1e-14)
    dist.all_reduce(y, ReduceOp.PREMUL_SUM(0.5 + dist.get_rank()))
    weights = 0.5 + np.arange(dist.get_world_size())
    np.testing.assert_allclose(y.numpy(), np.einsum("r,rij->ij", weights, everyone()), rtol=1e-14)
    with pytest.raises(ValueError, match=r"give it, as in ReduceOp\.PREMUL_SUM"):
        dist.all_reduce(y, ReduceOp.PREMUL_SUM)


def test_futures_run_what_hangs_on_them_once() -> None:
    x, seen = own(), []
    future = dist.all_reduce(x, async_op=True).get_future()
    future.add_done_callback(lambda done: seen.append(done.value()[0]))
    double = future.then(lambda done: done.value()[0] * 2)
    np.testing.assert_array_equal(double.wait().numpy(), 2 * everyone().sum(0))
    assert double.done()
    assert seen == [x]
    future.wait()
    future.add_done_callback(lambda done: seen.append("late"))
    assert seen == [x, "late"]
    work = dist.all_reduce(own(), async_op=True)
    work.wait()
    work.get_future().add_done_callback(lambda done: seen.append("nobody asked"))
    assert seen[-1] == "nobody asked"


def test_a_result_that_does_not_fit_is_told_every_time() -> None:
    size = dist.get_world_size()
    inputs, outputs = ([made(np.zeros(n)) for _ in range(size)] for n in (2, 3))
    with pytest.raises(ValueError, match="the output for it is"):
        dist.all_to_all(outputs, inputs)
    work = dist.all_to_all(outputs, inputs, async_op=True)
    future = work.get_future()
    for ask in (work.wait, work.wait, work.result, future.wait, future.wait, work.get_future().value):
        with pytest.raises(ValueError, match="the output for it is"):
            ask()
    assert work.is_completed()
    assert not work.is_success()
    x = own()
    assert dist.all_reduce(x, async_op=True).wait()
    np.testing.assert_array_equal(values(x), everyone().sum(0))


def test_messages_around_a_ring() -> None:
    rank, size = dist.get_rank(), dist.get_world_size()
    if size == 1 and BACKEND == "nccl":
        pytest.skip("NCCL has no messages to oneself")
    left, right = (rank - 1) % size, (rank + 1) % size
    x, y = own(), made(np.zeros((2, 3)))
    request = dist.irecv(y, left, tag=TAG)
    sending = dist.isend(x, right, tag=TAG)
    request.wait()
    sending.wait()
    assert request.source_rank() == left
    np.testing.assert_array_equal(y.numpy(), of_rank(left))
    with pytest.raises(ValueError, match="name the rank that sends"):
        dist.recv(y)
    # The other order, with more than a transport would keep for a receiver that has not come yet.
    large, taken = made(np.full(1 << 21, float(rank))), made(np.zeros(1 << 21))
    sending = dist.isend(large, right, tag=TAG)
    request = dist.irecv(taken, left, tag=TAG)
    sending.wait()
    request.wait()
    np.testing.assert_array_equal(taken.numpy(), np.full(1 << 21, float(left)))


def test_groups_count_ranks_among_all() -> None:
    rank, size = dist.get_rank(), dist.get_world_size()
    if size < 3:
        pytest.skip("takes three ranks")
    members = [0, size - 1]
    group = dist.new_group(members)
    if rank not in members:
        assert dist.get_rank(group) == dist.get_world_size(group) == -1
        with pytest.warns(UserWarning, match="does nothing"):
            assert dist.all_reduce(own(), group=group) is None
        dist.destroy_process_group(group)
        return
    assert dist.get_rank(group) == members.index(rank)
    x = own()
    dist.broadcast(x, size - 1, group=group)
    np.testing.assert_array_equal(x.numpy(), of_rank(size - 1))
    if rank == 0:
        dist.send(Tensor([7.0]), size - 1, group=group)
    else:
        y = Tensor([0.0])
        assert dist.recv(y, 0, group=group) == 0
        assert y.tolist() == [7.0]
    with pytest.raises(ValueError, match="rank 1 is not in the group of ranks"):
        dist.reduce(x, 1, group=group)
    with pytest.raises(ValueError, match="tensor_list is a list of 2 tensors"):
        dist.all_gather([own()], own(), group=group)
    dist.destroy_process_group(group)


def test_writing_is_seen_by_the_graph() -> None:
    x = Tensor(of_rank(0), requires_grad=True)
    y = (x * x).sum()
    dist.all_reduce(x)
    with pytest.raises(RuntimeError, match="changed"):
        y.backward()


def test_options_that_groups_share() -> None:
    ranks = [dist.get_rank()]
    with pytest.raises(ValueError, match="groups share the"):
        dist.new_group(ranks, timeout=timedelta(seconds=1))
    other, alike = ("nccl", "gloo") if BACKEND == "mpi" else ("gloo", "nccl")
    with pytest.raises(ValueError, match=f"backend='{other}': the job talks over {BACKEND}"):
        dist.new_group(ranks, backend=other)
    assert dist.get_world_size(dist.new_group(ranks, backend=alike)) == 1


def test_a_mesh() -> None:
    size = dist.get_world_size()
    mesh = dist.device_mesh.init_device_mesh("cpu", (1, size), mesh_dim_names=("dp", "tp"))
    assert (mesh["tp"].size, mesh["dp"].size) == (size, 1)
    with pytest.raises(ValueError, match="device_type='tpu'"):
        dist.device_mesh.init_device_mesh("tpu", (size,))


def test_distributed_data_parallel_takes_devices() -> None:
    rank, size = dist.get_rank(), dist.get_world_size()
    place = made(0.0).device
    manual_seed(rank)
    plain = nn.Linear(3, 1, dtype=np.float64).to(place)
    model = DistributedDataParallel(plain, device_ids=[place], output_device="cpu")
    x = np.random.default_rng(0).normal(size=(2 * size, 3))
    output = model(Tensor(x[2 * rank : 2 * rank + 2]))  # Moved to the device, and back.
    assert output.device == "cpu"
    output.mean().backward()
    np.testing.assert_allclose(model.module.weight.grad.numpy(), x.mean(0)[None], atol=1e-12)
    with pytest.raises(ValueError, match=r"device_ids=\[0\], but the module is on cpu"):
        DistributedDataParallel(nn.Linear(1, 1), device_ids=[0])
    with pytest.raises(ValueError, match="one device, this rank's"):
        DistributedDataParallel(nn.Linear(1, 1), device_ids=[0, 1])


def test_wait_gives_up_after_its_time() -> None:
    if dist.get_world_size() == 1:
        pytest.skip("takes two ranks")
    x = Tensor([0.0])
    if dist.get_rank() == 0:
        request = dist.irecv(x, 1, tag=TAG)
        with pytest.raises(CommError, match=r"not done within 0.05 s"):
            request.wait(timedelta(milliseconds=50))
        dist.barrier()
        assert request.wait(timedelta(seconds=60))
        assert x.tolist() == [5.0]
    else:
        dist.barrier()
        if dist.get_rank() == 1:
            dist.send(Tensor([5.0]), 0, tag=TAG)
