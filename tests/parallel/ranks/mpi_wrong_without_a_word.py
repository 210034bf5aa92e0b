"""What looked right and was not: positions and attention of one's own, other rows, masks, masked losses. On ranks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import models
import numpy as np
import pytest
from meshes import assert_trains_as, share_of
from models import F64, adam, assert_same, gradients_of, sgd

import qdist as qd
from qdist import nn
from qdist.comm import Communicator, Mesh
from qdist.parallel import (
    DataParallel,
    Plan,
    SyncBatchNorm,
    VocabParallelCrossEntropyLoss,
    Zero,
    parallelize,
    share_rows,
)
from qdist.parallel.auto import Engine
from qdist.tensor import Tensor, functional, random

SIZE = qd.comm.init(timeout=120).size
WORDS, LENGTH, WIDTH, ROWS, PADDING = 12, 16, 16, 5, 0


@pytest.fixture(scope="session")
def comm() -> Communicator:
    return qd.comm.init(timeout=120)


def only(*sizes: int) -> Any:
    return pytest.mark.skipif(
        SIZE not in sizes, reason=f"runs on {sizes} ranks, which test_parallel_on_ranks.py also starts"
    )


# Positions and attention of one's own --------------------------------------------------------------------------------


def whole_table(model: Any, x: Tensor) -> Tensor:
    return x + model.table


def rows_of_a_table(model: Any, x: Tensor) -> Tensor:
    return x + model.wpe.weight[: x.shape[1]]


def looked_up(model: Any, x: Tensor) -> Tensor:
    return x + model.wpe(np.arange(x.shape[1]))


def looked_up_as_one_row(model: Any, x: Tensor) -> Tensor:
    return x + model.wpe(Tensor(np.arange(x.shape[1])[None]))


def waves(model: Any, x: Tensor) -> Tensor:
    return x + model.waves[:, : x.shape[1]]


def waves_of_asked_positions(model: Any, x: Tensor) -> Tensor:
    at = nn.positions(x.shape[1])[:, None] / 10.0 ** (np.arange(WIDTH) / WIDTH)
    return x + Tensor(np.sin(at))


class Placed(nn.Module):
    """A language model that says by itself where tokens stand, and may attend by itself too."""

    def __init__(
        self, place: Callable[[Any, Tensor], Tensor], attend: Callable[[Tensor], Tensor] | None = None
    ) -> None:
        super().__init__()
        self._place, self._attend = place, attend
        self.tokens = nn.Embedding(WORDS, WIDTH, dtype=F64)
        self.wpe = nn.Embedding(LENGTH + 8, WIDTH, dtype=F64)
        self.table = nn.Parameter(np.random.default_rng(1).normal(size=(LENGTH, WIDTH)))
        self.register_buffer("waves", np.random.default_rng(2).normal(size=(1, LENGTH + 8, WIDTH)))
        self.block = nn.TransformerBlock(WIDTH, 4, 24, causal=True, dtype=F64)
        self.head = nn.Linear(WIDTH, WORDS, dtype=F64)

    def forward(self, tokens: Any) -> Tensor:
        x = self.block(self._place(self, self.tokens(tokens)))
        return self.head(x if self._attend is None else x + self._attend(x))


def placed(place: Any, attend: Any = None) -> Placed:
    random.manual_seed(3)
    return Placed(place, attend)


def words(step: int, rows: int = ROWS) -> tuple[np.ndarray, np.ndarray]:
    tokens = np.random.default_rng([7, step]).integers(1, WORDS, (rows, LENGTH + 1))
    return tokens[:, :-1], tokens[:, 1:]


NAMED = ["wpe.weight", "table", "waves"]


@only(2)
@pytest.mark.parametrize(
    "place", [whole_table, rows_of_a_table, looked_up, looked_up_as_one_row, waves, waves_of_asked_positions]
)
def test_positions_are_right_in_every_common_way_of_writing_them(comm, place) -> None:
    def plain() -> nn.Module:
        model = placed(place)
        if place is not whole_table:
            model.table.requires_grad_(False)
        return model

    batches = [words(step) for step in range(2)]
    want = models.train_plainly(plain(), batches, sgd)
    plan = Plan(positions=NAMED, recompute=["wpe"])
    trained = parallelize(plain(), Mesh(comm, cp=2), plan, optimizer=sgd, loss=nn.CrossEntropyLoss())
    assert_trains_as(want, trained, batches)


@only(2)
@pytest.mark.parametrize("place", [whole_table, rows_of_a_table, looked_up, waves])
def test_positions_that_the_plan_does_not_name_are_refused(comm, place) -> None:
    trained = parallelize(placed(place), Mesh(comm, cp=2), Plan(), optimizer=sgd, loss=nn.CrossEntropyLoss())
    for call in (trained.backward, trained.eval_batch, lambda x, y: trained.predict(x)):
        with pytest.raises(ValueError, match=r"cp=2 divides the sequence.* Plan\(positions=...\)"):
            call(*words(0))


@only(2)
@pytest.mark.parametrize("place", [waves_of_asked_positions, lambda model, x: x + Tensor(np.ones((LENGTH, WIDTH)))])
def test_positions_that_sequence_parallelism_cannot_place_are_told_the_way_out(comm, place) -> None:
    layers = {"tokens": "vocabulary", "block": "block", "head": "column-gather"}
    plan = Plan(layers, sequence_parallel=True, positions=NAMED)
    trained = parallelize(placed(place), Mesh(comm, tp=2), plan, **OPTIMIZER)
    told = r"(sequence_parallel along tp=2 divides the sequence|sequence_parallel makes them).* Plan\(positions=...\)"
    for call in (trained.backward, trained.eval_batch, lambda x, y: trained.predict(x)):
        with pytest.raises(ValueError, match=told):
            call(*words(0))


def by_hand(x: Tensor) -> Tensor:
    return functional.softmax(x @ x.swapaxes(1, 2)) @ x


def by_function(x: Tensor) -> Tensor:
    return functional.attention(x, x, x, causal=True)


def by_einsum(x: Tensor) -> Tensor:
    return qd.tensor.einsum("bij,bjd->bid", functional.softmax(qd.tensor.einsum("bid,bjd->bij", x, x)), x)


def running_mean(x: Tensor) -> Tensor:
    return x.cumsum(1)


def pooled(x: Tensor) -> Tensor:
    return x.mean(1, keepdims=True)


def shifted(x: Tensor) -> Tensor:
    return x[:, 1:].pad([(0, 0), (1, 0), (0, 0)])


def mixed_by_a_matrix(x: Tensor) -> Tensor:
    return (x.swapaxes(1, 2) @ Tensor(np.eye(x.shape[1]))).swapaxes(1, 2)


@only(2)
@pytest.mark.parametrize("attend", [by_hand, by_function, by_einsum, running_mean, pooled, shifted, mixed_by_a_matrix])
def test_what_mixes_positions_by_itself_is_refused_beside_a_block(comm, attend) -> None:
    model = placed(rows_of_a_table, attend)
    trained = parallelize(model, Mesh(comm, cp=2), Plan(positions=NAMED), optimizer=sgd, loss=nn.CrossEntropyLoss())
    with pytest.raises(ValueError, match="cp=2 divides the sequence, so a rank has only some positions, and"):
        trained.backward(*words(0))


@only(2)
def test_what_is_said_when_a_plan_or_an_optimiser_does_not_fit(comm) -> None:
    mesh, model = Mesh(comm, tp=2), placed(rows_of_a_table)
    made = qd.optim.AdamW(model.parameters(), lr=0.1)
    with pytest.raises(TypeError, match=r"not an object of AdamW: `optimizer=lambda parameters: optim.AdamW\("):
        parallelize(model, mesh, optimizer=made, loss=nn.CrossEntropyLoss())
    with pytest.raises(ValueError, match=r"rank 1 has another plan than rank 0: zero=1 \(rank 0: 0\)$"):
        parallelize(model, mesh, Plan({"head": "column"}, zero=comm.rank), **OPTIMIZER)
    for words_of_help in ('"column-gather"', "fnmatch", "blocks.*", "positions:", "nn.positions"):
        assert words_of_help in Plan.__doc__
    # The docstring's own pattern: blocks, without the modules in them.
    blocks = nn.Sequential(*(nn.TransformerBlock(8, 2, 8, dtype=F64) for _ in range(2)))
    whole = nn.Module()
    whole.blocks, whole.forward = blocks, blocks.forward
    trained = parallelize(whole, mesh, Plan({"blocks.*": "block"}), optimizer=sgd, loss=nn.MSELoss())
    assert trained.module.blocks[1].expand.weight.shape == (4, 8)


# Rows ----------------------------------------------------------------------------------------------------------------

OPTIMIZER = {"optimizer": sgd, "loss": nn.CrossEntropyLoss()}


@only(2, 4)
@pytest.mark.parametrize("axis", ["tp", "pp", "cp"])
def test_ranks_of_one_replica_must_have_the_same_rows(comm, axis: str) -> None:
    name = "transformer" if axis == "cp" else "mlp"
    degrees = {axis: 2} if SIZE == 2 else {"dp": 2, axis: 2}
    mesh = Mesh(comm, **degrees)
    options = (
        {"layers": {"0": "column", "2": "row"}} if axis == "tp" else {"positions": ["0.places"] if axis == "cp" else ()}
    )
    trained = parallelize(models.build(name), mesh, Plan(**options), **OPTIMIZER)
    whole = models.batch(name, 0, 8)
    way_out = r"the ranks of 'dp' and not with all ranks" if SIZE == 4 else "every rank takes the whole batch, without"
    for call in (trained.backward, trained.eval_batch, lambda x, y: trained.predict(x)):
        with pytest.raises(ValueError, match=rf"along '{axis}' work on the same rows: .*{way_out}"):
            call(*share_rows(whole, comm))
    trained.train_batch(*share_of(mesh, *whole))  # And nothing is left behind.


@only(2)
def test_a_rank_that_leaves_out_a_step_or_a_call_is_told(comm) -> None:
    def start() -> Any:
        plan = Plan({"0": "column", "2": "row"})
        return parallelize(models.build("mlp"), Mesh(comm, tp=2), plan, **OPTIMIZER)

    trained = start()
    trained.train_batch(*models.batch("mlp", 0))
    with pytest.raises(ValueError, match="one of the two has left out a step"):
        trained.train_batch(*models.batch("mlp", 1 + comm.rank))
    trained = start()
    trained.backward(*models.batch("mlp", 0))
    if comm.rank == 0:
        trained.step()
    with pytest.raises(ValueError, match="rank 1 has made 0 steps, rank 0 1: one of them has left some out"):
        trained.backward(*models.batch("mlp", 1))
    trained = start()
    with pytest.raises(ValueError, match="rank 1 calls eval_batch, rank 0 calls backward"):
        (trained.eval_batch if comm.rank else trained.backward)(*models.batch("mlp", 0))


@only(2)
def test_negative_tokens_are_refused_on_every_mesh(comm) -> None:
    tokens, goals = words(0)
    tokens = tokens.copy()
    tokens[0, 3] = -1
    for options in ({}, {"layers": {"tokens": "vocabulary"}}):
        model = placed(rows_of_a_table)
        mesh = Mesh(comm, **({"tp": 2} if options else {"dp": 2}))
        trained = parallelize(model, mesh, Plan(**options), **OPTIMIZER)
        with pytest.raises(IndexError, match=r"indices go from -1 to .*, but the table has 12 rows"):
            trained.backward(tokens, goals)


# Modes ---------------------------------------------------------------------------------------------------------------


@only(2)
@pytest.mark.parametrize(
    ("axis", "plan"),
    [("dp", Plan()), ("dp", Plan(zero=3)), ("tp", Plan({"0": "column", "1": "column-dropout", "2": "row"}))],
)
def test_layers_that_are_in_eval_mode_stay_in_it(comm, axis: str, plan: Plan) -> None:
    def made() -> nn.Sequential:
        random.manual_seed(5)
        layers = nn.Linear(4, 8, dtype=F64), nn.Dropout(0.5), nn.Linear(8, 6, dtype=F64), nn.BatchNorm1d(6, dtype=F64)
        model = nn.Sequential(*layers, nn.Linear(6, 3, dtype=F64))
        model[1].eval()
        model[3].eval()
        return model

    rng = np.random.default_rng(0)
    batches = [(rng.normal(size=(6, 4)), rng.integers(0, 3, 6)) for _ in range(3)]
    want = models.train_plainly(made(), batches, sgd)
    mesh = Mesh(comm, **{axis: 2})
    trained = parallelize(made(), mesh, plan, **OPTIMIZER)
    losses = []
    for x, y in batches:
        mine = share_of(mesh, x, y)
        losses.append(trained.train_batch(*mine))
        trained.eval_batch(*mine)
        trained.predict(mine[0])
    np.testing.assert_allclose(losses, want.losses, rtol=1e-10)
    assert [module.training for module in trained.module] == [True, False, True, False, True]
    norms = SyncBatchNorm.convert(made(), comm)
    assert [module.training for module in norms] == [True, False, True, False, True]


# Initial weights of an Engine ----------------------------------------------------------------------------------------


@only(2)
def test_an_engine_trains_the_first_ranks_model(comm) -> None:
    def train(seed: int) -> tuple[list[float], dict[str, np.ndarray]]:
        model = models.build("mlp", seed)
        engine = Engine(model, functional.cross_entropy, sgd(model.parameters()), comm=comm)
        losses = [engine.run(models.batch("mlp", step))["loss"] for step in range(2)]
        return losses, engine.state_dict()

    losses, state = train(comm.rank)
    want = models.train_alone("mlp", 2)
    np.testing.assert_allclose(losses, want.losses, rtol=1e-10)
    assert_same(state, want.parameters)
    for value in state.values():
        for other in comm.all_gather(value):
            np.testing.assert_array_equal(value, other)


# Dropout -------------------------------------------------------------------------------------------------------------


def dropping(seed: int = 0) -> nn.Sequential:
    random.manual_seed(seed)
    tokens = models.Tokens(4)
    block = nn.TransformerBlock(8, 4, 16, dropout=0.3, causal=True, dtype=F64)
    last = nn.Linear(8, 12, dtype=F64)
    return nn.Sequential(tokens, nn.Dropout(0.4), block, nn.LayerNorm(8, dtype=F64), nn.Dropout(0.2), last)


def sentences(step: int) -> tuple[np.ndarray, np.ndarray]:
    return models.batch("transformer", step, 5, 4)


def dropped_alone(steps: int = 3) -> models.Trained:
    model = dropping()
    random.manual_seed(21)
    return models.train_plainly(model, [sentences(step) for step in range(steps)], adam)


DROPPED: dict[int, list[tuple[dict[str, int], dict[str, Any]]]] = {
    2: [
        ({"dp": 2}, {}),
        ({"dp": 2}, {"zero": 3, "recompute": ["2"]}),
        ({"pp": 2}, {"micro_batches": 3}),
        ({"pp": 2}, {"schedule": "interleaved", "virtual_stages": 2, "micro_batches": 2, "recompute": ["2"]}),
        ({"cp": 2}, {"positions": ["0.places"]}),
        ({"tp": 2}, {"layers": {"2": "block"}}),
    ],
    4: [
        ({"dp": 2, "pp": 2}, {"micro_batches": 2, "zero": 1}),
        ({"dp": 2, "cp": 2}, {"positions": ["0.places"], "zero": 2}),
        ({"dp": 2, "tp": 2}, {"layers": {"2": "block"}}),
    ],
}


@only(2, 4)
@pytest.mark.parametrize("case", DROPPED.get(SIZE, []), ids=str)
def test_dropout_is_that_of_one_process_whatever_the_seeds_of_ranks(comm, case) -> None:
    degrees, options = case
    mesh, want = Mesh(comm, **degrees), dropped_alone()
    trained = parallelize(dropping(comm.rank), mesh, Plan(**options), optimizer=adam, loss=nn.CrossEntropyLoss())
    random.manual_seed(21, comm.rank)  # As one seeds ranks of torch.
    assert_trains_as(want, trained, [share_of(mesh, *sentences(step)) for step in range(3)])


def dropping_hidden_units(seed: int = 0) -> nn.Sequential:
    """Dropout of all features, and of those between two layers that divide them."""
    random.manual_seed(seed)
    tokens, attention = models.Tokens(4), nn.MultiHeadAttention(8, 4, dtype=F64)
    perceptron = nn.Sequential(nn.Linear(8, 16, dtype=F64), nn.GELU(), nn.Dropout(0.5), nn.Linear(16, 8, dtype=F64))
    last = nn.Linear(8, 12, dtype=F64)
    return nn.Sequential(tokens, attention, nn.Dropout(0.4), perceptron, nn.LayerNorm(8, dtype=F64), last)


HIDDEN = {"1": "attention", "3.0": "column", "3.2": "column-dropout", "3.3": "row"}
IN_SLICES = {**HIDDEN, "0.table": "vocabulary", "2": "dropout", "4": "norm", "5": "column-gather"}
DROPPED_HIDDEN: dict[int, list[tuple[dict[str, int], dict[str, Any]]]] = {
    2: [
        ({"tp": 2}, {"layers": HIDDEN}),
        ({"tp": 2}, {"layers": HIDDEN, "recompute": ["3"]}),
        ({"tp": 2}, {"layers": IN_SLICES, "sequence_parallel": True, "positions": ["0.places"]}),
        ({"tp": 2}, {"layers": {**HIDDEN, "3.0": "column-gather", "3.2": "dropout", "3.3": "row-scatter"}}),
    ],
    4: [
        ({"tp": 4}, {"layers": HIDDEN}),
        ({"dp": 2, "tp": 2}, {"layers": HIDDEN, "zero": 1}),
        ({"cp": 2, "tp": 2}, {"layers": HIDDEN, "positions": ["0.places"]}),
        ({"pp": 2, "tp": 2}, {"layers": HIDDEN, "micro_batches": 2}),
    ],
}


@only(2, 4)
@pytest.mark.parametrize("case", DROPPED_HIDDEN.get(SIZE, []), ids=str)
def test_dropout_of_divided_features_is_that_of_one_process(comm, case) -> None:
    degrees, options = case
    mesh, batches = Mesh(comm, **degrees), [sentences(step) for step in range(3)]
    model = dropping_hidden_units()
    random.manual_seed(21)
    want = models.train_plainly(model, batches, adam)
    model = dropping_hidden_units(comm.rank)
    trained = parallelize(model, mesh, Plan(**options), optimizer=adam, loss=nn.CrossEntropyLoss())
    random.manual_seed(21, comm.rank)
    assert_trains_as(want, trained, [share_of(mesh, *batch) for batch in batches])


class Sharing(nn.Module):
    """One dropout, in two layers that are divided."""

    def __init__(self, seed: int = 0) -> None:
        super().__init__()
        random.manual_seed(seed)
        self.tokens, drop = models.Tokens(4), nn.Dropout(0.5)
        layers = [nn.Linear(8, 16, dtype=F64), nn.GELU(), drop, nn.Linear(16, 8, dtype=F64)]
        others = [nn.Linear(8, 16, dtype=F64), drop, nn.Linear(16, 12, dtype=F64)]
        self.attention = nn.MultiHeadAttention(8, 4, dtype=F64)
        self.first, self.second = nn.Sequential(*layers), nn.Sequential(*others)

    def forward(self, x: Any) -> Tensor:
        return self.second(self.first(self.attention(self.tokens(x), causal=True)))


@only(2, 4)
@pytest.mark.parametrize("axis", ["cp", "tp"])
def test_a_dropout_in_several_places_is_that_of_one_process(comm, axis: str) -> None:
    layers = {"*.0": "column", "first.2": "column-dropout", "first.3": "row", "second.2": "row"}
    plan = Plan(layers) if axis == "tp" else Plan(positions=["tokens.places"])
    degrees = {"dp": SIZE // 2, "tp": 2} if axis == "tp" else {"cp": SIZE}
    mesh, batches = Mesh(comm, **degrees), [sentences(step) for step in range(2)]
    model = Sharing()
    random.manual_seed(21)
    want = models.train_plainly(model, batches, adam)
    trained = parallelize(Sharing(comm.rank), mesh, plan, optimizer=adam, loss=nn.CrossEntropyLoss())
    random.manual_seed(21, comm.rank)
    assert_trains_as(want, trained, [share_of(mesh, *batch) for batch in batches])


@only(2)
@pytest.mark.parametrize("half", [None, "float16"])
def test_a_dropout_that_is_given_parts_of_features_is_told(comm, half: str | None) -> None:
    layers = {name: form for name, form in HIDDEN.items() if form != "column-dropout"}
    model, dtype = dropping_hidden_units(), None if half is None else "float32"
    model = model if dtype is None else model.to(dtype)
    plan = Plan(layers, precision=half)
    trained = parallelize(model, Mesh(comm, tp=2), plan, optimizer=adam, loss=nn.CrossEntropyLoss())
    assert np.isfinite(trained.eval_batch(*sentences(0)))
    with pytest.raises(ValueError, match=r"'3.2', a Dropout, is given other features .* make it a 'column-dropout'"):
        trained.backward(*sentences(0))


@only(2)
@pytest.mark.parametrize("way", ["dp", 1, 2, 3])
def test_dropout_of_data_parallel_loops_is_that_of_one_process(comm, way) -> None:
    model: Any = dropping(comm.rank)
    update = adam(model.parameters())
    model = DataParallel(model, comm) if way == "dp" else Zero(model, update, way, comm)
    random.manual_seed(21, comm.rank)
    losses = []
    for step in range(3):
        x, y = share_rows(sentences(step), comm)
        value = model.loss(nn.CrossEntropyLoss(), model(Tensor(x)), Tensor(y))
        losses.append(value.item())
        if way == "dp":
            update.zero_grad()
            value.backward()
            update.step()
        else:
            model.backward(value)
            model.step()
    want = dropped_alone()
    np.testing.assert_allclose(losses, want.losses, rtol=1e-10)
    assert_same(models.state_of(model), want.parameters)


@only(2)
@pytest.mark.parametrize("pipeline", [False, True])
def test_dropout_of_an_engine_is_that_of_one_process(comm, pipeline: bool) -> None:
    def net() -> nn.Module:
        random.manual_seed(0)
        middle = [nn.Dropout(0.5), nn.Linear(16, 16, dtype=F64), nn.Tanh(), nn.Dropout(0.3)]
        return nn.Sequential(nn.Linear(12, 16, dtype=F64), *middle, nn.Linear(16, 5, dtype=F64))

    strategy = qd.parallel.auto.Strategy()
    if pipeline:
        strategy.pipeline.enable, strategy.pipeline.accumulate_steps = True, 3
    model = net()
    engine = Engine(model, functional.cross_entropy, sgd(model.parameters()), None, strategy, comm=comm)
    random.manual_seed(13)
    losses = [engine.run(models.batch("mlp", step))["loss"] for step in range(3)]
    plain = net()
    random.manual_seed(13)
    want = models.train_plainly(plain, [models.batch("mlp", step) for step in range(3)], sgd)
    np.testing.assert_allclose(losses, want.losses, rtol=1e-10)


# Losses over what is not masked --------------------------------------------------------------------------------------


def padded(step: int, rows: int = 7) -> tuple[np.ndarray, np.ndarray]:
    """Sentences of very different lengths; the last rows are the shortest."""
    tokens, goals = words(step, rows)
    lengths = np.linspace(LENGTH, 1, rows).astype(int)
    return tokens, np.where(np.arange(LENGTH) < lengths[:, None], goals, PADDING)


def own_mean(output: Tensor, targets: Tensor) -> Tensor:
    seen = (targets != PADDING).to(output.dtype)
    return (functional.cross_entropy(output, targets, "none") * seen).sum() / seen.sum()


def own_pair(output: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
    seen = (targets != PADDING).to(output.dtype)
    return (functional.cross_entropy(output, targets, "none") * seen).sum(), seen.sum()


WEIGHTS = np.linspace(0.5, 2.0, WORDS)
LOSSES: dict[str, tuple[Any, Any]] = {
    "ignored": (nn.CrossEntropyLoss(ignore_index=PADDING),) * 2,
    "weighted": (nn.CrossEntropyLoss(ignore_index=PADDING, weight=WEIGHTS, label_smoothing=0.1),) * 2,
    "own": (own_mean, own_pair),
}
MASKED: dict[int, list[tuple[str, dict[str, int], dict[str, Any]]]] = {
    2: [
        ("ignored", {"dp": 2}, {}),
        ("weighted", {"dp": 2}, {"zero": 2}),
        ("own", {"dp": 2}, {}),
        ("ignored", {"pp": 2}, {"micro_batches": 3}),
        ("own", {"pp": 2}, {"micro_batches": 7}),
        ("weighted", {"cp": 2}, {"positions": ["0.wpe.weight"]}),
        ("own", {"cp": 2}, {"positions": ["0.wpe.weight"], "zero": 3}),
    ],
    4: [
        ("weighted", {"dp": 2, "pp": 2}, {"micro_batches": 2, "zero": 1}),
        ("own", {"dp": 2, "cp": 2}, {"positions": ["0.wpe.weight"]}),
        ("ignored", {"pp": 2, "cp": 2}, {"positions": ["0.wpe.weight"], "micro_batches": 2}),
    ],
}


class Input(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.tokens, self.wpe = nn.Embedding(WORDS, WIDTH, dtype=F64), nn.Embedding(LENGTH, WIDTH, dtype=F64)

    def forward(self, tokens: Any) -> Tensor:
        return self.tokens(tokens) + self.wpe(np.arange(tokens.shape[1]))


def in_layers() -> nn.Sequential:
    random.manual_seed(4)
    block = nn.TransformerBlock(WIDTH, 4, 24, causal=True, dtype=F64)
    return nn.Sequential(Input(), block, nn.LayerNorm(WIDTH, dtype=F64), nn.Linear(WIDTH, WORDS, dtype=F64))


def masked_alone(loss: Any, make: Any, steps: int = 2) -> models.Trained:
    model = in_layers()
    update = make(model.parameters())
    losses = []
    for step in range(steps):
        x, y = padded(step)
        update.zero_grad()
        value = loss(model(Tensor(x)), Tensor(y))
        value.backward()
        update.step()
        losses.append(value.item())
    return models.Trained(losses, gradients_of(model), models.state_of(model))


@only(2, 4)
@pytest.mark.parametrize("case", MASKED.get(SIZE, []), ids=str)
def test_masked_losses_are_those_of_one_process(comm, case) -> None:
    name, degrees, options = case
    plain, parallel = LOSSES[name]
    make = adam if "zero" in options else sgd
    mesh = Mesh(comm, **degrees)
    trained = parallelize(in_layers(), mesh, Plan(**options), optimizer=make, loss=parallel)
    assert_trains_as(masked_alone(plain, make), trained, [share_of(mesh, *padded(step)) for step in range(2)])
    x, y = padded(3)
    got = trained.eval_batch(*share_of(mesh, x, y))
    whole = in_layers()
    whole.load_state_dict(trained.state_dict())
    np.testing.assert_allclose(got, plain(whole(Tensor(x)), Tensor(y)).item(), rtol=1e-10)


@only(2)
@pytest.mark.parametrize("way", ["dp", 1, 3])
@pytest.mark.parametrize("name", LOSSES)
def test_masked_losses_of_data_parallel_loops(comm, name: str, way) -> None:
    plain, parallel = LOSSES[name]
    model: Any = in_layers()
    update = adam(model.parameters())
    model = DataParallel(model, comm) if way == "dp" else Zero(model, update, way, comm)
    losses = []
    for step in range(2):
        x, y = (Tensor(part) for part in share_rows(padded(step), comm))
        if name == "own":
            value = model.loss(parallel, model(x), y)
            losses.append(value.item())
        else:
            # As in one process: what the loss is a mean over is seen when the backward pass comes through it.
            value = parallel(model(x), y)
            with qd.tensor.no_grad():
                losses.append(model.loss(parallel, model(x), y).item())
        if way == "dp":
            update.zero_grad()
            value.backward()
            update.step()
        else:
            model.backward(value)
            model.step()
    want = masked_alone(plain, adam)
    np.testing.assert_allclose(losses, want.losses, rtol=1e-10)
    assert_same(models.state_of(model), want.parameters)


@only(2)
@pytest.mark.parametrize("way", ["dp", 1, 2])
def test_each_backward_pass_counts_as_the_loss_says_that_it_came_from(comm, way) -> None:
    """Through one forward pass: masked and plain means, and the whole batch's loss, also where it is only logged."""
    loss = nn.CrossEntropyLoss(ignore_index=PADDING)
    model: Any = in_layers()
    model = DataParallel(model, comm) if way == "dp" else Zero(model, sgd(model.parameters()), way, comm)
    alone = in_layers()
    gradients = lambda: gradients_of(model) if way == "dp" else model.gradients()  # noqa: E731

    def losses(net: nn.Module, x: Tensor, y: Tensor) -> list[Tensor]:
        output, another = net(x), net(x)
        joined = (lambda out: loss(out, y)) if net is alone else (lambda out: model.loss(loss, out, y))
        assert joined(output).shape == ()
        return [loss(output, y), (output * output).mean(), joined(output), (output + 1).abs().mean(), joined(another)]

    mine = losses(model, *(Tensor(part) for part in share_rows(padded(0), comm)))
    for value, want in zip(mine, losses(alone, *map(Tensor, padded(0)))):
        model.zero_grad()
        value.backward(retain_graph=True)
        alone.zero_grad()
        want.backward(retain_graph=True)
        assert_same(gradients(), gradients_of(alone))


@only(2)
def test_means_over_a_divided_vocabulary_and_of_chosen_values(comm) -> None:
    mesh = Mesh(comm, tp=2)
    goal = VocabParallelCrossEntropyLoss(mesh["tp"], ignore_index=PADDING, weight=WEIGHTS)
    plan = Plan({"3": "column"}, positions=())
    trained = parallelize(in_layers(), mesh, plan, optimizer=sgd, loss=goal)
    want = masked_alone(nn.CrossEntropyLoss(ignore_index=PADDING, weight=WEIGHTS), sgd)
    assert_trains_as(want, trained, [padded(step) for step in range(2)])
    # values[mask].mean() says by its length how many it is over.
    model = DataParallel(in_layers(), comm)
    x, y = share_rows(padded(0), comm)
    values = functional.cross_entropy(model(Tensor(x)), Tensor(y), "none")
    values[Tensor(y != PADDING)].mean().backward()
    assert_same(gradients_of(model), masked_alone(own_mean, sgd, 1).gradients)


@only(2)
def test_what_cannot_be_joined_is_refused(comm) -> None:
    for degrees, options in (({"dp": 2}, {}), ({"cp": 2}, {"positions": ["0.wpe.weight"]})):
        mesh = Mesh(comm, **degrees)
        trained = parallelize(in_layers(), mesh, Plan(**options), optimizer=sgd, loss=own_mean)
        text = r"so it is no mean over (rows|positions), .*pair \(numerator, denominator\)|its own error says why"
        with pytest.raises(ValueError, match=text):
            trained.backward(*share_of(mesh, *padded(0)))
    # Two means over different shares have no common factor.
    model = DataParallel(in_layers(), comm)
    x, y = share_rows(padded(0), comm)
    output = model(Tensor(x))
    loss = nn.CrossEntropyLoss(ignore_index=PADDING)
    with pytest.raises(ValueError, match=r"different shares of what all ranks have.*model.loss\(\)"):
        (loss(output, Tensor(y)) + (output * output).mean()).backward()
    both = in_layers()
    whole_x, whole_y = (Tensor(part) for part in padded(0))
    whole = both(whole_x)
    (loss(whole, whole_y) + (whole * whole).mean()).backward()
    model.zero_grad()
    output = model(Tensor(x))
    squares = model.loss(lambda out, y: (out * out).mean(), output, Tensor(y))
    (model.loss(loss, output, Tensor(y)) + squares).backward()
    assert_same(gradients_of(model), gradients_of(both))


# Models of other layers -----------------------------------------------------------------------------------------------

LLAMA = {"*.[qkv]": "column", "*.o": "row", "*.gate": "column", "*.up": "column", "*.down": "row"}
LLAMAS: dict[int, list[tuple[dict[str, int], dict[str, Any]]]] = {
    2: [({"tp": 2}, {"layers": LLAMA}), ({"cp": 2}, {}), ({"pp": 2}, {"micro_batches": 2}), ({"dp": 2}, {"zero": 3})],
    4: [({"cp": 2, "tp": 2}, {"layers": LLAMA}), ({"dp": 2, "cp": 2}, {"recompute": ["1"]})],
}


def llama() -> nn.Sequential:
    random.manual_seed(6)
    blocks = [nn.LlamaBlock(WIDTH, 4, 2, 24, dtype=F64) for _ in range(2)]
    last = [nn.RMSNorm(WIDTH, dtype=F64), nn.Linear(WIDTH, WORDS, False, dtype=F64)]
    return nn.Sequential(nn.Embedding(WORDS, WIDTH, dtype=F64), *blocks, *last)


@only(2, 4)
@pytest.mark.parametrize("case", LLAMAS.get(SIZE, []), ids=str)
def test_a_llama_like_model_trains_as_in_one_process(comm, case) -> None:
    degrees, options = case
    mesh, make = Mesh(comm, **degrees), adam if "zero" in options else sgd
    want = models.train_plainly(llama(), [words(step) for step in range(2)], make)
    trained = parallelize(llama(), mesh, Plan(**options), optimizer=make, loss=nn.CrossEntropyLoss())
    assert_trains_as(want, trained, [share_of(mesh, *words(step)) for step in range(2)])


@only(2)
@pytest.mark.parametrize("way", ["parallelize", "loss"])
def test_batch_norm_over_all_ranks_is_that_of_one_process(comm, way: str) -> None:
    def net() -> nn.Sequential:
        random.manual_seed(8)
        first = [nn.Conv2d(1, 4, 3, dtype=F64), nn.BatchNorm2d(4, dtype=F64), nn.ReLU(), nn.Flatten()]
        second = [nn.Linear(144, 6, dtype=F64), nn.BatchNorm1d(6, dtype=F64), nn.Linear(6, 5, dtype=F64)]
        return nn.Sequential(*first, *second)

    batches = [models.batch("cnn", step, 9) for step in range(2)]  # 4 rows and 5.
    want = models.train_plainly(net(), batches, sgd)
    model: Any = qd.parallel.SyncBatchNorm.convert(net(), comm)
    if way == "parallelize":
        trained = parallelize(model, Mesh(comm, dp=2), optimizer=sgd, loss=nn.CrossEntropyLoss())
        losses = [trained.train_batch(*share_rows(batch, comm)) for batch in batches]
        state = {name: tensor.numpy() for name, tensor in trained.state_dict().items()}
    else:
        model = DataParallel(model, comm)
        update, losses = sgd(model.parameters()), []
        for batch in batches:
            x, y = (Tensor(part) for part in share_rows(batch, comm))
            update.zero_grad()
            value = model.loss(nn.CrossEntropyLoss(), model(x), y)
            value.backward()
            update.step()
            losses.append(value.item())
        state = models.state_of(model)
        with pytest.raises(ValueError, match=r"SyncBatchNorm has added their gradients up.*give model.loss\("):
            nn.CrossEntropyLoss()(model(x), y).backward()
        even = slice(0, 4)
        nn.CrossEntropyLoss()(model(x[even]), y[even]).backward()
    np.testing.assert_allclose(losses, want.losses, rtol=1e-10)
    assert_same(state, want.parameters)


@only(2)
def test_memory_and_names_of_parameters_on_a_mesh(comm) -> None:
    def trained(zero: int) -> Any:
        return parallelize(in_layers(), Mesh(comm, dp=2), Plan(zero=zero), optimizer=adam, loss=nn.CrossEntropyLoss())

    whole = 8 * sum(p.size for p in in_layers().parameters())
    for zero in range(4):
        model = trained(zero)
        model.train_batch(*share_rows(words(0, 6), comm))
        first, second = model.memory()
        assert first.total == sum(first)
        assert abs(first.parameters - second.parameters) <= 0.01 * whole
        # A few numbers fill up parts of equal length.
        for got, parts in (
            (first.parameters, 2 if zero == 3 else 1),
            (first.gradients, 2 if zero > 1 else 1),
            (first.optimizer / 2, 2 if zero else 1),
        ):
            assert got == pytest.approx(whole / parts, rel=0.02), (zero, first)
        assert first.activations > 0
        sizes = {name: parameter.nbytes for name, parameter in model.module.named_parameters()}
        assert sum(sizes.values()) == whole
        assert [parameter.name for parameter in model.module.parameters()] == list(sizes)
    seen: list[str] = []

    def named(parameters: Any) -> Any:
        given = list(parameters)
        seen.extend(p.name for p in given)
        return sgd(given)

    parallelize(in_layers(), Mesh(comm, pp=2), Plan(), optimizer=named, loss=nn.CrossEntropyLoss())
    everywhere = [name for part in comm.all_gather_object(seen) for name in part]
    assert everywhere == [name for name, _ in in_layers().named_parameters()]
