"""ZeRO stage 3 has the next module's parameters come while one computes: the order, and how many are held."""

from __future__ import annotations

import numpy as np
import pytest

from qdist import nn, optim
from qdist.comm import counting_communicator
from qdist.parallel import Zero, recompute
from qdist.parallel.zero.shards import Unit
from qdist.tensor import Tensor, no_grad

WIDTH = 8
LAYERS = 4


@pytest.fixture
def events(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What happens, in order: "asks 2", "has 2", "frees 2" of the second layer's parameters; tests add computations."""
    noted: list[str] = []
    ask, gather, release = Unit.start_gathering, Unit.gather, Unit.release

    def asking(unit: Unit) -> bool:
        asked = ask(unit)
        if asked:
            noted.append(f"asks {name(unit)}")
        return asked

    def gathering(unit: Unit) -> object:
        if unit.full is None:
            noted.append(f"has {name(unit)}" if unit.arriving is not None else f"waits {name(unit)}")
        return gather(unit)

    def releasing(unit: Unit) -> None:
        if unit.full is not None and unit.holders == 0:
            noted.append(f"frees {name(unit)}")
        release(unit)

    monkeypatch.setattr(Unit, "start_gathering", asking)
    monkeypatch.setattr(Unit, "gather", gathering)
    monkeypatch.setattr(Unit, "release", releasing)
    return noted


def name(unit: Unit) -> str:
    return unit.parameters[0].layer


class Noting(nn.Linear):
    """A layer that tells when it computes."""

    def __init__(self, number: int, noted: list[str]) -> None:
        super().__init__(WIDTH, WIDTH, dtype=np.float64)
        self._noted, self._number = noted, number
        for parameter in self.parameters():
            parameter.layer = str(number)

    def forward(self, x: Tensor) -> Tensor:
        self._noted.append(f"computes {self._number}")
        return super().forward(x)


def build(events: list[str], ranks: int = 4) -> Zero:
    model = nn.Sequential(*(Noting(number, events) for number in range(LAYERS)))
    return Zero(model, optim.SGD(model.parameters(), lr=0.1), 3, counting_communicator(ranks))


def step(zero: Zero) -> None:
    zero.backward(zero(Tensor(np.ones((2, WIDTH)))).mean())
    zero.step()


def held_at_once(events: list[str]) -> int:
    """The most units that were here or on their way at a time."""
    held: set[str] = set()
    most = 0
    for event in events:
        what, layer = event.split()
        if what in ("asks", "has", "waits"):
            held.add(layer)
        elif what == "frees":
            held.discard(layer)
        most = max(most, len(held))
    return most


def test_the_next_layer_is_asked_for_before_one_computes(events: list[str]) -> None:
    zero = build(events)
    step(zero)
    assert not [event for event in events if event.startswith("asks")]  # Nobody knows the order yet.
    events.clear()
    step(zero)
    forward = events[: events.index("computes 3") + 1]
    assert forward == [
        "waits 0", "asks 1", "computes 0", "frees 0",
        "has 1", "asks 2", "computes 1", "frees 1",
        "has 2", "asks 3", "computes 2", "frees 2",
        "has 3", "computes 3",
    ]  # fmt: skip
    backward = [event for event in events[events.index("computes 3") + 1 :] if not event.startswith("frees")]
    assert backward == ["waits 3", "asks 2", "has 2", "asks 1", "has 1", "asks 0", "has 0"]
    assert held_at_once(events) == 2


def test_nothing_is_sent_that_is_not_used(events: list[str]) -> None:
    zero = build(events)
    counts = []
    for _ in range(3):
        zero.comm.messages.clear()
        step(zero)
        counts.append(sum(m.op == "all_gather" and m.bytes > 32 for m in zero.comm.messages))
    assert counts == [2 * LAYERS] * 3


def test_another_way_through_the_model_frees_what_came_in_vain(events: list[str]) -> None:
    zero = build(events)
    step(zero)
    layers = list(zero.module.children())
    x = Tensor(np.ones((2, WIDTH)))
    events.clear()
    with zero.freeing():
        layers[0](x)  # Layer 1 is asked for.
        layers[3](x)
    assert [unit for unit in zero.units if unit.arriving is not None] == []
    assert all(unit.full is None for unit in zero.units)
    assert held_at_once([event for event in events if event != "asks 1"]) == 1
    step(zero)


def test_parameters_that_came_before_a_step_are_not_used_after_it(events: list[str]) -> None:
    """On one rank values are real: an evaluation has the first layer's come, and then the optimiser changes it."""
    zero = build(events, 1)
    plain = nn.Sequential(*(nn.Linear(WIDTH, WIDTH, dtype=np.float64) for _ in range(LAYERS)))
    plain.load_state_dict(zero.state_dict())
    update, x = optim.SGD(plain.parameters(), lr=0.1), Tensor(np.ones((2, WIDTH)))
    for _ in range(3):
        with no_grad():
            zero(x)
        step(zero)
        update.zero_grad()
        plain(x).mean().backward()
        update.step()
    assert "asks 0" in events
    with no_grad():
        np.testing.assert_allclose(zero(x).numpy(), plain(x).numpy(), rtol=1e-13)


def test_recomputed_layers_come_in_time_too(events: list[str]) -> None:
    zero = build(events)
    for layer in zero.module.children():
        recompute(layer)
    step(zero)
    events.clear()
    step(zero)
    assert sum(event.startswith("waits") for event in events) <= 3
    assert held_at_once(events) <= 3
