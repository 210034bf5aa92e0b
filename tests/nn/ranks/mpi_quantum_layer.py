"""QuantumLayer with amplitudes and batch over ranks gives what one process gives; run on every rank at once."""

import numpy as np
import pytest

import qdist as qd
from qdist import nn, optim
from qdist.tensor import Tensor

QUBITS, BATCH = 8, 4
OBSERVABLES = ["Z0 Z7", {"X7": 0.5, "Y3": -1.0}, "Z4"]
X = qd.ParameterVector("x", QUBITS)
W = qd.ParameterVector("w", 2 * QUBITS)


@pytest.fixture(scope="session")
def comm() -> qd.comm.Communicator:
    return qd.comm.init(timeout=120)


@pytest.fixture(scope="session", params=["dp=4", "dp=2, state=2", "state=4", "communicator"])
def places(request, comm: qd.comm.Communicator) -> tuple[object, int, int]:
    """What a layer takes as comm, and this rank's share of the batch: its number and how many there are."""
    if request.param == "communicator":
        return comm, 0, 1
    degrees = {key: int(value) for key, value in (item.split("=") for item in request.param.split(", "))}
    mesh = qd.comm.Mesh(comm, **degrees)
    return (mesh, mesh["dp"].rank, mesh["dp"].size) if "dp" in mesh else (mesh, 0, 1)


def circuit() -> qd.Circuit:
    made = qd.Circuit(QUBITS)
    for q in range(QUBITS):
        made.rx(X[q], q).ry(W[q], q)
    for q in range(QUBITS):
        made.cx(q, (q + 1) % QUBITS).rz(W[QUBITS + q] + X[q], q)
    for q in range(0, QUBITS, 2):
        made.rzz(W[q], q, QUBITS - 1 - q).h(q)
    return made


def net(comm: object, seed: int) -> nn.QuantumLayer:
    return nn.QuantumLayer(circuit(), OBSERVABLES, X, W, comm=comm, dtype="complex128", seed=seed)


def training(comm: object, share: int, shares: int, steps: int = 3) -> tuple[list[float], np.ndarray]:
    """The losses of a few steps over the whole batch, and the weights after them."""
    rng = np.random.default_rng(5)
    data, goal = rng.normal(size=(BATCH, QUBITS)), rng.normal(size=(BATCH, len(OBSERVABLES)))
    rows = slice(BATCH * share // shares, BATCH * (share + 1) // shares)
    layer = net(comm, seed=1)
    optimizer = optim.SGD(layer.parameters(), lr=0.1)
    losses = []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = ((layer(Tensor(data[rows])) - Tensor(goal[rows])) ** 2).mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses, layer.weights.numpy().copy()


@pytest.fixture(scope="session")
def alone() -> tuple[list[float], np.ndarray]:
    return training(None, 0, 1)


def test_losses_and_weights_are_those_of_one_process(comm, places, alone) -> None:
    losses, weights = training(*places)
    want, want_weights = alone
    # Equal shares: the mean of the shares' losses is the loss of the whole batch.
    np.testing.assert_allclose(comm.all_reduce(np.array(losses), "avg"), want, rtol=1e-10)
    np.testing.assert_allclose(weights, want_weights, atol=1e-11)
    for other in comm.all_gather(weights):
        np.testing.assert_array_equal(weights, other)  # To the last bit: they never drift apart.


def test_one_row_runs_forward_once_and_what_one_rank_does_alone_changes_nothing(comm, places, monkeypatch) -> None:
    row = np.random.default_rng(6).normal(size=(1, QUBITS))
    want = net(None, seed=1)
    want(Tensor(row)).sum().backward()
    layer, mine = net(places[0], seed=1), net(None, seed=2)
    runs = []
    for name in ("run", "run_rows"):
        whole = getattr(qd.Program, name)
        counted = lambda *a, whole=whole, **k: runs.append(a[0].comm) or whole(*a, **k)  # noqa: E731
        monkeypatch.setattr(qd.Program, name, counted)
    out = layer(Tensor(row)).sum()
    if comm.rank == 0 and layer.program.comm is not None:
        mine(Tensor(row)).sum().backward()
    out.backward()
    assert runs.count(layer.program.comm) == 1
    np.testing.assert_allclose(layer.weights.grad.numpy(), want.weights.grad.numpy(), atol=1e-12)
    # Another forward takes the state's place: the first backward runs the circuit again.
    first, second = layer(Tensor(row)).sum(), layer(Tensor(2 * row)).sum()
    first.backward()
    second.backward()
    assert runs.count(layer.program.comm) == 5


def test_all_ranks_start_from_the_first_ranks_weights(comm, places) -> None:
    layer = net(places[0], seed=10 + comm.rank)
    np.testing.assert_array_equal(layer.weights.numpy(), net(None, seed=10).weights.numpy())


def test_a_mesh_without_a_known_axis_is_refused(comm) -> None:
    with pytest.raises(ValueError, match="neither an axis 'state'"):
        net(qd.comm.Mesh(comm, tp=-1), seed=0)
