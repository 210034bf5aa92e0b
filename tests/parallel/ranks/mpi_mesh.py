"""Models on meshes train as in one process; run on every rank at once."""

from __future__ import annotations

from functools import partial
from typing import Any

import models
import numpy as np
import pytest
from meshes import LAYERS, STEPS, alone, assert_trains_as, loss, rows_of, spread
from models import F64, adam, assert_same, batch, build, sgd

import qdist as qd
from qdist import nn, optim
from qdist.comm import Communicator, Mesh
from qdist.parallel import (
    ColumnParallelLinear,
    Plan,
    clip_grad_norm_,
    forecast_memory,
    grad_norm,
    parallelize,
    seed_mesh,
    vocab_parallel_cross_entropy,
)
from qdist.tensor import Tensor, functional, random

SEQUENCE: dict[str, Any] = {
    "layers": {**LAYERS["transformer"], "3": "norm"},
    "sequence_parallel": True,
    "positions": ["0.places"],
}

# (model, degrees, options of the plan) for each number of ranks.
CASES: dict[int, list[tuple[str, dict[str, int], dict[str, Any]]]] = {
    2: [
        ("mlp", {"dp": 2}, {}),
        ("mlp", {"dp": 2}, {"zero": 3}),
        ("mlp", {"pp": 2}, {"micro_batches": 3}),
        ("cnn", {"dp": 2}, {"zero": 1}),
        ("cnn", {"tp": 2}, {}),
        ("cnn", {"pp": 2}, {"micro_batches": 2, "stages": "parameters"}),
        ("transformer", {"tp": 2}, SEQUENCE),
        ("transformer", {"cp": 2}, {"positions": ["0.pl*"]}),
        ("transformer", {"cp": 2}, {"positions": ["0.pl*"], "zero": 2}),
        ("wide", {"state": 2}, {}),
        ("hybrid", {"tp": 2}, {}),
        ("hybrid", {"pp": 2}, {"micro_batches": 2}),
    ],
    4: [
        ("mlp", {"pp": 2, "tp": 2}, {"schedule": "interleaved", "virtual_stages": 2, "micro_batches": 2}),
        ("cnn", {"dp": 2, "pp": 2}, {"micro_batches": 2, "zero": 1}),
        ("transformer", {"dp": 2, "tp": 2}, {"zero": 3, "recompute": ["1", "2.attention", "4"]}),
        ("transformer", {"cp": 2, "tp": 2}, SEQUENCE),
        ("transformer", {"dp": 2, "cp": 2}, {"positions": ["0.places"], "zero": 1}),
        ("transformer", {"pp": 2, "cp": 2}, {"positions": ["0.places"], "micro_batches": 3, "recompute": ["[0-2]"]}),
        ("wide", {"dp": 2, "state": 2}, {}),
        ("wide", {"pp": 2, "state": 2}, {"micro_batches": 2}),
    ],
    8: [
        ("mlp", {"dp": 2, "pp": 2, "tp": 2}, {"micro_batches": 2, "zero": 3}),
        ("transformer", {"dp": 2, "pp": 2, "tp": 2}, {**SEQUENCE, "micro_batches": 2}),
        ("transformer", {"dp": 2, "cp": 2, "tp": 2}, {**SEQUENCE, "zero": 2}),
        ("transformer", {"pp": 2, "cp": 2, "tp": 2}, {**SEQUENCE, "micro_batches": 2}),
        ("wide", {"dp": 2, "tp": 2, "state": 2}, {"zero": 1}),
    ],
}


@pytest.fixture(scope="session")
def comm() -> Communicator:
    return qd.comm.init(timeout=120)


def case_id(case: tuple[str, dict[str, int], dict[str, Any]]) -> str:
    name, degrees, options = case
    words = [name, *(f"{axis}{degree}" for axis, degree in degrees.items())]
    words += [f"zero{options['zero']}"] if "zero" in options else []
    return "-".join([*words, "sequence"] if "sequence_parallel" in options else words)


SIZE = qd.comm.init(timeout=120).size


@pytest.mark.parametrize("case", CASES[SIZE], ids=case_id)
def test_trains_as_one_process(comm, case) -> None:
    name, degrees, options = case
    mesh = Mesh(comm, **degrees)
    # Every rank draws other weights: the first rank's are taken.
    trained = spread(name, mesh, options, seed=comm.rank)
    batches = [rows_of(name, mesh, step) for step in range(STEPS)]
    assert_trains_as(alone(name, bool(options.get("zero"))), trained, batches)


CLIPPED = {2: ({"tp": 2}, 0), 4: ({"pp": 2, "tp": 2}, 0), 8: ({"dp": 2, "pp": 2, "tp": 2}, 2)}


def test_clipping_scales_as_in_one_process(comm) -> None:
    degrees, zero = CLIPPED[SIZE]
    mesh = Mesh(comm, **degrees)
    trained = spread("mlp", mesh, {"zero": zero, "micro_batches": 2})
    model = build("mlp")
    update = (adam if zero else sgd)(model.parameters())
    for step in range(2):
        trained.train_batch(*rows_of("mlp", mesh, step), max_norm=0.05)
        x, y = batch("mlp", step, 9)
        update.zero_grad()
        models.loss_of(model, x, y).backward()
        assert optim.clip_grad_norm_(model.parameters(), 0.05) > 0.05
        update.step()
    assert_same({n: t.numpy() for n, t in trained.state_dict().items()}, models.parameters_of(model))
    np.testing.assert_allclose(trained.eval_batch(x, y), models.loss_of(model, x, y).item(), rtol=1e-10)
    np.testing.assert_allclose(trained.predict(x).numpy(), model(Tensor(x)).numpy(), atol=1e-10)


@pytest.mark.skipif(SIZE != 4, reason="runs where there are 4 ranks, as test_parallel_on_ranks.py also starts")
@pytest.mark.parametrize(
    ("degrees", "options"),
    [({"dp": 2, "pp": 2}, {"micro_batches": 2}), ({"dp": 2, "cp": 2}, {"positions": ["0.places"], "zero": 2})],
)
def test_losses_may_be_sums(comm, degrees, options) -> None:
    mesh = Mesh(comm, **degrees)
    goal = nn.CrossEntropyLoss("sum")
    trained = parallelize(build("transformer"), mesh, Plan(**options), optimizer=adam, loss=goal)
    total = trained.backward(*rows_of("transformer", mesh, 0))
    model = build("transformer")
    x, y = batch("transformer", 0, 9)
    want = goal(model(Tensor(x)), Tensor(y))
    want.backward()
    np.testing.assert_allclose(total, want.item(), rtol=1e-10)
    assert_same(trained.gradients(), models.gradients_of(model))


@pytest.mark.skipif(SIZE != 4, reason="runs where there are 4 ranks, as test_parallel_on_ranks.py also starts")
@pytest.mark.parametrize(("degrees", "zero"), [({"dp": 2, "pp": 2}, 0), ({"dp": 2, "pp": 2}, 2)])
def test_several_passes_make_one_step(comm, degrees, zero: int) -> None:
    mesh = Mesh(comm, **degrees)
    trained = spread("mlp", mesh, {"zero": zero, "micro_batches": 2})
    model = build("mlp")
    for step in range(3):
        trained.backward(*rows_of("mlp", mesh, step))
        models.loss_of(model, *batch("mlp", step, 9)).backward()
    assert_same(trained.gradients(), models.gradients_of(model))


@pytest.mark.skipif(SIZE != 4, reason="runs where there are 4 ranks, as test_parallel_on_ranks.py also starts")
def test_the_loss_may_work_on_a_divided_vocabulary(comm) -> None:
    mesh = Mesh(comm, dp=2, tp=2)
    goal = partial(vocab_parallel_cross_entropy, comm=mesh["tp"])
    plan = Plan({**LAYERS["transformer"], "4": "column"})
    trained = parallelize(build("transformer"), mesh, plan, optimizer=sgd, loss=goal)
    losses = [trained.train_batch(*rows_of("transformer", mesh, step)) for step in range(STEPS)]
    want = alone("transformer", False)
    np.testing.assert_allclose(losses, want.losses, rtol=1e-10)
    assert_same({n: t.numpy() for n, t in trained.state_dict().items()}, want.parameters)


@pytest.mark.skipif(SIZE != 4, reason="runs where there are 4 ranks, as test_parallel_on_ranks.py also starts")
def test_norms_that_are_not_finite_raise_everywhere(comm) -> None:
    mesh = Mesh(comm, pp=2, tp=2)
    parameter = nn.Parameter(np.ones(2))
    parameter.grad = Tensor(np.full(2, np.nan if comm.rank == 3 else 1.0))
    over = [mesh["tp"], mesh["pp"]]
    with pytest.raises(RuntimeError, match="the gradient norm is nan"):
        clip_grad_norm_([parameter], 1.0, over=over)
    assert parameter.grad.tolist()[0] == 1.0 or comm.rank == 3
    with pytest.raises(ValueError, match="max_norm must be positive"):
        clip_grad_norm_([parameter], 0.0, over=over)
    parameter.grad = None if comm.rank == 1 else Tensor(np.full(2, 2.0))
    assert grad_norm([parameter], over=over) == pytest.approx(np.sqrt(3 * 8))


@pytest.mark.skipif(SIZE != 2, reason="runs where there are 2 ranks, as test_parallel_on_ranks.py also starts")
def test_frozen_parameters_stay_frozen(comm) -> None:
    def model() -> nn.Module:
        made = build("transformer")
        for frozen in (made[0].table, made[1].norm1, made[2].attention, made[3]):
            for parameter in frozen.parameters():
                parameter.requires_grad_(False)
        made[1].shrink.bias.requires_grad_(False)
        return made

    mesh = Mesh(comm, tp=2)
    trained = parallelize(model(), mesh, Plan(**SEQUENCE), optimizer=sgd, loss=loss)
    batches = [batch("transformer", step, 9) for step in range(STEPS)]
    assert_trains_as(models.train_plainly(model(), batches, sgd), trained, batches)


class Keeper(nn.Module):
    """A layer, and parameters that it does not use."""

    def __init__(self, layer: nn.Module, **kept: nn.Parameter) -> None:
        super().__init__()
        self.layer = layer
        for name, parameter in kept.items():
            setattr(self, name, parameter)

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(x)


@pytest.mark.skipif(SIZE != 2, reason="runs where there are 2 ranks, as test_parallel_on_ranks.py also starts")
@pytest.mark.parametrize("zero", [0, 3])
def test_stages_share_weights_that_one_of_them_or_none_uses(comm, zero: int) -> None:
    def model() -> nn.Sequential:
        random.manual_seed(0)
        first, last, idle = nn.Linear(12, 8, dtype=F64), nn.Linear(8, 5, dtype=F64), nn.Parameter(np.ones(3))
        return nn.Sequential(Keeper(first, idle=idle), nn.Tanh(), Keeper(last, idle=idle, used=first.weight))

    plan = Plan(zero=zero, micro_batches=2)
    trained = parallelize(model(), Mesh(comm, pp=2), plan, optimizer=sgd, loss=loss)
    batches = [batch("mlp", step, 9) for step in range(STEPS)]
    # What has no gradient is not moved by momentum or weight decay either.
    assert_trains_as(models.train_plainly(model(), batches, sgd), trained, batches)


# Seeds ---------------------------------------------------------------------------------------------------------------


@pytest.mark.skipif(SIZE != 2, reason="runs where there are 2 ranks, as test_parallel_on_ranks.py also starts")
@pytest.mark.parametrize(
    ("axis", "options"),
    [
        ("tp", {"layers": {"2": "block", "4": "column-gather"}}),
        ("tp", {"layers": {"0.table": "vocabulary", "1": "dropout", "2": "block", "3": "norm", "4": "column-gather"}}),
        ("cp", {}),
    ],
    ids=["tp", "sequence", "cp"],
)
def test_masks_are_those_of_one_process(comm, axis: str, options: dict[str, Any]) -> None:
    def model() -> nn.Module:
        random.manual_seed(0)
        block = nn.TransformerBlock(models.FEATURES, models.HEADS, 32, dropout=0.2, causal=True, dtype=F64)
        norm, head = nn.LayerNorm(models.FEATURES, dtype=F64), nn.Linear(models.FEATURES, models.VOCABULARY, dtype=F64)
        return nn.Sequential(models.Tokens(), nn.Dropout(0.3), block, norm, head)

    sequence = "1" in options.get("layers", {})
    plan = Plan(**options, sequence_parallel=sequence, positions=["0.places"])
    mesh = Mesh(comm, **{axis: 2})
    trained = parallelize(model(), mesh, plan, optimizer=sgd, loss=loss)
    seed_mesh(mesh, 3)
    got = [trained.train_batch(*batch("transformer", step, 4)) for step in range(2)]
    plain = model()
    update = sgd(plain.parameters())
    random.manual_seed(3)
    want = []
    for step in range(2):
        update.zero_grad()
        value = models.loss_of(plain, *batch("transformer", step, 4))
        value.backward()
        update.step()
        want.append(value.item())
    np.testing.assert_allclose(got, want, rtol=1e-10)


@pytest.mark.skipif(SIZE != 4, reason="runs where there are 4 ranks, as test_parallel_on_ranks.py also starts")
def test_dropout_differs_over_dp_and_agrees_over_tp(comm) -> None:
    mesh = Mesh(comm, dp=2, tp=2)

    def masks(**options: Any) -> list[bytes]:
        seed_mesh(mesh, 7, **options)
        mask = functional.dropout(Tensor(np.ones((8, 8))), 0.5)
        return comm.all_gather_object(mask.numpy().tobytes())

    a, b, c, d = masks()
    assert a == b
    assert c == d
    assert a != c
    assert len(set(masks(different=()))) == 1
    assert len(set(masks(different=("dp", "tp")))) == 4
    by_columns = masks(different=["tp"])
    assert by_columns[0] == by_columns[2] != by_columns[1] == by_columns[3]
    random.manual_seed(7)
    assert functional.dropout(Tensor(np.ones((8, 8))), 0.5).numpy().tobytes() == a
    with pytest.raises(ValueError, match="the mesh has no axis 'pp'"):
        seed_mesh(mesh, 7, ["pp"])


# Refusals ------------------------------------------------------------------------------------------------------------


@pytest.mark.skipif(SIZE != 2, reason="runs where there are 2 ranks, as test_parallel_on_ranks.py also starts")
@pytest.mark.parametrize(
    ("name", "degrees", "options", "message"),
    [
        ("mlp", {"tp": 2}, {"layers": {}}, "tp=2 divides layers, and the plan names none"),
        ("mlp", {"tp": 2}, {"layers": {"9": "column"}}, "pattern '9' fits no module of the model: there are 0, 1, 2"),
        ("mlp", {"tp": 2}, {"layers": {"1": "column"}}, "'1' is a Tanh, and the form 'column' is for a Linear"),
        ("mlp", {"tp": 2}, {"layers": {"0": "columns"}}, "forms are block, attention"),
        ("mlp", {"tp": 2}, {"layers": {"0": "column", "[01]*": "column"}}, "is a Tanh|two patterns"),
        ("mlp", {"tp": 2}, {"layers": {"8": "column"}}, "out_features is 5, which cannot be divided over 2 ranks"),
        ("mlp", {"cp": 2}, {}, "cp=2 divides a sequence, and the model has no attention"),
        ("mlp", {"state": 2}, {}, "state=2 divides the amplitudes of circuits"),
        ("mlp", {"ep": 2}, {}, "the mesh has an axis 'ep'"),
        ("mlp", {"dp": 2}, {"zero": 4}, "zero=4: use 0, 1, 2 or 3"),
        ("mlp", {"dp": 2}, {"sequence_parallel": True}, "sequence_parallel needs an axis 'tp'"),
        ("transformer", {"cp": 2}, {"positions": ["places"]}, "pattern 'places' of positions fits no parameter"),
        ("transformer", {"tp": 2}, {**SEQUENCE, "layers": LAYERS["transformer"]}, "and 3.weight is whole: name its"),
        ("transformer", {"tp": 2}, {**SEQUENCE, "positions": []}, "and 0.places is whole: .* in its positions"),
        ("mlp", {"dp": 2}, {"recompute": ["x*"]}, r"pattern 'x\*' of recomputed modules fits none"),
        ("mlp", {"dp": 2}, {"schedule": "gpipe"}, "schedule 'gpipe' is not known"),
        ("mlp", {"dp": 2}, {"micro_batches": 0}, "micro_batches=0: at least 1"),
        ("mlp", {"pp": 2}, {"virtual_stages": 2}, "virtual_stages=2 with schedule '1f1b'"),
        ("mlp", {"pp": 2}, {"stages": [4, 4]}, "2 positive numbers are needed that add up to 9 layers"),
    ],
)
def test_what_does_not_fit_is_refused(comm, name, degrees, options, message) -> None:
    with pytest.raises(ValueError, match=message):
        spread(name, Mesh(comm, **degrees), options)


@pytest.mark.skipif(SIZE != 2, reason="runs where there are 2 ranks, as test_parallel_on_ranks.py also starts")
def test_models_and_weights_that_do_not_fit_are_refused(comm) -> None:
    class Twice(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b = nn.Linear(4, 4, dtype=F64), nn.Linear(4, 4, dtype=F64)
            self.b.weight = self.a.weight

        def forward(self, x: Any) -> Any:
            return self.b(self.a(x))

    def refused(message: str, mesh: Mesh, plan: Plan, goal: Any = loss) -> None:
        with pytest.raises(ValueError, match=message):
            parallelize(Twice(), mesh, plan, optimizer=sgd, loss=goal)

    tp, pp = Mesh(comm, tp=2), Mesh(comm, pp=2)
    refused("pp=2 cuts the forward pass of Twice, which is no Sequential", pp, Plan())
    refused("a.weight and b.weight are one parameter and would be", tp, Plan({"a": "column", "b": "row"}))
    refused("a.weight and b.weight are one parameter, and the plan divides only", tp, Plan({"a": "column-gather"}))
    with pytest.raises(ValueError, match="name every Dropout: '1' as a 'dropout'"):
        parallelize(
            nn.Sequential(nn.Embedding(4, 4), nn.Dropout(0.1)),
            tp,
            Plan({"0": "vocabulary"}, sequence_parallel=True),
            optimizer=sgd,
            loss=loss,
        )
    refused("the loss has reduction 'none'", Mesh(comm, dp=2), Plan(), nn.MSELoss("none"))
    refused("rank 1 has another plan than rank 0: .*zero=1", Mesh(comm, dp=2), Plan(zero=comm.rank))
    with pytest.raises(ValueError, match=r"rank 1 has another model than rank 0: 0.weight float64\[16, 12\] in the"):
        parallelize(models.mlp(unit=8 - 4 * comm.rank), pp, Plan(), optimizer=sgd, loss=loss)


@pytest.mark.skipif(SIZE != 2, reason="runs where there are 2 ranks, as test_parallel_on_ranks.py also starts")
def test_layers_that_were_made_divided_stay(comm) -> None:
    mesh = Mesh(comm, tp=2)
    model = build("mlp")
    setattr(model, "4", ColumnParallelLinear.from_linear(model[4], mesh["tp"]))
    trained = parallelize(model, mesh, Plan(), optimizer=sgd, loss=loss)
    losses = [trained.train_batch(*rows_of("mlp", mesh, step)) for step in range(STEPS)]
    np.testing.assert_allclose(losses, alone("mlp", False).losses, rtol=1e-10)


@pytest.mark.skipif(SIZE != 2, reason="runs where there are 2 ranks, as test_parallel_on_ranks.py also starts")
def test_sequences_are_at_most_as_long_as_the_table_of_positions(comm) -> None:
    trained = spread("transformer", Mesh(comm, cp=2), {"positions": ["0.places"]})
    x, y = batch("transformer", 0, 2)
    longer = np.concatenate([x, x], axis=1)
    with pytest.raises(ValueError, match=r"places has 16 positions, and the sequence has .* or more"):
        trained.predict(longer)
    with pytest.raises(ValueError, match=r"cp=2 divides the second axis, the sequence, and a batch has shape \(2,\)"):
        trained.backward(x, y[:, 0])
    want = build("transformer")(Tensor(x)).numpy()
    np.testing.assert_allclose(trained.predict(x).numpy(), want, atol=1e-10)


@pytest.mark.skipif(SIZE != 4, reason="runs where there are 4 ranks, as test_parallel_on_ranks.py also starts")
@pytest.mark.filterwarnings("error::RuntimeWarning")  # The mean over no rows is left out without a word.
def test_batches_without_rows(comm) -> None:
    """A rank of "dp" may have none, but not in a pipeline."""
    x, y = batch("mlp", 0, 9)
    for mesh, options in ((Mesh(comm, dp=2, tp=2), {}), (Mesh(comm, dp=2, pp=2), {"micro_batches": 2})):
        trained = spread("mlp", mesh, options)
        rows = slice(0, 9 if mesh.coordinates["dp"] == 0 else 0)
        if "pp" in mesh:
            with pytest.raises(ValueError, match=r"at least one row on every rank of 'dp'; they have \[9, 0\]"):
                trained.backward(x[rows], y[rows])
        else:
            assert trained.backward(x[rows], y[rows]) == pytest.approx(alone("mlp", False).losses[0], rel=1e-10)
            model = build("mlp")
            models.loss_of(model, x, y).backward()
            assert_same(trained.gradients(), models.gradients_of(model))
            with pytest.raises(ValueError, match="at least one row on some rank of 'dp'"):
                trained.backward(x[:0], y[:0])


@pytest.mark.parametrize("rows", [1, 2, 3, 8])
@pytest.mark.parametrize("staged", [False, True])
def test_memory_of_divided_sequences_is_foreseen(comm, rows: int, staged: bool) -> None:
    """Positions of one row are in one piece, those of several are not: layers and losses may keep copies of them."""
    degrees = {"cp": 2, "pp": 2} if staged else {"cp": 2}
    if staged and SIZE < 4:
        pytest.skip("stages of divided sequences need 4 ranks")
    mesh = Mesh(comm, dp=SIZE // (4 if staged else 2), **degrees)
    plan = Plan(positions=["0.places"], micro_batches=1 + (rows > 2))
    goals: list[Any] = [loss, nn.CrossEntropyLoss(), nn.CrossEntropyLoss(ignore_index=2)]
    for goal in goals:
        trained = parallelize(build("transformer"), mesh, plan, optimizer=sgd, loss=goal)
        x, y = batch("transformer", 0, rows)
        trained.train_batch(x, y)
        given: dict[str, Any] = {"optimizer": sgd, "loss": goal, "inputs": x, "targets": y}
        assert trained.memory() == forecast_memory(build("transformer"), mesh.shape, plan, **given)


@pytest.mark.skipif(SIZE != 4, reason="runs where there are 4 ranks, as test_parallel_on_ranks.py also starts")
@pytest.mark.parametrize("degrees", [{"dp": 4}, {"dp": 2, "pp": 2}])
def test_running_averages_are_the_first_replicas_everywhere(comm, degrees: dict[str, int]) -> None:
    def model() -> nn.Sequential:
        random.manual_seed(0)
        norm = nn.BatchNorm2d(1, dtype=F64)
        return nn.Sequential(norm, nn.Flatten(), nn.Linear(64, 5, dtype=F64), nn.Tanh())

    mesh = Mesh(comm, **degrees)
    trained = parallelize(model(), mesh, Plan(), optimizer=sgd, loss=loss)
    trained.train_batch(*rows_of("cnn", mesh, 0))
    plain = model()
    plain(Tensor(models.share(batch("cnn", 0, 9)[0], 0, degrees["dp"])))
    for name in ("0.running_mean", "0.running_var"):
        np.testing.assert_allclose(trained.state_dict()[name].numpy(), plain.state_dict()[name].numpy(), rtol=1e-12)


@pytest.mark.skipif(SIZE != 4, reason="runs where there are 4 ranks, as test_parallel_on_ranks.py also starts")
def test_ranks_that_would_gather_for_different_micro_batches_are_refused(comm) -> None:
    mesh = Mesh(comm, dp=2, pp=2)
    trained = spread("mlp", mesh, {"micro_batches": 2, "zero": 3})
    x, y = (part[: 2 - mesh.coordinates["dp"]] for part in batch("mlp", 0, 9))
    for call in (trained.backward, trained.eval_batch, lambda x, y: trained.predict(x)):
        with pytest.raises(ValueError, match=r"have rows for \[1, 2\] micro-batches: give each at least 2"):
            call(x, y)
