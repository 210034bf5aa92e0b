"""Kernels of our own for small arrays on a GPU: what they take, and that they give what NumPy gives."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from qdist.backends.cuda.compiling.nvrtc import Nvrtc
from qdist.comm import cuda_devices
from qdist.tensor import Tensor
from qdist.tensor.kernels import small_on_gpu

OPERATIONS: dict[str, Any] = {
    "add": np.add,
    "subtract": np.subtract,
    "multiply": np.multiply,
    "twice_the_product": lambda a, b: 2 * a * b,
}


def on_gpu(test: Any) -> Any:
    return pytest.mark.gpu(pytest.mark.skipif(cuda_devices() == 0, reason="no CUDA device")(test))


def test_what_has_other_strides_shapes_or_dtypes_is_left_to_cupy() -> None:
    a = np.ones((4, 6), np.float32)
    assert small_on_gpu.pairs("add", a[:, ::2], a[:, ::2]) is None
    assert small_on_gpu.pairs("add", a[:1], a) is None
    assert small_on_gpu.pairs("add", 2.0, a) is None
    assert small_on_gpu.pairs("add", a, 2.0) is None
    assert small_on_gpu.pairs("add", a.astype(float), a) is None
    assert small_on_gpu.pairs("add", a[:0], a[:0]) is None
    for other in (a.astype(np.complex64), a.astype(np.int64), a.astype(np.float16)):
        assert small_on_gpu.pairs("add", other, other) is None
        assert small_on_gpu.total(other) is None
    assert small_on_gpu.total(a.T) is None
    assert small_on_gpu.total(np.zeros(small_on_gpu._MOST + 1)) is None


def test_the_code_compiles() -> None:
    try:
        nvrtc = Nvrtc()
    except ImportError:
        pytest.skip("needs the nvidia-cuda-nvrtc-cu12 package")
    for name in ("float", "double"):
        assert "twice_the_product" in nvrtc.ptx(small_on_gpu._CODE, (f"-DReal={name}", "-arch=compute_90"))


@on_gpu
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("shape", [(), (1,), (5, 7), (3, 256), (2, 3, 10922)])
def test_results_are_those_of_numpy(shape: tuple[int, ...], dtype: str) -> None:
    import cupy

    rng = np.random.default_rng(len(shape))
    a, b = (np.asarray(rng.normal(size=shape), dtype) for _ in range(2))
    there, other = cupy.asarray(a), cupy.asarray(b)
    one = cupy.broadcast_to(cupy.asarray(a.ravel()[0]), shape)
    for name, wanted in OPERATIONS.items():
        np.testing.assert_allclose(small_on_gpu.pairs(name, there, other).get(), wanted(a, b), rtol=1e-6)
        np.testing.assert_allclose(small_on_gpu.pairs(name, one, other).get(), wanted(a.ravel()[0], b), rtol=1e-6)
    found = small_on_gpu.total(there)
    assert (found.shape, found.dtype) == ((), a.dtype)
    np.testing.assert_allclose(found.get(), a.sum(dtype=float), rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(small_on_gpu.total(there, a.size).get(), a.mean(dtype=float), rtol=1e-6, atol=1e-7)


@on_gpu
def test_a_sum_of_squares_and_its_gradient() -> None:
    values = np.random.default_rng(1).normal(size=(32, 4)).astype(np.float32)
    x = Tensor(values, requires_grad=True, device="cuda")
    (x * x).sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), 2 * values, rtol=1e-6)
    x.grad = None
    ((x - 1.0) * (x + x)).mean().backward()
    np.testing.assert_allclose(x.grad.numpy(), (4 * values - 2) / values.size, rtol=1e-5, atol=1e-7)


@on_gpu
def test_a_thread_that_has_not_used_the_gpu_yet() -> None:
    """The driver knows no context there."""
    x = Tensor(np.arange(6.0, dtype=np.float32), device="cuda")
    assert (x * x).sum().item() == 55.0
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(lambda: (x * x).sum().item()).result() == 55.0
