"""Engine.fit goes on in the midst of an epoch as if nothing had happened."""

from pathlib import Path

import numpy as np
import pytest

from qdist import data, nn, optim, training
from qdist.parallel.auto import Callback, Engine
from qdist.tensor import manual_seed

X = np.random.default_rng(0).normal(size=(20, 4)).astype(np.float32)
Y = np.random.default_rng(1).integers(0, 3, 20)


class Dies(Callback):
    def on_batch_end(self, engine, epoch: int, step: int, logs) -> None:
        if (epoch, step) == (1, 2):
            raise KeyboardInterrupt


def batch_sampler(kind: str) -> data.BatchSampler:
    """Of the rows of one rank where it is one of several, in an order of its own in each epoch."""
    if kind == "shuffled":
        return data.BatchSampler(len(X), shuffle=True, batch_size=4, seed=1)
    order = data.DistributedSampler(len(X), 1, 2, seed=1) if kind == "share" else data.RandomSampler(len(X), 1)
    return data.BatchSampler(sampler=order, batch_size=3, drop_last=True)


def fit(callbacks=(), batches: str = "", **options) -> tuple[list[dict], list[np.ndarray]]:
    manual_seed(3)
    model = nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.4), nn.Tanh(), nn.Linear(8, 3))
    engine = Engine(model, nn.CrossEntropyLoss(), optim.Adam(model.parameters(), lr=0.05))
    loader = engine.dataloader(data.ArrayDataset(X, Y), 4, shuffle=True, seed=1, epochs=3)
    if batches:
        loader = data.DataLoader(data.ArrayDataset(X, Y), batch_sampler=batch_sampler(batches))
    history = engine.fit(loader, 3, valid_data=[(X, Y)], callbacks=callbacks, **options)
    return history, [parameter.numpy() for parameter in model.parameters()]


@pytest.mark.parametrize(
    ("every", "batches"), [(1, ""), (2, ""), (5, ""), (1, "shuffled"), (5, "shuffled"), (2, "share"), (4, "order")]
)
def test_a_fit_that_died_goes_on_bit_by_bit(tmp_path: Path, every: int, batches: str) -> None:
    want, values = fit(batches=batches)
    with pytest.raises(KeyboardInterrupt):
        fit([Dies()], batches, folder=tmp_path, every=every)
    history, got = fit(batches=batches, folder=tmp_path, every=every)
    assert history == want
    assert len(history) == 3
    for a, b in zip(got, values, strict=True):
        np.testing.assert_array_equal(a, b)
    # All is over: the same call takes no step.
    assert fit([Dies()], batches, folder=tmp_path)[0] == want


@pytest.mark.parametrize("batches", ["", "shuffled", "share", "order"])
def test_batches_begin_at_the_pass_that_was_set(batches: str) -> None:
    def loader() -> data.DataLoader:
        rows = data.ArrayDataset(X, np.arange(len(X)))
        if batches:
            return data.DataLoader(rows, batch_sampler=batch_sampler(batches))
        return data.DataLoader(rows, 4, shuffle=True, seed=1)

    made = loader()
    passes = [[labels.tolist() for _, labels in made] for _ in range(5)]
    assert passes[2] != passes[0]
    again = loader()
    (again.batch_sampler or again.sampler).set_epoch(2)
    stream = training.Batches(again)
    want = [batch for one in passes[2:] for batch in one]
    assert [next(stream)[1].tolist() for _ in range(len(passes[0]) + 1)] == want[: len(passes[0]) + 1]
    resumed = training.Batches(loader())
    resumed.load_state_dict(stream.state_dict())
    assert [next(resumed)[1].tolist() for _ in want[len(passes[0]) + 1 :]] == want[len(passes[0]) + 1 :]


@pytest.mark.parametrize("options", [{"patience": 2}, {"name": "mine"}, {"total": 3}, {"comm": None}, {"evry": 1}])
def test_fit_names_the_options_that_it_takes(options) -> None:
    with pytest.raises(TypeError, match=rf"fit has no option {next(iter(options))}; .* every, seconds, keep"):
        fit(**options)


def test_batches_go_on_with_the_next_row_when_their_size_changes() -> None:
    def stream(size: int) -> training.Batches:
        return training.Batches(data.DataLoader(np.arange(24), size, shuffle=True, seed=4))

    first = stream(4)
    order = np.concatenate([next(first).numpy() for _ in range(3)])
    state = first.state_dict()
    rest = np.concatenate([next(first).numpy() for _ in range(3)])
    assert sorted([*order, *rest]) == list(range(24))
    for size in (2, 4, 6, 12):
        resumed = stream(size)
        resumed.load_state_dict(state)
        np.testing.assert_array_equal(next(resumed).numpy(), rest[:size])
    other = stream(5)
    with pytest.raises(
        ValueError, match=r"3 batches of 4 rows into a pass, and batches have 5 rows now.*between passes"
    ):
        other.load_state_dict(state)
    other.load_state_dict(state | {"place": 0})
    given = training.Batches(data.DataLoader(np.arange(24), batch_sampler=data.BatchSampler(24, batch_size=6)))
    given.load_state_dict(state)
    assert next(given).tolist() == list(range(12, 18))
