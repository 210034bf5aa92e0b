"""Mixed precision on meshes: the losses of one process in that precision, near those of float32; run on every rank."""

from __future__ import annotations

import os
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from half_models import (
    BLOCKS,
    LENGTH,
    NEAR,
    PADDING,
    SAME,
    STEPS,
    TOKENS,
    alone,
    batches,
    build,
    spread,
    train,
)
from meshes import by_itself, share_of
from models import from_first

import qdist as qd
from qdist import nn, optim
from qdist.comm import Communicator, Mesh
from qdist.parallel import Plan, forecast_memory, load_plain, parallelize
from qdist.tensor import random
from qdist.tensor.arrays import as_dtype

SEQUENCE: dict[str, Any] = {"layers": {**BLOCKS, "3": "norm"}, "sequence_parallel": True}

SIZE = qd.comm.init(timeout=120).size

needs_bfloat16 = pytest.mark.skipif(find_spec("ml_dtypes") is None, reason="bfloat16 needs ml_dtypes")
HALVES = ["float16", pytest.param("bfloat16", marks=needs_bfloat16)]

Case = tuple[str, dict[str, int], dict[str, Any]]
CASES: dict[int, list[Case]] = {
    2: [
        ("gpt", {"dp": 2}, {}),
        ("gpt", {"dp": 2}, {"zero": 1}),
        ("gpt", {"dp": 2}, {"zero": 2}),
        ("gpt", {"dp": 2}, {"zero": 3, "recompute": ["1"]}),
        ("gpt", {"tp": 2}, SEQUENCE),
        ("gpt", {"cp": 2}, {"zero": 3}),
        ("gpt", {"pp": 2}, {"micro_batches": 2}),
        ("llama", {"tp": 2}, {}),
        ("llama", {"cp": 2}, {"recompute": ["1"]}),
        ("tied", {"pp": 2}, {"micro_batches": 3}),
        ("hybrid", {"dp": 2}, {"zero": 2}),
    ],
    4: [
        ("gpt", {"dp": 2, "tp": 2}, {"zero": 3}),
        ("gpt", {"cp": 2, "tp": 2}, SEQUENCE),
        ("gpt", {"dp": 2, "pp": 2}, {"micro_batches": 2, "zero": 1}),
        ("gpt", {"dp": 2, "pp": 2}, {"micro_batches": 2, "zero": 3}),
        ("llama", {"dp": 2, "cp": 2}, {"zero": 2}),
        ("tied", {"dp": 2, "pp": 2}, {"micro_batches": 2, "zero": 2}),
        ("gpt", {"pp": 4}, {"micro_batches": 4, "schedule": "f-then-b"}),
    ],
    8: [
        ("gpt", {"dp": 2, "tp": 2, "pp": 2}, {"micro_batches": 2, "zero": 1}),
        ("gpt", {"dp": 2, "cp": 2, "tp": 2}, {**SEQUENCE, "zero": 3}),
        ("llama", {"cp": 2, "pp": 2, "dp": 2}, {"micro_batches": 2}),
    ],
}


@pytest.fixture(scope="session")
def comm() -> Communicator:
    return qd.comm.init(timeout=120)


@pytest.fixture(scope="session")
def folder(comm: Communicator) -> Path:
    return Path(comm.broadcast_object(os.environ["QDIST_TEST_FOLDER"]))


def name_of(case: Case) -> str:
    return f"{case[0]}-{case[1]}-{case[2].get('zero', 0)}"


# Numbers of both kinds take the same ways; the first two meshes have the rows, the sequence and the weights divided.
IN_HALVES = [
    *(pytest.param(case, "float16", id=f"{name_of(case)}-float16") for case in CASES[SIZE]),
    *(
        pytest.param(
            case, "bfloat16", id=f"{name_of(case)}-bfloat16", marks=[needs_bfloat16, *[pytest.mark.thorough] * (k > 1)]
        )
        for k, case in enumerate(CASES[SIZE])
    ),
]


@pytest.mark.parametrize(("case", "half"), IN_HALVES)
def test_every_mesh_trains_as_one_process_in_half_precision(comm: Communicator, case: Case, half: str) -> None:
    kind, degrees, options = case
    model = spread(kind, Mesh(comm, **degrees), half, **options)
    losses = train(model)
    (own, values), (single, _) = alone(comm, kind, half), alone(comm, kind, None)
    np.testing.assert_allclose(losses, own, rtol=SAME[half])
    np.testing.assert_allclose(losses, single, rtol=NEAR[half])
    assert np.abs(np.subtract(own, single)).max() > 0  # The precision is not left aside.
    for name, value in model.state_dict().items():
        assert value.dtype == np.float32
        # Adam moves by its rate whatever the gradient's size: where that is rounding, steps may go either way.
        off = np.abs(value.numpy() - values[name])
        assert off.max() <= 2 * STEPS * 3e-3, name
        if name.endswith("qkv.bias"):
            queries, _, v = np.array_split(
                off, 3
            )  # Softmax does not see the biases of keys: their gradient is rounding.
            off = np.concatenate([queries, v])
        assert off.mean() < 1e-3, name
    evaluated = [model.eval_batch(x, y) for x, y in batches(model.mesh)]
    assert np.isfinite(evaluated).all()
    outputs = model.predict(batches(model.mesh)[0][0])
    assert outputs.dtype == np.float32
    assert model.skipped_steps == 0


@needs_bfloat16
def test_memory_counts_master_weights_and_halves_activations(comm: Communicator) -> None:
    mesh = Mesh(comm, dp=comm.size)
    x, y = batches(mesh)[0]
    found = {}
    for precision in (None, "bfloat16"):
        for zero in (0, 1, 3):
            model = spread("gpt", mesh, precision, zero=zero)
            model.backward(x, y)
            found[precision, zero] = model.memory()[comm.rank]
    psi = found[None, 0].parameters
    size = comm.size
    assert found["bfloat16", 0].parameters == psi  # They are the master copy.
    # Half precision of all, and a float32 copy of a part; parts are rounded up to whole elements.
    assert psi / 2 + psi / size <= found["bfloat16", 1].parameters < psi / 2 + psi / size + 400
    assert psi / size * 1.5 <= found["bfloat16", 3].parameters < psi / size * 1.5 + 1600
    for zero in (0, 1, 3):
        assert found["bfloat16", zero].optimizer == found[None, zero].optimizer
        assert found["bfloat16", zero].activations < 0.6 * found[None, zero].activations


@pytest.mark.parametrize("half", HALVES)
def test_checkpoints_keep_master_weights(comm: Communicator, folder: Path, half: str) -> None:
    """From ZeRO on "dp" to one without, and to a plain float32 model: bit by bit, and training goes on the same."""
    sharded = spread("gpt", Mesh(comm, dp=comm.size), half, zero=3)
    train(sharded)
    if sharded.loss_scale is not None:
        sharded.loss_scale.value = 1024.0
    path = folder / f"{half}{comm.size}.safetensors"
    sharded.save(path, "extra")
    whole = spread("gpt", Mesh(comm, tp=2, dp=comm.size // 2), half)
    plain = build("gpt")
    assert whole.load(path) == load_plain(path, plain) == "extra"
    want = {name: value.numpy() for name, value in sharded.state_dict().items()}
    for state in (whole.state_dict(), plain.state_dict()):
        for name, value in state.items():
            np.testing.assert_array_equal(value.numpy(), want[name], err_msg=name)
    assert any((value != value.astype(as_dtype(half)).astype(np.float32)).any() for value in want.values())
    assert whole.loss_scale is None or whole.loss_scale.value == 1024.0
    np.testing.assert_allclose(train(whole), train(sharded), rtol=SAME[half])


# The parts of ZeRO in bfloat16 are as those in float16, and as the checkpoints' above.
@pytest.mark.parametrize(
    ("half", "zero"),
    [
        *[("float16", zero) for zero in (0, 1, 3)],
        pytest.param("bfloat16", 0, marks=needs_bfloat16),
        *[pytest.param("bfloat16", zero, marks=[needs_bfloat16, pytest.mark.thorough]) for zero in (1, 3)],
    ],
)
def test_what_is_not_trained_keeps_its_own_values(comm: Communicator, folder: Path, half: str, zero: int) -> None:
    """The model has it in half precision, states and files as it was; and what is loaded in its place."""

    def made(seed: int = 0) -> nn.Module:
        model = build("gpt")
        for number in (1, 3):
            for parameter in model[number].parameters():
                parameter.requires_grad_(False)
                parameter.assign(parameter.numpy() + np.float32(1e-4 * seed))
        return model

    def frozen(state: dict[str, Any]) -> dict[str, np.ndarray]:
        return {name: value.numpy() for name, value in state.items() if name[0] in "13"}

    mesh = Mesh(comm, dp=comm.size)
    plan = Plan(positions=["0.wpe.weight"], precision=half, seed=3, zero=zero)
    options: dict[str, Any] = {"optimizer": optim.AdamW, "loss": nn.CrossEntropyLoss(ignore_index=PADDING)}
    model, other = (parallelize(made(seed), mesh, plan, **options) for seed in (0, 1))
    losses = train(model)
    plainly = parallelize(made(), mesh, Plan(positions=["0.wpe.weight"], precision=half, seed=3), **options)
    np.testing.assert_allclose(losses, train(plainly), rtol=SAME[half])
    want = frozen(made().state_dict())
    model.save(folder / f"frozen-{half}-{zero}")
    other.load(folder / f"frozen-{half}-{zero}")
    plain = build("gpt")
    load_plain(folder / f"frozen-{half}-{zero}", plain)
    for state in (model.state_dict(), other.state_dict(), plain.state_dict()):
        for name, value in frozen(state).items():
            assert value.dtype == np.float32
            np.testing.assert_array_equal(value, want[name], err_msg=name)
    x, y = (np.concatenate(parts)[:4] for parts in zip(*batches(mesh)))
    assert model.eval_batch(x, y) == pytest.approx(other.eval_batch(x, y), rel=1e-6)
    foreseen = forecast_memory(made(), mesh.shape, plan, **options, inputs=x, targets=y)
    assert [memory[:3] for memory in model.memory()] == [memory[:3] for memory in foreseen]


MESHES: dict[int, list[tuple[dict[str, int], dict[str, Any]]]] = {
    2: [({"dp": 2}, {}), ({"dp": 2}, {"zero": 2}), ({"pp": 2}, {"micro_batches": 2}), ({"tp": 2}, {})],
    4: [({"dp": 2, "pp": 2}, {"micro_batches": 2, "zero": 1}), ({"dp": 2, "tp": 2}, {"zero": 3})],
    8: [({"dp": 2, "tp": 2, "pp": 2}, {"micro_batches": 2})],
}


@pytest.mark.parametrize("mesh", MESHES[SIZE], ids=str)
def test_overflow_anywhere_leaves_out_the_step_everywhere(comm: Communicator, mesh: Any) -> None:
    """The last row of the batch, which one rank of "dp" has, overflows float16."""
    degrees, options = mesh
    random.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 8), nn.Linear(8, 2))
    layers = {"0": "column", "2": "row"} if degrees.get("tp", 1) > 1 else {}
    plan = Plan(layers, precision="float16", loss_scale=2.0**10, **options)
    trained = parallelize(
        model, Mesh(comm, **degrees), plan, optimizer=lambda ps: optim.SGD(ps, lr=0.1), loss=nn.MSELoss()
    )
    x, y = np.ones((4, 6), np.float32), np.zeros((4, 2), np.float32)
    mine = share_of(trained.mesh, x, y)
    before = {name: value.numpy().copy() for name, value in trained.state_dict().items()}
    broken = y.copy()
    broken[-1] = 1e6  # Its gradient times the scale is beyond float16.
    trained.backward(*share_of(trained.mesh, x, broken))
    assert trained.step(max_norm=1.0) == np.inf
    assert trained.loss_scale is not None
    for name, value in trained.state_dict().items():
        np.testing.assert_array_equal(value.numpy(), before[name])
    assert not any(np.any(g) for g in trained.gradients().values())
    trained.backward(*mine)
    norm = trained.step(max_norm=1e6)
    assert norm is not None
    assert 0 < norm < 100  # Not the scaled loss's.
    assert any((value.numpy() != before[name]).any() for name, value in trained.state_dict().items())
    told = comm.all_gather_object((trained.loss_scale.value, trained.skipped_steps))
    assert told == [(512.0, 1)] * comm.size


def test_what_does_not_go_together_is_refused(comm: Communicator) -> None:
    mesh = Mesh(comm, dp=comm.size)
    with pytest.raises(ValueError, match=r"precision='int8': use \"bfloat16\", \"float16\""):
        spread("gpt", mesh, "int8")
    with pytest.raises(ValueError, match=r"loss_scale=8.0 is for precision=\"float16\""):
        spread("gpt", mesh, None, loss_scale=8.0)
    double = nn.Sequential(nn.Linear(3, 2, dtype=np.float64))
    with pytest.raises(ValueError, match=r"needs a float32 model.*0.weight \(float64\)"):
        parallelize(
            double, mesh, Plan(precision="float16"), optimizer=lambda ps: optim.SGD(ps, lr=0.1), loss=nn.MSELoss()
        )


STEPS_DOWN = 7
SKIPPING: dict[int, list[Case]] = {
    2: [
        ("gpt", {"pp": 2}, {"micro_batches": 3}),
        ("gpt", {"dp": 2}, {"zero": 2}),
        ("gpt", {"cp": 2}, {}),
        ("llama", {"tp": 2}, {}),
    ],
    4: [
        ("gpt", {"dp": 2, "pp": 2}, {"micro_batches": 2}),
        ("llama", {"cp": 2, "pp": 2}, {"micro_batches": 2, "zero": 1}),
    ],
    8: [("gpt", {"dp": 2, "tp": 2, "pp": 2}, {"micro_batches": 2, "zero": 1})],
}


@pytest.mark.parametrize("case", SKIPPING[SIZE], ids=str)
def test_the_steps_that_one_process_leaves_out_are_left_out(comm: Communicator, case: Case) -> None:
    """From a scale far beyond what float16 holds down to one that fits, halved at every step."""
    kind, degrees, options = case

    def scales(mesh: Mesh, **how: Any) -> list[float]:
        # No power of two: then no gradient is as large as the largest number.
        model = spread(kind, mesh, "float16", loss_scale=1.3 * 2.0**26, **how)
        found = []
        for step in range(STEPS_DOWN):
            model.backward(*batches(mesh)[step % STEPS], weight=0.5)
            model.step()
            assert model.loss_scale is not None
            found.append(model.loss_scale.value)
        assert 1 < model.skipped_steps < STEPS_DOWN - 1
        return found

    own = by_itself(comm)
    assert scales(Mesh(comm, **degrees), **options) == from_first(lambda: scales(own))


@pytest.mark.parametrize("case", CASES[SIZE], ids=name_of)
def test_memory_is_foreseen(comm: Communicator, case: Case) -> None:
    kind, degrees, options = case
    model = spread(kind, Mesh(comm, **degrees), "float16", **options)
    tokens = np.random.default_rng(5).integers(1, TOKENS, (6, LENGTH + 1))
    x, y = tokens[:, :-1], tokens[:, 1:]
    model.train_batch(x, y)
    foreseen = forecast_memory(
        build(kind),
        degrees,
        model.plan,
        optimizer=lambda ps: optim.AdamW(ps, lr=3e-3),
        loss=nn.CrossEntropyLoss(ignore_index=PADDING),
        inputs=x,
        targets=y,
    )
    assert model.memory() == foreseen
