"""Cotangents of what was moved between devices."""

import contextlib

import numpy as np

from qdist.tensor import autograd


def test_the_cotangent_of_what_came_from_a_gpu_is_where_it_went() -> None:
    """NumPy's arrays have a device too, which is no context."""
    for g in (np.ones(2), [None, np.ones(2)]):
        with autograd._place(g) as place:
            assert place is None
    assert isinstance(autograd._place(np.ones(1)), contextlib.nullcontext)
