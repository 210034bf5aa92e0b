"""Few layouts for many strings, found without a single amplitude."""

import numpy as np
import pytest
from states import random_layout

from qdist.plan import Layout
from qdist.plan.observables.cover import cover


def check(masks: list[int], layout: Layout, bits: int) -> int:
    """All masks are served once, under a layout that the swaps lead to; returns the number of exchanges."""
    groups = cover(masks, layout, bits)
    assert groups[0].swaps == ()
    assert groups[0].layout == layout
    for group in groups:
        for close, far in group.swaps:
            assert close < bits <= far
            layout = layout.swap(close, far)
        assert group.layout == layout
        assert all(layout.to_physical(mask) < 1 << bits for mask in group.masks)
    assert sorted(mask for group in groups for mask in group.masks) == sorted(masks)
    return len(groups) - 1


@pytest.mark.parametrize("far", [1, 3, 6, 10])
def test_a_chain_needs_one_exchange_on_any_number_of_ranks(far: int) -> None:
    """As long as all far qubits and their neighbours can be close at once."""
    n = 30
    chain = [3 << q for q in range(n - 1)]
    assert check(chain, Layout.identity(n), n - far) == 1
    assert check([*chain, 0], Layout([*range(1, n), 0]), n - far) == 1


def test_nothing_to_flip_and_close_flips_need_none() -> None:
    assert check([0], Layout.identity(8), 3) == 0
    assert check([], Layout.identity(8), 3) == 0
    assert check([1, 2, 7], Layout.identity(8), 3) == 0


def test_all_pairs_and_random_masks() -> None:
    n = 12
    pairs = [1 << a | 1 << b for a in range(n) for b in range(a)]
    # Every pair of the 12 qubits must be close once: at least 66 / 36 layouts of 9 qubits, and 3 can do it.
    assert check(pairs, random_layout(n), 9) <= 3
    rng = np.random.default_rng(0)
    for seed in range(10):
        masks = {sum(1 << int(q) for q in rng.permutation(n)[: rng.integers(0, 6)]) for _ in range(40)}
        assert check(sorted(masks), random_layout(n, seed), 5) <= len(masks)


def test_only_the_needed_qubits_move_and_the_highest_positions_make_room() -> None:
    (_, group) = cover([1 << 9], Layout.identity(10), 7)
    assert group.swaps == ((6, 9),)
