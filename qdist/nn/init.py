"""Initial values of parameters, from the default generator.

Every function overwrites a tensor in place and returns it. Values are drawn on the CPU, so that they are
equal on every device.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..tensor import Tensor, no_grad, random
from .deferred import DeferredParameter, Draw

GAINS = {"linear": 1.0, "sigmoid": 1.0, "tanh": 5 / 3, "relu": math.sqrt(2)}


def _fill(tensor: Tensor, draw: Draw, random_values: bool = True) -> Tensor:
    if isinstance(tensor, DeferredParameter):
        tensor.draw_later(draw, random_values)
        return tensor
    with no_grad():
        return tensor.assign(Tensor(draw(random.default_generator())).to(tensor.dtype).to(tensor.device))


def uniform_(tensor: Tensor, low: float = 0.0, high: float = 1.0) -> Tensor:
    """Uniform in [low, high)."""
    shape, dtype = tensor.shape, _real(tensor)
    return _fill(tensor, lambda generator: generator.uniform(shape, low, high, dtype))


def normal_(tensor: Tensor, mean: float = 0.0, std: float = 1.0) -> Tensor:
    """Normal with the given mean and standard deviation."""
    shape, dtype = tensor.shape, _real(tensor)
    return _fill(tensor, lambda generator: generator.normal(shape, mean, std, dtype))


def constant_(tensor: Tensor, value: float) -> Tensor:
    """The same value everywhere."""
    shape, dtype = tensor.shape, _real(tensor)
    return _fill(tensor, lambda _: np.full(shape, value, dtype), random_values=False)


def zeros_(tensor: Tensor) -> Tensor:
    return constant_(tensor, 0.0)


def ones_(tensor: Tensor) -> Tensor:
    return constant_(tensor, 1.0)


def xavier_uniform_(tensor: Tensor, gain: float = 1.0) -> Tensor:
    """Uniform with variance 2 gain^2 / (fan_in + fan_out)."""
    fan_in, fan_out = fans(tensor.shape)
    bound = gain * math.sqrt(6 / (fan_in + fan_out))
    return uniform_(tensor, -bound, bound)


def xavier_normal_(tensor: Tensor, gain: float = 1.0) -> Tensor:
    """Normal with variance 2 gain^2 / (fan_in + fan_out)."""
    fan_in, fan_out = fans(tensor.shape)
    return normal_(tensor, 0.0, gain * math.sqrt(2 / (fan_in + fan_out)))


def kaiming_uniform_(tensor: Tensor, nonlinearity: str = "relu") -> Tensor:
    """Uniform with variance gain^2 / fan_in, the gain taken from the nonlinearity that follows."""
    bound = _gain(nonlinearity) * math.sqrt(3 / fans(tensor.shape)[0])
    return uniform_(tensor, -bound, bound)


def kaiming_normal_(tensor: Tensor, nonlinearity: str = "relu") -> Tensor:
    """Normal with variance gain^2 / fan_in, the gain taken from the nonlinearity that follows."""
    return normal_(tensor, 0.0, _gain(nonlinearity) / math.sqrt(fans(tensor.shape)[0]))


def orthogonal_(tensor: Tensor, gain: float = 1.0) -> Tensor:
    """Orthonormal rows (or columns, whichever are fewer) of the tensor seen as (first axis, all others)."""
    shape, dtype = tensor.shape, _real(tensor)
    rows, columns = shape[0], math.prod(shape[1:])

    def draw(generator: random.Generator) -> Any:
        q, r = np.linalg.qr(generator.normal((max(rows, columns), min(rows, columns)), dtype=np.float64))
        q = q * np.sign(np.diagonal(r))  # without this the distribution is not uniform over rotations
        q = (q if rows >= columns else q.T) * gain
        return q.reshape(shape).astype(dtype)

    return _fill(tensor, draw)


def fans(shape: tuple[int, ...]) -> tuple[int, int]:
    """(inputs, outputs) that one output, one input of a weight (out, in, *kernel) is connected to; 1 for an empty
    weight that has none, so that there is a deviation, of no numbers."""
    if len(shape) < 2:
        raise ValueError(f"fan-in and fan-out need a weight of at least 2 dimensions, got shape {shape}")
    window = math.prod(shape[2:])
    return shape[1] * window or 1, shape[0] * window or 1


def _gain(nonlinearity: str) -> float:
    if nonlinearity not in GAINS:
        raise ValueError(f"unknown nonlinearity {nonlinearity!r}: use one of {', '.join(GAINS)}")
    return GAINS[nonlinearity]


def _real(tensor: Tensor) -> np.dtype:
    """The real dtype in which values for a tensor are drawn."""
    return np.empty(0, tensor.dtype).real.dtype
