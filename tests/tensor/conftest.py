"""Array modules to run on: NumPy always, CuPy where there is a GPU."""

import numpy as np
import pytest
from hypothesis import settings

settings.register_profile("tensor", derandomize=True, deadline=None, max_examples=25, database=None)
settings.load_profile("tensor")


def _gpu_arrays():
    cupy = pytest.importorskip("cupy")
    try:
        if cupy.cuda.runtime.getDeviceCount() == 0:
            pytest.skip("no GPU")
    except cupy.cuda.runtime.CUDARuntimeError:
        pytest.skip("no GPU")
    return cupy


@pytest.fixture(params=["numpy", pytest.param("cupy", marks=pytest.mark.gpu)])
def xp(request):
    return np if request.param == "numpy" else _gpu_arrays()
