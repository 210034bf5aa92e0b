"""The programs of VQNet's document, each beside what NumPy or one process makes of the same numbers."""

from pathlib import Path

import numpy as np
import pytest
from documents import BACKEND, CIRCUITS, HERE, run
from image_files import IMAGES

import qdist as qd
from qdist import optim
from qdist.data import ArrayDataset, DistributedSampler, cifar10, mnist
from qdist.data.transforms import CenterCrop, ChannelsFirst, Compose, Normalize, Resize
from qdist.interop import vqnet
from qdist.interop.vqnet import nn
from qdist.interop.vqnet.utils import initializer
from qdist.state import reference
from qdist.tensor import Tensor, functional, manual_seed

PROGRAMS = HERE / "vqnet"
CLOSE = 1e-10
NOT_FLOAT32 = [("kfloat32", "kfloat64")]
# A whole image has 256 x 256 pixels there, of which 224 x 224 are used: minutes on a small machine.
SMALLER = [
    ("num_steps = 1000", "num_steps = 2"),
    ("TransformResize(256)", "TransformResize(40)"),
    ("TransformCenterCrop(224)", "TransformCenterCrop(32)"),
    ("64 * 27 * 27", "64 * 3 * 3"),
    ('"train_batch_size": 64', '"train_batch_size": 8'),
    ('"train_micro_batch_size_per_gpu": 32', '"train_micro_batch_size_per_gpu": 4'),
    ('"epochs": 5', '"epochs": 2'),
    ("std=[0.229, 0.224, 0.225]),", "std=[0.229, 0.224, 0.225]), lambda image: image.astype('float64'),"),
]


@pytest.fixture(autouse=True)
def _double_precision(comm):
    vqnet.set_default_dtype(vqnet.kfloat64)
    yield
    vqnet.set_default_dtype(vqnet.kfloat32)
    comm.barrier()


def program(name: str, *arguments: Path, changes=()) -> dict:
    np.random.seed(vqnet.get_rank())
    return run(PROGRAMS / f"{name}.py", changes, arguments)


def everywhere(comm, values) -> np.ndarray:
    return np.stack(comm.all_gather_object(np.asarray(values)))


@pytest.mark.parametrize("name", ["ranks", "hosts"])
def test_every_rank_says_which_it_is(comm, capsys, name: str) -> None:
    program(name)
    said = capsys.readouterr().out
    assert f"rank: {comm.rank}, size {comm.size}" in said
    assert name == "ranks" or f"LocalRank {comm.local_rank} hosts name {comm.host}" in said


def test_controller(comm) -> None:
    found = program("controller")
    assert (found["rank"], found["size"], found["local_rank"]) == (comm.rank, comm.size, comm.local_rank)
    assert found["devices"] == comm.devices


def test_allreduce(comm) -> None:
    found = program("allreduce")
    np.testing.assert_allclose(found["num"].numpy(), everywhere(comm, found["before"]).sum(0), atol=CLOSE)


def test_reduce(comm) -> None:
    if comm.size == 1:
        pytest.skip("rank 1 is the root")
    found = program("reduce")
    mean = everywhere(comm, found["before"]).mean(0)
    np.testing.assert_allclose(found["num"].numpy(), mean if comm.rank == 1 else found["before"], atol=CLOSE)


def test_broadcast(comm) -> None:
    if comm.size == 1:
        pytest.skip("rank 1 is the root")
    found = program("broadcast")
    np.testing.assert_array_equal(found["num"].numpy(), everywhere(comm, found["before"])[1])


def test_allgather(comm) -> None:
    found = program("allgather")
    np.testing.assert_array_equal(found["num"].numpy(), np.concatenate(everywhere(comm, found["before"])))


def test_send_recv(comm) -> None:
    if comm.size == 1:
        pytest.skip("takes two ranks")
    found = program("send_recv")
    sent = everywhere(comm, found["num"].numpy())[0]
    np.testing.assert_array_equal(found["recv"].numpy(), sent * (comm.rank == 1))


def test_split_group(comm) -> None:
    if comm.size < 4:
        pytest.skip("takes four ranks")
    groups = program("split_group")["groups"]
    assert [ranks for _, ranks in groups] == [[0, 1], [2, 3]]
    assert comm.rank > 3 or groups[comm.rank // 2][0].rank == comm.rank % 2


@pytest.mark.parametrize("name", ["allreduce", "reduce", "broadcast"])
def test_groups_of_complex_numbers(comm, name: str) -> None:
    if comm.size != 2:
        pytest.skip("written for two ranks")
    found = program(f"{name}_group")["complex_data"]
    assert found.dtype == np.complex64
    assert found.device.startswith("cuda") == (BACKEND == "nccl")
    total = {"allreduce": [6 + 2j, 4, 3], "reduce": [6 + 2j, 4, 3], "broadcast": [3 + 1j, 2, 1]}[name]
    kept = [3 + 1j, 2, 2] if name == "reduce" and comm.rank == 1 else total
    np.testing.assert_allclose(found.numpy(), np.array(kept)[:, None])


@pytest.mark.parametrize("name", ["allgather_group", "allgather_group_split"])
def test_gathering_in_a_group(comm, name: str) -> None:
    if comm.size != 2:
        pytest.skip("written for two ranks")
    want = np.array([3 + 1j, 2, 1, 3 + 1j, 2, 2])[:, None]
    np.testing.assert_allclose(program(name)["complex_data"].numpy(), want)


def test_split_data(comm) -> None:
    np.random.seed(0)
    found = run(PROGRAMS / "split_data.py")
    lengths = everywhere(comm, len(found["x_train"]))
    assert lengths.sum() == 100
    assert len(found["y_train"]) == lengths[comm.rank]
    assert np.ptp(lengths) <= 1


def test_rank_numbers(comm, capsys) -> None:
    program("rank_numbers")
    assert capsys.readouterr().out.split() == [str(comm.local_rank), str(comm.rank)]


def test_init_group(comm) -> None:
    if comm.size < 3:
        pytest.skip("takes three ranks")
    found = program("init_group")
    before = everywhere(comm, found["before"])
    want = {0: before[0] + before[2], 2: before[0] + before[2]}.get(comm.rank, before[comm.rank])
    np.testing.assert_allclose(found["num"].numpy(), want, atol=CLOSE)


def test_the_circuit_over_ranks(comm) -> None:
    """DistributeQMachine and DistQuantumLayerAdjoint: value and gradient by the dense reference."""
    far = [('"global_qubit": 1', f'"global_qubit": {comm.size.bit_length() - 1}'), ("kcomplex64", "kcomplex128")]
    found = run(CIRCUITS / "vqnet_example.py", far)
    params = found["quantum_model"].params
    values = params.numpy()
    np.testing.assert_allclose(found["batch_y"].numpy(), np.full((2, 1), energy(values)), atol=CLOSE)
    assert params.device.startswith("cuda") == (BACKEND == "nccl")
    # Every angle's value is of the form a + b cos + c sin of it, or of its triple: differences by the exact gradient.
    step = 1e-5
    want = [(energy(values + d) - energy(values - d)) / (2 * step) for d in step * np.eye(10)]
    np.testing.assert_allclose(params.grad.numpy(), 2 * np.array(want), atol=1e-8)  # Both rows of the batch.


def energy(params: np.ndarray) -> float:
    """The example's expectation value by the reference."""
    circuit = qd.Circuit(10)
    for wire in range(10):
        circuit.rx(params[wire], wire).ry(params[3], wire).rz(params[4], wire)
    psi = reference.state(circuit.cx(0, 1))
    return float((psi.conj() * psi[np.arange(1024) ^ 32]).sum().real)


SIZES = ((784, 512), (512, 256), (256, 128), (128, 64), (64, 10))


def mnist_batches(data: Path) -> list[tuple[np.ndarray, np.ndarray]]:
    """Five passes over the images, as the programs make them."""
    images, labels = mnist(data)
    pixels = (images.astype(np.float32) / 255.0).reshape(-1, 784).astype(np.float64)
    return [(pixels[i : i + 64], labels[i : i + 64]) for _ in range(5) for i in range(0, IMAGES, 64)]


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


def test_zero(comm, data) -> None:
    found = run(CIRCUITS / "vqnet_zero.py", NOT_FLOAT32, [data])
    manual_seed(0)
    layers = [nn.Linear(a, b) for a, b in SIZES]
    plain = nn.Sequential(layers[0], nn.activation.ReLu(), *layers[1:])
    losses = train_plainly(plain, mnist_batches(data))
    assert found["loss"].item() == pytest.approx(losses[-1], rel=CLOSE)
    assert losses[-1] < 0.5 * losses[0]
    np.testing.assert_allclose(found["model"].state_dict()["fc5.weight"].numpy(), layers[4].weight.numpy(), atol=CLOSE)
    assert found["train_acc"] > 80


def test_tensor_parallel(comm, data) -> None:
    """As documented, the weights start standard normal and the biases at 0."""
    found = run(CIRCUITS / "vqnet_tensor_parallel.py", NOT_FLOAT32, [data])
    manual_seed(0)
    layers = [nn.Linear(a, b, initializer.normal, initializer.zeros) for a, b in SIZES]
    plain = nn.Sequential(layers[0], nn.activation.ReLu(), *layers[1:])
    losses = train_plainly(plain, mnist_batches(data))
    assert found["loss"].item() == pytest.approx(losses[-1], rel=CLOSE)
    whole_biases = 512 + 128 + 10  # Of the RowParallelLinears.
    numbers = sum(p.size for p in plain.parameters())
    assert found["total_params"] == (numbers - whole_biases) // comm.size + whole_biases


def test_pipeline(comm, data) -> None:
    if comm.size > 4:
        pytest.skip("two pipelines share a batch of eight")
    size = [("pipeline_parallel_size = 2", f"pipeline_parallel_size = {min(2, comm.size)}")]
    formats = ["cifar-10-batches-bin", "cifar-10-batches-py"]
    found = run(CIRCUITS / "vqnet_pipeline.py", SMALLER + size, [data / formats[comm.size % 2]])
    losses = train_plainly(convolutions(), cifar_batches(data))
    np.testing.assert_allclose(list(found["all_loss"].values()), losses, rtol=CLOSE)
    assert len(losses) == 4


def convolutions() -> nn.Module:
    manual_seed(0)
    channels = ((3, 8), (8, 16), (16, 32), (32, 64), (64, 64))
    convs = [nn.Conv2D(a, b, (3, 3), padding="same") for a, b in channels]
    pools = {0: (2, 2), 1: (2, 2), 4: (3, 2)}
    layers: list[nn.Module] = []
    for number, conv in enumerate(convs):
        pool = [nn.MaxPool2D(*pools[number])] if number in pools else []
        layers += [conv, nn.activation.ReLu(), *pool]
    relu = nn.activation.ReLu
    heads = [nn.Linear(576, 512), relu(), nn.Linear(512, 256), relu(), nn.Linear(256, 10)]
    return nn.Sequential(*layers, qd.nn.Flatten(), *heads)


def cifar_batches(data: Path) -> list[tuple[np.ndarray, np.ndarray]]:
    """The first four batches of eight in the order of the program's seed."""
    images, labels = cifar10(data / "cifar-10-batches-bin")
    normal = Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225])
    transform = Compose([Resize(40), CenterCrop(32), ChannelsFirst(), normal])
    batches = []
    for epoch in range(2):
        sampler = DistributedSampler(ArrayDataset(images, labels), 0, 1, seed=42)
        sampler.set_epoch(epoch)
        order = sampler.indices()
        for rows in (order[start : start + 8] for start in range(0, 20, 8)):
            pixels = np.stack([transform(images[i].transpose(1, 2, 0)) for i in rows])
            batches.append((pixels.astype(np.float64), labels[rows]))
    return batches[:4]
