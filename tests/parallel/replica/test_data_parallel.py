"""DataParallel without other ranks: what is sent and when, names, and what is refused."""

from itertools import pairwise

import numpy as np
import pytest

import qdist as qd
from qdist import nn
from qdist.comm import counting_communicator
from qdist.parallel import DataParallel, SyncBatchNorm, average_gradients, on_local_devices, share_rows
from qdist.tensor import Tensor, checkpoint, computing_in, grad, manual_seed, no_grad


def net(widths: tuple[int, ...] = (6, 8, 8, 4)) -> nn.Sequential:
    return nn.Sequential(*(nn.Linear(a, b) for a, b in pairwise(widths)))


def rows(count: int = 3) -> Tensor:
    return Tensor(np.ones((count, 6), np.float32))


@pytest.mark.parametrize("size", [2, 3, 8, 1024])
@pytest.mark.parametrize("bucket_bytes", [1, 200, 1 << 20])
def test_bytes_of_a_step_are_those_of_a_ring_all_reduce(size: int, bucket_bytes: int) -> None:
    comm = counting_communicator(size)
    model = DataParallel(net(), comm, bucket_bytes=bucket_bytes)
    parameters = list(model.parameters())
    psi = sum(p.size for p in parameters)
    comm.messages.clear()
    model(rows()).mean().backward()
    # The gradients, once; how many values the loss is a mean over (16 bytes) and whether each parameter was used (a
    # byte) travel with them, and the rows and the random generator of every rank (32 bytes).
    payload = 4 * psi + 16 + len(parameters)
    wire = 2 * (size - 1) / size * payload + 32 * (size - 1)
    assert sum(m.wire_bytes for m in comm.messages) == pytest.approx(wire, rel=1e-12)
    assert {m.op for m in comm.messages if m.bytes > 32} == {"all_reduce"}
    comm.messages.clear()
    with model.no_sync():
        model(rows()).mean().backward()
    assert [m.bytes for m in comm.messages] == [32, 16]
    comm.messages.clear()
    with no_grad():
        model(rows())
    assert comm.messages == []


def test_buckets_are_sent_while_the_backward_pass_goes_on() -> None:
    comm = counting_communicator(4)
    model = DataParallel(net(), comm, bucket_bytes=160)
    model(rows())
    events: list[object] = []
    for name, p in model.named_parameters():
        p.register_hook(lambda _, name=name: events.append(name))
    all_reduce = comm.all_reduce
    comm.all_reduce = lambda x, *a, **k: (events.append(x.nbytes), all_reduce(x, *a, **k))[1]
    model(rows()).mean().backward()
    # Each layer's gradients are sent before the next layer's are computed, the last layer's together.
    third, second, first = ["2.weight", "2.bias", 144], ["1.weight", "1.bias", 32, 256], ["0.weight", "0.bias", 32, 192]
    # In the second pass, 16 bytes compare the parameters first; 16 say how many values the loss is a mean over.
    assert events == [16, 16, *third, *second, *first, 6]


def test_names_and_states_are_those_of_the_plain_model() -> None:
    manual_seed(3)
    plain = nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2))
    model = DataParallel(plain, counting_communicator(2))
    assert model.module is plain
    assert list(model.state_dict()) == list(plain.state_dict())
    assert [name for name, _ in model.named_parameters()] == [name for name, _ in plain.named_parameters()]
    assert not model.eval().module[1].training
    outer = nn.Sequential(nn.Flatten(), model)
    assert list(outer.state_dict()) == [f"1.{name}" for name in plain.state_dict()]
    state = {name: value.numpy() + 1 for name, value in plain.state_dict().items()}
    model.load_state_dict(state)
    np.testing.assert_array_equal(plain[0].weight.numpy(), state["0.weight"])


def test_frozen_and_thawed_parameters() -> None:
    comm = counting_communicator(2)
    model = DataParallel(net(), comm)
    model.module[0].requires_grad_(False)

    def sent() -> int:
        comm.messages.clear()
        model(rows()).mean().backward()
        return max(m.bytes for m in comm.messages)

    assert sent() == 4 * (72 + 36)
    model.module[0].requires_grad_(True)
    assert sent() == 4 * (56 + 72 + 36)


def test_one_rank_is_the_plain_model() -> None:
    manual_seed(0)
    plain = net()
    plain(rows()).mean().backward()
    want = [p.grad.numpy().copy() for p in plain.parameters()]
    plain.zero_grad()
    model = DataParallel(plain, qd.comm.init("solo"))
    model(rows()).mean().backward()
    average_gradients(model, model.comm)
    for p, g in zip(model.parameters(), want):
        np.testing.assert_array_equal(p.grad.numpy(), g)


def test_gradients_keep_their_memory_when_a_next_step_comes() -> None:
    model = DataParallel(net(), counting_communicator(2))
    model(rows()).mean().backward()
    kept = [p.grad for p in model.parameters()]
    values = [g.numpy().copy() for g in kept]
    model.zero_grad()
    (model(rows()) * 7).mean().backward()
    for g, value in zip(kept, values):
        np.testing.assert_array_equal(g.numpy(), value)


def test_buckets_are_used_again_when_nobody_has_their_gradients() -> None:
    model = DataParallel(net(), counting_communicator(2))
    places = set()
    for _ in range(3):
        model.zero_grad()
        model(rows()).mean().backward()
        places.add(next(model.parameters()).grad.data.ctypes.data)
    assert len(places) == 1


def test_half_precision_is_added_up_in_single_and_complex_as_it_is() -> None:
    comm = counting_communicator(2)
    half = DataParallel(nn.Linear(6, 2).to(np.float16), comm)
    comm.messages.clear()
    half(Tensor(np.ones((3, 6), np.float16))).mean().backward()
    assert [m.bytes for m in comm.messages] == [32, 16, 4 * 14, 2]
    assert half.module.weight.grad.dtype == np.float16
    phase = nn.Module()
    phase.z = nn.Parameter(np.array([1 + 2j, -0.5j]))
    phase.z.grad = Tensor(np.array([3 + 1j, 2j]))
    average_gradients(phase, comm)
    # The other rank brings nothing, so this is half of what was there.
    np.testing.assert_allclose(phase.z.grad.numpy(), [1.5 + 0.5j, 1j])


def test_grad_and_failed_passes_send_nothing_and_leave_nothing_behind() -> None:
    comm = counting_communicator(2)
    model = DataParallel(net(), comm, bucket_bytes=1)
    out = model(rows()).mean()
    comm.messages.clear()
    grad(out, [model.module[0].weight])
    assert comm.messages == []
    out = model(rows()).mean()
    remove = model.module[0].weight.register_hook(lambda g: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        out.backward()
    remove()
    model.zero_grad()
    comm.messages.clear()
    model(rows()).mean().backward()
    assert len(comm.messages) == 2 + 6 + 1


def test_recomputed_layers_are_averaged_once() -> None:
    """For a sum over two ranks, gradients are doubled before the mean is taken: by one hook, that must run once."""
    manual_seed(0)
    plain = net()
    plain(rows()).mean().backward()
    comm = counting_communicator(2)
    want = [p.grad.numpy().copy() for p in plain.parameters()]
    plain.zero_grad()
    model = DataParallel(plain, comm, reduction="sum")
    inner = plain[1].forward
    plain[1].forward = lambda x: checkpoint(inner, x)
    model(rows()).mean().backward()
    for p, g in zip(model.parameters(), want):
        np.testing.assert_allclose(p.grad.numpy(), g, rtol=1e-6)


def test_a_model_that_is_wrapped_again_is_averaged_once() -> None:
    plain, comm = net(), counting_communicator(2)
    first, second = DataParallel(plain, comm), DataParallel(plain, comm)

    def sent(model: DataParallel) -> int:
        comm.messages.clear()
        model(rows()).mean().backward()
        return len(comm.messages)

    assert [sent(model) for model in (first, second, first, first)] == [4, 4, 4 + 1, 4]  # 1 compares


def test_each_backward_pass_weights_by_the_rows_of_its_forward_pass() -> None:
    """Alone on a counting communicator, a rank has all rows: weight 2 for the mean of two."""
    manual_seed(0)
    model = DataParallel(net(), counting_communicator(2))
    early = model(rows(5)).mean()
    model._share.fix(0.5)
    late = model(rows(3)).mean()
    early.backward()
    first = [p.grad.numpy().copy() for p in model.parameters()]
    model.zero_grad()
    late.backward()
    for p, g in zip(model.parameters(), first):
        np.testing.assert_allclose(p.grad.numpy(), 4 * g, rtol=1e-6)


def test_what_is_refused() -> None:
    comm = counting_communicator(4)
    with pytest.raises(TypeError, match="takes a Module"):
        DataParallel(lambda x: x, comm)
    with pytest.raises(TypeError, match=r'mesh\["dp"\]'):
        DataParallel(net(), qd.comm.Mesh(comm, dp=4))
    with pytest.raises(ValueError, match="reduction='max'"):
        DataParallel(net(), comm, reduction="max")
    with pytest.raises(ValueError, match="bucket_bytes"):
        DataParallel(net(), comm, bucket_bytes=0)
    with pytest.raises(ValueError, match="rows must not be negative"):
        average_gradients(net(), comm, rows=-1)
    with pytest.raises(TypeError, match="not str"):
        share_rows(("text",), comm)
    with pytest.raises(ValueError, match="at least one"):
        on_local_devices(print, ranks=0)


def test_shares_hold_every_row_once() -> None:
    batch = {"x": np.arange(10), "y": [Tensor(np.arange(20).reshape(10, 2))]}
    parts = [share_rows(batch, counting_communicator(4, rank)) for rank in range(4)]
    assert sorted(len(p["x"]) for p in parts) == [2, 2, 3, 3]
    np.testing.assert_array_equal(np.concatenate([p["x"] for p in parts]), batch["x"])
    np.testing.assert_array_equal(np.concatenate([p["y"][0].numpy() for p in parts]), batch["y"][0].numpy())


def test_a_plain_script_trains_on_all_local_devices() -> None:
    def train(comm: qd.comm.Communicator, device: str, steps: int) -> tuple[int, list[np.ndarray]]:
        manual_seed(comm.rank)
        model = DataParallel(nn.Linear(6, 1, dtype=np.float64).to(device), comm)
        optimizer = qd.optim.SGD(model.parameters(), lr=0.1)
        x = np.arange(30.0).reshape(5, 6) / 30
        for _ in range(steps):
            optimizer.zero_grad()
            (model(Tensor(share_rows(x, comm), device=device)) ** 2).mean().backward()
            optimizer.step()
        return comm.size, [p.numpy() for p in model.parameters()]

    size, got = on_local_devices(train, 3, ranks=2, timeout=120)
    alone, want = train(qd.comm.init("solo"), "cpu", 3)
    assert (size, alone) == (2, 1)
    for a, b in zip(got, want):
        np.testing.assert_allclose(a, b, rtol=1e-12)


def test_sync_batch_norm_takes_every_place_of_a_shared_layer() -> None:
    shared = nn.BatchNorm1d(4)
    model = nn.Sequential(nn.Linear(3, 4), shared, nn.Sequential(nn.Tanh(), shared), nn.BatchNorm1d(4))
    names, comm = list(model.state_dict()), qd.comm.init("solo")
    assert SyncBatchNorm.convert(model, comm) is model
    assert isinstance(model[1], SyncBatchNorm)
    assert model[2][1] is model[1]
    assert isinstance(model[3], SyncBatchNorm)
    assert model[3] is not model[1]
    assert list(model.state_dict()) == names
    assert model[1].weight is shared.weight
    assert isinstance(SyncBatchNorm.convert(shared, comm), SyncBatchNorm)


@pytest.mark.parametrize("half", [None, "float16", "bfloat16"])
@pytest.mark.parametrize("stored", [False, True], ids=["mixed", "stored"])
def test_sync_batch_norm_has_float32_statistics_in_half_precision(half: str | None, stored: bool) -> None:
    if half == "bfloat16":
        pytest.importorskip("ml_dtypes")
    # Sums of a channel and a variance that float16 has no numbers for.
    x = np.random.default_rng(0).normal(40.0, [[[[2.0]], [[300.0]]]], (8, 2, 24, 24)).astype(np.float32)
    g = np.random.default_rng(1).normal(size=x.shape).astype(np.float32)
    x, g = (Tensor(a).to(half or "float32") for a in (x, g))
    found = []
    for layer in (nn.BatchNorm2d(2), SyncBatchNorm(2, comm=qd.comm.init("solo"))):
        if layer.__class__ is SyncBatchNorm and stored and half:
            for parameter in layer.parameters():
                parameter.convert(half)
        wide = layer.__class__ is nn.BatchNorm2d  # The reference: float32, of the same rounded numbers.
        given = Tensor((x.to("float32") if wide else x).numpy(), requires_grad=True)
        with computing_in(None if wide or stored else half):
            out = layer(given)
        assert wide or out.dtype == x.dtype
        out.backward((g.to("float32") if wide else g).numpy())
        grads = [given.grad, layer.weight.grad, layer.bias.grad]
        averages = [layer.running_mean, layer.running_var]
        assert [a.dtype for a in averages] == [np.float32] * 2
        found.append([[t.to("float64").numpy() for t in ts] for ts in ([out], grads, averages)])
    rounding = {None: 1e-5, "float16": 2e-3, "bfloat16": 2e-2}[half]
    for (want, got), tolerance in zip(zip(*found), (rounding, rounding, 1e-5)):
        for one, other in zip(want, got):
            np.testing.assert_allclose(other, one, rtol=tolerance, atol=tolerance * np.abs(one).max())
