"""Stages: cuts of a list of layers."""

from itertools import combinations, pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from qdist import nn
from qdist.parallel import cut_into_stages


def layers_of(weights: list[int]) -> list:
    """Layers with so many parameters; a function where there are none."""
    return [nn.Linear(w, 1, bias=False) if w else (lambda x: x) for w in weights]


@pytest.mark.parametrize(
    ("stages", "by", "sizes"),
    [
        (1, "count", [5]),
        (2, "count", [3, 2]),
        (3, "count", [2, 2, 1]),
        (5, "parameters", [1] * 5),
        (2, "parameters", [4, 1]),
        (2, [1, 4], [1, 4]),
        (3, (2, 1, 2), [2, 1, 2]),
    ],
)
def test_cuts(stages: int, by: object, sizes: list[int]) -> None:
    parts = cut_into_stages(layers_of([1, 0, 2, 3, 7]), stages, by)
    assert [len(part) for part in parts] == sizes
    assert [number for part in parts for number in part] == list(range(5))


@settings(max_examples=40)
@given(st.lists(st.integers(0, 9), min_size=1, max_size=8), st.data())
def test_no_cut_has_a_lighter_heaviest_stage(weights: list[int], data: st.DataObject) -> None:
    stages = data.draw(st.integers(1, len(weights)))
    found = cut_into_stages(layers_of(weights), stages, "parameters")

    def heaviest(bounds: tuple[int, ...]) -> int:
        return max(sum(weights[a:b]) for a, b in pairwise((0, *bounds, len(weights))))

    best = min(heaviest(bounds) for bounds in combinations(range(1, len(weights)), stages - 1))
    assert heaviest(tuple(part.stop for part in found[:-1])) == best


@pytest.mark.parametrize(
    ("stages", "by", "message"),
    [
        (3, "count", "2 layers do not make 3 stages"),
        (0, "count", "do not make 0 stages"),
        (2, "size", "'size' is not known: use 'balanced', 'parameters', 'flops', 'time', 'count', a list"),
        (2, [2, 0], r"partition \[2, 0\]: 2 positive numbers are needed that add up to 2 layers"),
        (2, [1, 2], "add up to 2 layers"),
        (2, [2], "2 positive numbers"),
    ],
)
def test_what_does_not_fit_is_refused(stages: int, by: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        cut_into_stages([nn.Tanh(), np.tanh], stages, by)
