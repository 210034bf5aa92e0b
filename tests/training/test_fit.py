"""Engine.fit goes on in the midst of an epoch as if nothing had happened."""

from pathlib import Path

import numpy as np
import pytest

from qdist import data, nn, optim
from qdist.parallel.auto import Callback, Engine
from qdist.tensor import manual_seed

X = np.random.default_rng(0).normal(size=(20, 4)).astype(np.float32)
Y = np.random.default_rng(1).integers(0, 3, 20)


class Dies(Callback):
    def on_batch_end(self, engine, epoch: int, step: int, logs) -> None:
        if (epoch, step) == (1, 2):
            raise KeyboardInterrupt


def fit(callbacks=(), **options) -> tuple[list[dict], list[np.ndarray]]:
    manual_seed(3)
    model = nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.4), nn.Tanh(), nn.Linear(8, 3))
    engine = Engine(model, nn.CrossEntropyLoss(), optim.Adam(model.parameters(), lr=0.05))
    loader = engine.dataloader(data.ArrayDataset(X, Y), 4, shuffle=True, seed=1, epochs=3)
    history = engine.fit(loader, 3, valid_data=[(X, Y)], callbacks=callbacks, **options)
    return history, [parameter.numpy() for parameter in model.parameters()]


@pytest.mark.parametrize("every", [1, 2, 5])
def test_a_fit_that_died_goes_on_bit_by_bit(tmp_path: Path, every: int) -> None:
    want, values = fit()
    with pytest.raises(KeyboardInterrupt):
        fit([Dies()], folder=tmp_path, every=every)
    history, got = fit(folder=tmp_path, every=every)
    assert history == want
    assert len(history) == 3
    for a, b in zip(got, values, strict=True):
        np.testing.assert_array_equal(a, b)
    # All is over: the same call takes no step.
    assert fit([Dies()], folder=tmp_path)[0] == want
