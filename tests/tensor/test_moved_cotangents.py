"""Cotangents of what was moved between devices."""

import numpy as np

from qdist.tensor import autograd


def test_the_cotangent_of_what_came_from_a_gpu_is_where_it_went() -> None:
    """NumPy's arrays have a device too, which is no context."""
    for g in (np.ones(2), [None, np.ones(2)]):
        assert autograd._place(g) is None
