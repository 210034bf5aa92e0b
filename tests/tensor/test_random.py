"""Random numbers: reproducible, separate per rank, and drawable again."""

import numpy as np
import pytest

from qdist import tensor as qt
from qdist.tensor import Generator, functional, random


def test_equal_seeds_give_equal_numbers_and_ranks_differ():
    assert np.array_equal(Generator(5).normal((4,)), Generator(5).normal((4,)))
    assert not np.array_equal(Generator(5).normal((4,)), Generator(6).normal((4,)))
    assert not np.array_equal(Generator(5).normal((4,)), Generator(5, rank=1).normal((4,)))


def test_the_state_is_plain_integers_and_continues_the_stream():
    g = Generator(1)
    g.uniform((3,))
    state = g.state_dict()
    expected = g.normal((3,)), g.permutation(10)
    other = Generator(99)
    other.load_state_dict(state)
    assert np.array_equal(other.normal((3,)), expected[0])
    assert np.array_equal(other.permutation(10), expected[1])
    assert all(type(v) is int for v in (*state["key"], state["draw"]))


def test_the_default_generator_is_seeded_saved_and_restored():
    qt.manual_seed(4, rank=2)
    state = random.get_state()
    first = qt.rand(3).numpy()
    random.set_state(state)
    assert np.array_equal(qt.rand(3).numpy(), first)
    with random.using(Generator(4, rank=2)):
        assert np.array_equal(qt.rand(3).numpy(), first)
    assert not np.array_equal(qt.rand(3).numpy(), first)


def test_a_ticket_draws_the_same_mask_again():
    ticket = Generator(3).ticket()
    a, _ = random.keep_mask(np, ticket, (100, 7), 0.3)
    b, _ = random.keep_mask(np, ticket, (100, 7), 0.3)
    assert np.array_equal(a, b)


@pytest.mark.parametrize(
    ("shape", "index", "spans"),
    [
        ((2, 8, 6, 10), np.s_[:, 2:4], [(1, 8, ((2, 4),))]),
        ((2, 2, 6, 10), np.s_[..., [0, 1, 8, 9]], [(3, 10, ((0, 2), (8, 10)))]),
        ((2, 8, 6, 10), np.s_[:, 4:8, 3:5, 7:], [(3, 10, ((7, 10),)), (1, 8, ((4, 8),)), (2, 6, ((3, 5),))]),
        ((37,), np.s_[[30, 31, 5, 6, 7]], [(0, 37, ((30, 32), (5, 8)))]),
    ],
)
def test_a_part_of_a_mask_is_drawn_without_the_rest(shape, index, spans):
    ticket = Generator(3).ticket()
    want = random.keep_mask(np, ticket, shape, 0.4)[0][index]
    part = ticket.within(*(random.Span(*span) for span in spans))
    assert np.array_equal(random.keep_mask(np, part, want.shape, 0.4)[0], want)
    with pytest.raises(ValueError, match="does not have the"):
        random.keep_mask(np, part, tuple(n + 1 for n in want.shape), 0.4)


@pytest.mark.parametrize("p", [0.1, 0.5, 0.999])
def test_dropout_keeps_the_expectation(p):
    qt.manual_seed(0)
    x = qt.ones(1_000_000)
    y = functional.dropout(x, p).numpy()
    kept = (y != 0).mean()
    assert abs(kept - (1 - p)) < 4 * np.sqrt(p * (1 - p) / x.size)
    assert abs(y[y != 0][0] * (1 - p) - 1) < 0.02
    assert functional.dropout(x, p, training=False) is x


def test_distributions():
    g = Generator(0)
    u, n, i = g.uniform((100_000,), -1, 3), g.normal((100_000,), 2, 0.5), g.integers(0, 7, (70_000,))
    assert u.min() >= -1
    assert u.max() < 3
    assert abs(u.mean() - 1) < 0.02
    assert abs(n.mean() - 2) < 0.01
    assert abs(n.std() - 0.5) < 0.01
    assert u.dtype == n.dtype == np.float32
    assert g.normal((2,), dtype=np.float64).dtype == np.float64
    assert np.abs(np.bincount(i) - 10_000).max() < 500


def test_negative_seeds_are_refused():
    with pytest.raises(ValueError, match="negative"):
        Generator(-1)
