"""QuantumLayer with amplitudes and batch over ranks gives what one process gives; run on every rank at once."""

import warnings

import numpy as np
import pytest

import qdist as qd
from qdist import nn, optim
from qdist.parallel import DataParallel, average_gradients, check_replicas, share_rows
from qdist.program.rows import RowPrograms
from qdist.tensor import Tensor, manual_seed

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
    runs = []
    for name in ("evolved", "run_rows"):
        whole = getattr(qd.Program, name)
        counted = lambda *a, whole=whole, **k: runs.append(a[0].comm) or whole(*a, **k)  # noqa: E731
        monkeypatch.setattr(qd.Program, name, counted)
    monkeypatch.setattr(RowPrograms, "unfit", "the test wants states")
    layer, mine = net(places[0], seed=1), net(None, seed=2)
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


def test_a_tiny_state_on_several_ranks_is_warned_of(comm, places) -> None:
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        layer = net(places[0], seed=0)
    told = [str(w.message) for w in found if "many times slower" in str(w.message)]
    shared = layer.program.comm
    assert len(told) == (shared is not None and shared.size > 1 and shared.rank == 0)
    assert all("axis 'dp'" in text for text in told)


def test_all_ranks_start_from_the_first_ranks_weights(comm, places) -> None:
    layer = net(places[0], seed=10 + comm.rank)
    np.testing.assert_array_equal(layer.weights.numpy(), net(None, seed=10).weights.numpy())


def test_a_mesh_without_a_known_axis_is_refused(comm) -> None:
    with pytest.raises(ValueError, match="neither an axis 'state'"):
        net(qd.comm.Mesh(comm, tp=-1), seed=0)


class Hybrid(nn.Module):
    """A circuit between linear layers, which rank 0 and one process start alike, and other ranks otherwise."""

    def __init__(self, comm: object, seed: int) -> None:
        super().__init__()
        manual_seed(seed)
        self.encode = nn.Linear(3, QUBITS, dtype=np.float64)
        self.quantum = net(comm, seed)
        self.decode = nn.Linear(len(OBSERVABLES), 2, dtype=np.float64)

    def forward(self, x: Tensor) -> Tensor:
        return self.decode(self.quantum(self.encode(x).tanh()))


def train_hybrid(model: nn.Module, rows: object = None, steps: int = 3) -> tuple[list[float], dict[str, np.ndarray]]:
    rng = np.random.default_rng(5)
    x, y = Tensor(rng.normal(size=(BATCH + 1, 3))), Tensor(rng.normal(size=(BATCH + 1, 2)))
    x, y = (x, y) if rows is None else share_rows((x, y), rows)
    optimizer = optim.Adam(model.parameters(), lr=0.05)
    losses = []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = ((model(x) - y) ** 2).mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item() * len(x) / (BATCH + 1))
    return losses, {name: value.numpy().copy() for name, value in model.state_dict().items()}


@pytest.mark.parametrize("degrees", [{"dp": 4, "state": 1}, {"dp": 2, "state": 2}, {"dp": 1, "state": 4}], ids=str)
def test_a_hybrid_net_trains_as_in_one_process_the_documented_way(comm, degrees) -> None:
    mesh = qd.comm.Mesh(comm, **degrees)
    model = DataParallel(Hybrid(mesh["state"], seed=comm.rank), mesh["dp"])
    losses, state = train_hybrid(model, mesh["dp"])
    want_losses, want = train_hybrid(Hybrid(None, seed=0))
    np.testing.assert_allclose(mesh["dp"].all_reduce(np.array(losses)), want_losses, rtol=1e-9)
    for name, value in state.items():
        np.testing.assert_allclose(value, want[name], atol=1e-10, err_msg=name)
    check_replicas(model, comm)


def test_a_head_that_nobody_averages_is_told(comm) -> None:
    mesh = qd.comm.Mesh(comm, dp=2, state=2)
    model = Hybrid(mesh, seed=0)
    way_out = r'(Linear\.weight|Linear\.bias) of shape .* on rank 0 and rank [23].*comm=mesh\["state"\].*DataParallel'
    with pytest.raises(ValueError, match=way_out):
        train_hybrid(model, mesh["dp"])
    with pytest.raises(ValueError, match=r"(encode|decode)\.(weight|bias) of shape .* on rank 0 and rank"):
        check_replicas(model, comm)
    check_replicas(model, mesh["state"])
    with pytest.raises(ValueError, match="Mesh dp=2, state=2"):
        average_gradients(model, mesh["dp"])


def test_heads_that_start_differently_beside_shared_amplitudes_are_told(comm) -> None:
    model = Hybrid(comm, seed=0)
    model.decode.bias.data[:] += 0.1 * comm.rank  # What the circuit gets, forward and backward, is equal everywhere.
    with pytest.raises(ValueError, match=r"Linear\.bias of shape \(2,\) has different values.*manual_seed"):
        model(Tensor(np.ones((1, 3)))).sum().backward()
    model = Hybrid(comm, seed=0)
    model.decode.weight.data[:] += 0.1 * comm.rank
    with pytest.raises(ValueError, match=r"rank 1 of 'world' has other cotangent values.* layers .*manual_seed"):
        train_hybrid(model, steps=1)


def test_rounding_is_no_disagreement(comm) -> None:
    model = Hybrid(comm, seed=0)
    model.decode.bias.data[:] *= 1 + 1e-15 * comm.rank
    model(Tensor(np.ones((1, 3)))).sum().backward()
    assert model.decode.bias.grad is not None


def test_replicas_that_one_rank_changed_are_told(comm) -> None:
    model = DataParallel(nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 1)), comm)
    x = Tensor(np.ones((2, 2), np.float32))
    model(x).mean().backward()
    if comm.rank == comm.size - 1:
        model.module[1].bias.data[:] += 1.0
    last = comm.size - 1
    with pytest.raises(ValueError, match=rf"^1\.bias of shape \(1,\) .* rank 0 and rank {last}.*same optimiser"):
        model(x)


def test_ranks_with_other_rows_draw_other_outcomes(comm, places) -> None:
    """Else their noise is one and the same, and the mean of their gradients is as noisy as each of them."""
    given, share, shares = places
    rows = np.random.default_rng(0).normal(size=(2, QUBITS))

    def drawn(where: object) -> np.ndarray:
        layer = nn.QuantumLayer(circuit(), OBSERVABLES, X, W, comm=where, dtype="complex128", seed=1, shots=40)
        return np.stack([layer(Tensor(rows)).numpy() for _ in range(2)])

    own, every = drawn(None), comm.all_gather_object((share, drawn(given)))
    for number, found in every:
        same = [other for other in every if other[0] == number]
        assert len(same) == comm.size // shares
        assert all(np.array_equal(found, other[1]) for other in same), "ranks that share a state"
        assert all(not np.array_equal(found, other[1]) for other in every if other[0] != number)
        assert np.array_equal(found, own) == (number == 0), "the first are those of one process"
