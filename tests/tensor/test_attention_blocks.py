"""Attention in blocks of queries against attention with all weights at once."""

import numpy as np
import pytest

from qdist.tensor import set_num_threads
from qdist.tensor.kernels import attention_blocks
from qdist.tensor.kernels.attention import attention, attention_vjp
from qdist.tensor.threads import num_threads

HOW = {"scale": 0.3, "p": 0.0, "ticket": None}


def _inputs(queries, keys, dtype, seed=0):
    row = np.random.default_rng(seed)
    q = row.standard_normal((3, queries, 2, 4)).astype(dtype).swapaxes(1, 2)
    k, v = (row.standard_normal((3, keys, 2, width)).astype(dtype).swapaxes(1, 2) for width in (4, 6))
    return q, k, v, row.standard_normal((3, 2, queries, 6)).astype(dtype)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(("queries", "keys"), [(1, 1), (1, 9), (40, 40), (61, 61), (40, 55), (70, 33), (129, 129)])
def test_blocks_give_what_all_weights_at_once_do(monkeypatch, queries, keys, causal):
    q, k, v, g = _inputs(queries, keys, np.float64)

    def run():
        out, saved = attention(np, q, k, v, causal=causal, **HOW)
        return saved[3].ndim, [out, *attention_vjp(np, g, saved, (True,) * 3, causal=causal, **HOW)]

    dimensions, blocked = run()
    monkeypatch.setattr(attention_blocks, "fits", lambda *arrays: False)
    at_once, wanted = run()
    assert (dimensions, at_once) == (1, 4)
    for made, expected in zip(blocked, wanted):
        np.testing.assert_allclose(made, expected, rtol=1e-12, atol=1e-13)


def test_causal_attention_keeps_little_more_than_the_weights_that_are_not_zero():
    q, k, v, _ = _inputs(128, 128, np.float32)
    whole = attention(np, q, k, v, causal=False, **HOW)[1][3]
    causal = attention(np, q, k, v, causal=True, **HOW)[1][3]
    assert whole.size == 3 * 2 * 128 * 128
    assert causal.size <= 0.75 * whole.size


def test_rows_of_a_batch_on_several_threads_are_those_of_one():
    q, k, v, g = _inputs(64, 64, np.float32)
    before = num_threads()
    found = []
    try:
        for count in (1, 3):
            set_num_threads(count)
            out, saved = attention(np, q, k, v, causal=True, **HOW)
            found.append([out, *attention_vjp(np, g, saved, (True,) * 3, causal=True, **HOW)])
    finally:
        set_num_threads(before)
    for one, several in zip(*found):
        np.testing.assert_array_equal(one, several)
