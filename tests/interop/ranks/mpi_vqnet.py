"""VQNet's collectives on four ranks; run on every rank at once."""

import numpy as np
import pytest

from qdist.interop.vqnet import (
    CommController,
    QTensor,
    get_host_name,
    get_local_rank,
    get_rank,
    init_group,
    nn,
    split_data,
    tensor,
)

SIZE = 4
FACTORS = np.arange(1.0, SIZE + 1)


@pytest.fixture(scope="session")
def controller() -> CommController:
    return CommController("mpi")


def mine(controller: CommController) -> QTensor:
    """A row that tells the ranks apart: rank + 1 times 0, 1, 2."""
    return tensor.to_tensor((controller.getRank() + 1.0) * np.arange(3.0)[None])


def test_who_is_where(controller) -> None:
    assert controller.getSize() == SIZE
    assert controller.getRank() == get_rank()
    assert controller.getLocalRank() == get_local_rank()
    assert controller.get_device_num() >= 0
    assert get_host_name()
    ranks = controller.allgather(QTensor([float(get_rank())]))
    assert ranks.tolist() == [0, 1, 2, 3]
    controller.barrier()


@pytest.mark.parametrize(
    ("c_op", "factor"), [("avg", FACTORS.mean()), ("sum", FACTORS.sum()), ("max", SIZE), ("min", 1.0)]
)
def test_allreduce_in_place(controller, c_op: str, factor: float) -> None:
    x = mine(controller)
    controller.allreduce(x, c_op)
    np.testing.assert_allclose(x.numpy(), factor * np.arange(3.0)[None])


def test_the_default_reduction_is_the_mean(controller) -> None:
    x, y = mine(controller), mine(controller)
    controller.allreduce(x)
    controller.reduce(y, 1)
    np.testing.assert_allclose(x.numpy(), FACTORS.mean() * np.arange(3.0)[None])
    kept = FACTORS.mean() if get_rank() == 1 else FACTORS[get_rank()]
    np.testing.assert_allclose(y.numpy(), kept * np.arange(3.0)[None])


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int64, np.uint64])
def test_the_average_of_integers(controller, dtype) -> None:
    own = np.array([[get_rank() + 1, 120, 7 * (get_rank() == 0)]]).astype(dtype)
    mean = [FACTORS.sum() // SIZE, 120, 1]
    x, y = tensor.to_tensor(own.copy()), tensor.to_tensor(own.copy())
    controller.allreduce(x)
    controller.reduce(y, 1, "avg")
    assert (x.dtype, x.tolist()) == (dtype, [mean])
    assert y.tolist() == ([mean] if get_rank() == 1 else own.tolist())
    if np.dtype(dtype).kind == "i":
        z = tensor.to_tensor(-own)
        controller.allreduce(z)
        assert z.tolist() == [[-m for m in mean]]


@pytest.mark.parametrize(
    ("dtype", "values"),
    [
        (np.int64, [(2**63 - 1, 2**63 - 3, 2**63 - 1, 2**63 - 2), (-(2**63), -(2**63), 1 - 2**63, -5), (-1, 0, -1, 1)]),
        (np.uint64, [(2**64 - 1, 2**64 - 1, 2**64 - 4, 0), (1, 1, 1, 0)]),
        (np.int8, [(-128, -128, -127, -128), (127, 127, 126, 127)]),
    ],
)
def test_the_average_of_large_integers(controller, dtype, values) -> None:
    x = tensor.to_tensor(np.array([row[get_rank()] for row in values], dtype))
    y = tensor.to_tensor(np.array(values[0][get_rank()], dtype))
    controller.allreduce(x)
    controller.reduce(y)
    means = [abs(sum(row)) // SIZE * (1 if sum(row) > 0 else -1) for row in values]
    assert (x.dtype, x.tolist()) == (dtype, means)
    assert y.item() == (means[0] if get_rank() == 0 else values[0][get_rank()])


@pytest.mark.parametrize("shape", [(), (0,), (3, 0), (0, 2), (2, 0, 3), (2, 3)])
def test_tensors_of_any_shape_are_gathered(controller, shape: tuple[int, ...]) -> None:
    for group, size in ((None, SIZE), (controller.split_group([[0, 1], [2, 3]])[get_rank() // 2], 2)):
        gathered = controller.allgather_group(tensor.to_tensor(np.full(shape, get_rank())), group)
        ranks = range(SIZE) if group is None else group[1]
        rows = [np.full(shape, rank) for rank in ranks]
        np.testing.assert_array_equal(gathered.numpy(), np.concatenate(rows) if shape else rows)
        assert gathered.shape == ((size * shape[0], *shape[1:]) if shape else (size,))


def test_broadcast_and_allgather(controller) -> None:
    x = mine(controller)
    gathered = controller.allgather(x)
    np.testing.assert_array_equal(gathered.numpy(), FACTORS[:, None] * np.arange(3.0))
    controller.broadcast(x, 1)
    np.testing.assert_array_equal(x.numpy(), 2 * np.arange(3.0)[None])


def test_send_and_recv(controller) -> None:
    x = mine(controller)
    got = tensor.zeros_like(x)
    if get_rank() == 0:
        controller.send(x, 1)
    elif get_rank() == 1:
        controller.recv(got, 0)
    np.testing.assert_array_equal(got.numpy(), np.arange(3.0)[None] * (get_rank() == 1))


def test_groups_reduce_among_themselves(controller) -> None:
    groups = controller.split_group([[0, 1], [2, 3]])
    own = groups[get_rank() // 2]
    assert [ranks for _, ranks in groups] == [[0, 1], [2, 3]]
    z = QTensor([3 + 1j, 2, 1 + get_rank()], dtype=8).reshape((3, 1))
    controller.allreduce_group(z, c_op="sum", group=own)
    np.testing.assert_allclose(z.numpy().ravel(), [6 + 2j, 4, 2 + sum(own[1])])
    x = mine(controller)
    controller.broadcast_group(x, group=own[0])
    np.testing.assert_array_equal(x.numpy(), (own[1][0] + 1) * np.arange(3.0)[None])
    gathered = controller.all_gather_group(mine(controller), own[0])
    np.testing.assert_array_equal(gathered.numpy(), FACTORS[own[1]][:, None] * np.arange(3.0))
    y = mine(controller)
    controller.reduce_group(y, root=1, c_op="sum", group=own)
    whole = FACTORS[own[1]].sum() if get_rank() == own[1][1] else FACTORS[get_rank()]
    np.testing.assert_allclose(y.numpy(), whole * np.arange(3.0)[None])
    for wrong in ([0, 1], 3):
        with pytest.raises(TypeError, match="give what split_group or init_group gave"):
            controller.allreduce_group(y, group=wrong)
    with pytest.raises(ValueError, match=f"rank {get_rank()} is not in the group"):
        controller.allreduce_group(y, group=groups[1 - get_rank() // 2])


def test_init_group_leaves_ranks_out(controller) -> None:
    x = mine(controller)
    for comm, ranks in init_group([[0, 2], [1]]):
        if get_rank() in ranks:
            controller.allreduce_group(x, "sum", group=comm)
    factor = {0: 4.0, 1: 2.0, 2: 4.0, 3: 4.0}[get_rank()]
    np.testing.assert_allclose(x.numpy(), factor * np.arange(3.0)[None])


def test_model_parameters_become_those_of_the_root(controller) -> None:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b = nn.Parameter([2]), nn.Parameter([1, 3])

    model = Model()
    for parameter in model.parameters():
        parameter.init_from_tensor(np.full(parameter.shape, float(get_rank())))
    controller.broadcast_model_params(model, 2)
    assert model.a.tolist() == [2.0, 2.0]
    assert model.b.tolist() == [[2.0, 2.0, 2.0]]
    assert model.a.requires_grad


@pytest.mark.parametrize("shuffle", [False, True])
def test_split_data_gives_every_sample_to_one_rank(controller, shuffle: bool) -> None:
    x, y = np.arange(20).reshape(10, 2), np.arange(10)
    own_x, own_y = split_data(x, y, shuffle)
    np.testing.assert_array_equal(own_x, x[own_y])
    everyone = np.concatenate(controller.comm.all_gather_object(own_y)).tolist()
    assert sorted(everyone) == list(range(10))
    assert shuffle != (everyone == list(range(10)))
