"""The programs of torch.distributed's tutorial and of the notes, each beside what one process makes of its data."""

import numpy as np
import pytest
from documents import BACKEND, HERE, device, run

import qdist.interop.torch_distributed as dist
from qdist import nn, optim
from qdist.data import DataLoader, DistributedSampler
from qdist.interop.torch_distributed import torch
from qdist.tensor import Tensor, functional

TUTORIAL, NOTES = HERE / "torch_distributed", HERE / "notes"
CLOSE = 1e-10
GPU = max(0, device()["DEVICE"] - 1000)
IN_DOUBLE = [
    ("model = Net()", "model = Net().to('float64')"),
    ("output = model(data)", "output = model(data.double())"),
]


@pytest.fixture
def group(comm):
    """The ranks, brought together as the template does."""
    if not dist.is_initialized():
        dist.init_process_group(BACKEND)
    yield dist.get_rank(), dist.get_world_size()
    dist.barrier()


@pytest.fixture
def no_group(comm):
    """For programs that bring the ranks together themselves."""
    if dist.is_initialized():
        dist.destroy_process_group()
    yield
    if dist.is_initialized():
        dist.destroy_process_group()


def test_the_template_under_mpirun(no_group) -> None:
    if BACKEND == "nccl":
        pytest.skip("of backend 'mpi'")
    with pytest.warns(UserWarning, match="with MPI they are ignored"):
        found = run(TUTORIAL / "template_mpi.py")["found"]
    assert found == (dist.get_rank(), dist.get_world_size())


@pytest.mark.parametrize("name", ["blocking", "non_blocking"])
def test_messages(group, name: str) -> None:
    rank, size = group
    if size != 2 or BACKEND == "nccl":
        pytest.skip("written for two ranks on the CPU")
    assert run(TUTORIAL / f"{name}.py")["run"](rank, size).tolist() == [1.0]


@pytest.mark.filterwarnings("ignore:all_reduce. this rank is not in")
def test_a_sum_over_a_group(group) -> None:
    rank, size = group
    if size == 1:
        pytest.skip("takes two ranks")
    tensor = run(TUTORIAL / "all_reduce.py")["run"](rank, size)
    assert tensor.tolist() == [2.0 if rank < 2 else 1.0]


def test_a_collective_in_the_background(group) -> None:
    _, size = group
    output = run(TUTORIAL / "asynchronous.py")["output"]
    assert output.tolist() == [100 + sum(range(size))]
    assert output.device.startswith("cuda") == (BACKEND == "nccl")


@pytest.mark.parametrize("average", ["average_gradients", "average_gradients_by_ring"])
def test_mnist(group, data, average: str) -> None:
    rank, size = group
    if BACKEND == "nccl":
        pytest.skip("the tutorial's training is on the CPU")
    program = run(TUTORIAL / "mnist.py", IN_DOUBLE)
    losses, model = program["run"](
        rank, size, data, program[average], epochs=10 if average.endswith("gradients") else 2
    )
    plain = one_process(program, data, size, len(losses))
    for got, want in zip(model.parameters(), plain.parameters(), strict=True):
        np.testing.assert_allclose(got.numpy(), want.numpy(), atol=CLOSE)
    assert len(set(losses)) == len(losses)  # Something was learned in every pass.


def one_process(program: dict, data, size: int, epochs: int) -> nn.Module:
    """The same training by one process that has every rank's batches."""
    torch.manual_seed(1234)
    ToTensor, Normalize = program["transforms"].ToTensor, program["transforms"].Normalize
    prepare = program["transforms"].Compose([ToTensor(), Normalize((0.1307,), (0.3081,))])
    dataset = program["datasets"].MNIST(data, transform=prepare)
    parts = program["DataPartitioner"](dataset, [1 / size] * size)
    loaders = [DataLoader(parts.use(rank), 128 // size, shuffle=True) for rank in range(size)]
    model = program["Net"]().to(np.float64)
    update = optim.SGD(model.parameters(), lr=0.01, momentum=0.5)
    for _ in range(epochs):
        for batches in zip(*loaders, strict=True):
            update.zero_grad()
            for x, y in batches:
                (functional.nll_loss(model(x.double()), y) / size).backward()
            update.step()
    return model


def test_the_notes_ddp(no_group, tmp_path) -> None:
    double = [
        ("(n_sample, n_dim)", "(n_sample, n_dim).double()"),
        (".float()", ".double()"),
        ("SimpleModel(n_dim)", "SimpleModel(n_dim).to('float64')"),
    ]
    found = run(NOTES / "distributed_data_parallel.py", double, [tmp_path, f"--local_rank={GPU}"])
    rank, size = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    x, y = torch.randn(100, 10).double(), torch.randint(0, 2, (100,)).double()
    plain = nn.Linear(10, 1).to(np.float64)
    update = optim.SGD(plain.parameters(), lr=0.001)
    for epoch in range(100):
        samplers = [DistributedSampler(100, r, size) for r in range(size)]
        for sampler in samplers:
            sampler.set_epoch(epoch)
        shares = [sampler.indices() for sampler in samplers]
        for start in range(0, len(shares[0]), 25):
            rows = np.concatenate([share[start : start + 25] for share in shares])
            update.zero_grad()
            output = functional.sigmoid(plain(Tensor(x.numpy()[rows])))
            functional.binary_cross_entropy(output, Tensor(y.numpy()[rows][:, None])).backward()
            update.step()
    state = found["model"].module.state_dict()
    np.testing.assert_allclose(state["fc.weight"].numpy(), plain.weight.numpy(), atol=CLOSE)
    np.testing.assert_allclose(state["fc.bias"].numpy(), plain.bias.numpy(), atol=CLOSE)
    assert state["cnt"].item() == 100 * -(-len(shares[0]) // 25)
    saved = tmp_path / "99.ckpt"
    assert saved.exists() == (rank == 0)
    if rank == 0:
        loaded = torch.load(saved)
        assert loaded["fc.weight"].tolist() == state["fc.weight"].tolist()
        assert loaded["cnt"].item() == state["cnt"].item()
