"""Models on meshes: pieces of the sweep, and what a step sends on a thousand ranks.

`python tests/parallel/sweep.py` compares all meshes of up to eight ranks with one process; it takes long.
"""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from qdist import nn, optim
from qdist.comm import Mesh, Message, counting_communicator, world
from qdist.parallel import ParallelModel, Pipeline, Plan, mesh_generator, parallelize


def sweep(ranks: int, group: str) -> str:
    command = [sys.executable, str(Path(__file__).parents[1] / "sweep.py"), "--ranks", str(ranks), "--only", group]
    done = subprocess.run(command, capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return done.stdout


def test_a_piece_of_the_sweep() -> None:
    told = sweep(3, "mlp-3")
    # Data, tensor and pipeline parallel, the last in four schedules, each with and without recomputation.
    assert "ranks=3 cases=mlp-3 equal=12 differ=0 refused=4" in told
    assert "2 cp without attention, 2 state without a circuit" in told


def test_layers_of_today_and_hooks_train_as_in_one_process_or_are_refused() -> None:
    told = sweep(2, "layers")
    # Five kinds of layers on dp, tp and pp with ZeRO 0 to 3, but for batch norms in micro-batches.
    assert "ranks=2 cases=layers equal=52 differ=0 refused=4" in told
    assert "4 hooks on a divided layer" in told


ROWS, DP, TP = 6, 128, 8


def spread(mesh: Mesh, zero: int) -> ParallelModel:
    model = nn.Sequential(
        nn.Linear(12, 32, dtype=np.float64),
        nn.Tanh(),
        nn.Linear(32, 32, dtype=np.float64),
        nn.Linear(32, 16, dtype=np.float64),
        nn.Linear(16, 5, dtype=np.float64),
    )
    plan = Plan({"0": "column", "2": "row", "3": "column", "4": "row"}, zero=zero)
    return parallelize(model, mesh, plan, optimizer=lambda ps: optim.SGD(ps, lr=0.1), loss=nn.MSELoss())


def large(messages: list[Message]) -> list[tuple[str, int]]:
    """Without the few numbers that say how many rows there are, which parameters are used and what the loss is."""
    return [(message.op, message.bytes) for message in messages if message.bytes > 16]


@pytest.mark.parametrize("zero", [0, 2])
def test_a_step_on_a_thousand_ranks_sends_what_the_books_say(zero: int) -> None:
    mesh = Mesh(counting_communicator(DP * TP), dp=DP, tp=TP)
    trained = spread(mesh, zero)
    own = (4 * 12 + 4) + (32 * 4 + 32) + (2 * 32 + 2) + (5 * 2 + 5)
    assert sum(p.size for p in trained.module.parameters()) == own
    with mesh["dp"].recording() as over_dp, mesh["tp"].recording() as over_tp:
        trained.train_batch(np.ones((ROWS, 12)), np.ones((ROWS, 5)))
    # Megatron: one sum a pair of layers forward, and one backward where the input wants a gradient.
    assert large(over_tp) == [("all_reduce", 8 * ROWS * size) for size in (32, 5, 32)]
    if zero == 0:
        assert large(over_dp) == [("all_reduce", 8 * own)]
    else:
        # Padded to a multiple of the ranks; every rank keeps a 128th.
        part = -(-own // DP)
        assert large(over_dp) == [("reduce_scatter", 8 * DP * part), ("all_gather", 8 * part)]


@pytest.mark.parametrize("zero", [0, 1])
def test_a_parameter_that_is_thawed_later_is_not_left_as_it_is_without_a_word(zero: int) -> None:
    model = nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 1))
    model[0].weight.requires_grad_(False)
    mesh = Mesh(counting_communicator(1), dp=1)
    trained = parallelize(model, mesh, Plan(zero=zero), optimizer=optim.SGD, loss=nn.MSELoss())
    x, y = np.ones((4, 2), np.float32), np.ones((4, 1), np.float32)
    trained.train_batch(x, y)
    model[0].weight.requires_grad_(True)
    with pytest.raises(ValueError, match=r"'0.weight' was frozen when the optimiser was made.*thaw it before"):
        trained.train_batch(x, y)


@pytest.mark.parametrize("zero", [0, 2, 3])
def test_a_parameter_that_is_frozen_later_stays_as_it_is(zero: int) -> None:
    model = nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 1))
    mesh = Mesh(counting_communicator(1), dp=1)
    trained = parallelize(model, mesh, Plan(zero=zero), optimizer=optim.SGD, loss=nn.MSELoss())
    x, y = np.ones((4, 2), np.float32), np.ones((4, 1), np.float32)
    trained.train_batch(x, y)
    before = trained.state_dict()
    trained.module[0].weight.requires_grad_(False)
    trained.train_batch(x, y)
    trained.train_batch(x, y)
    for name, value in trained.state_dict().items():
        assert np.array_equal(value.numpy(), before[name].numpy()) == (name == "0.weight")


def test_generators_differ_along_the_axes_that_are_named() -> None:
    def drawn(rank: int, *different: str) -> list[float]:
        mesh = Mesh(counting_communicator(8, rank=rank), dp=2, pp=2, tp=2)
        return mesh_generator(mesh, 5, different or None).uniform((4,)).tolist()

    by_default = [drawn(rank) for rank in range(8)]
    assert by_default[0] == by_default[1] == by_default[2] == by_default[3]
    assert by_default[4] == by_default[5] == by_default[6] == by_default[7] != by_default[0]
    named = [drawn(rank, "tp", "dp") for rank in range(8)]
    assert [named.index(one) for one in named] == [0, 1, 0, 1, 4, 5, 4, 5]


def test_what_is_no_mesh_or_loss_is_named():
    net, comm = nn.Linear(2, 2), world()
    with pytest.raises(TypeError, match=r"such as Mesh\(comm, dp=2\), not Communicator"):
        parallelize(net, comm, optimizer=optim.SGD, loss=nn.MSELoss())
    with pytest.raises(TypeError, match=r"loss is a function .*, not 'mse'"):
        parallelize(net, Mesh(comm, dp=1), optimizer=optim.SGD, loss="mse")
    with pytest.raises(TypeError, match=r"loss is a function .*, not 'mse'"):
        Pipeline([net], "mse", comm, micro_batches=1)
