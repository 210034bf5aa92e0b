"""VQNet's initialisers: each takes a shape and gives a QTensor of values, drawn from the default generator.

The functions are `qdist.nn.init`'s, which overwrite a tensor instead.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ....nn import init
from ....tensor import Tensor, no_grad
from ..dtypes import real
from ..tensor import QTensor

__all__ = [
    "Initializer",
    "fill",
    "he_normal",
    "he_uniform",
    "normal",
    "ones",
    "quantum_uniform",
    "uniform",
    "xavier_normal",
    "xavier_uniform",
    "zeros",
]

Initializer = Callable[[tuple[int, ...]], Any]
"""Takes a shape and gives values of it: a tensor or an array."""


def fill(parameter: Tensor, initializer: Initializer) -> None:
    """Overwrites a parameter with what the initialiser gives for its shape.

    Raises ValueError for values of another shape, and TypeError for none at all.
    """
    values = initializer(parameter.shape)
    if values is None:
        raise TypeError(
            f"{getattr(initializer, '__name__', initializer)!s} gave nothing for the shape {parameter.shape}: an "
            "initialiser takes a shape and gives the values, like those of utils.initializer"
        )
    with no_grad():
        parameter.assign(Tensor(values).to(parameter.dtype).to(parameter.device))


def _drawn(shape: Sequence[int], dtype: Any, draw: Callable[..., Any], *args: Any) -> QTensor:
    made = QTensor(np.empty(tuple(shape), real(dtype)))
    draw(made, *args)
    return made


def zeros(shape: Sequence[int], dtype: Any = None) -> QTensor:
    """0 everywhere."""
    return _drawn(shape, dtype, init.zeros_)


def ones(shape: Sequence[int], dtype: Any = None) -> QTensor:
    """1 everywhere."""
    return _drawn(shape, dtype, init.ones_)


def normal(shape: Sequence[int], mean: float = 0.0, std: float = 1.0, dtype: Any = None) -> QTensor:
    """Normally distributed."""
    return _drawn(shape, dtype, init.normal_, mean, std)


def uniform(shape: Sequence[int], low: float = 0.0, high: float = 1.0, dtype: Any = None) -> QTensor:
    """Uniform in [low, high)."""
    return _drawn(shape, dtype, init.uniform_, low, high)


def quantum_uniform(shape: Sequence[int], dtype: Any = None) -> QTensor:
    """Angles, uniform in [0, 2 pi)."""
    return uniform(shape, 0.0, 2 * math.pi, dtype)


def he_normal(shape: Sequence[int], dtype: Any = None) -> QTensor:
    """Normal with variance 2 / fan_in, of weights before a ReLU."""
    return _drawn(shape, dtype, init.kaiming_normal_)


def he_uniform(shape: Sequence[int], dtype: Any = None) -> QTensor:
    """Uniform with variance 2 / fan_in, of weights before a ReLU."""
    return _drawn(shape, dtype, init.kaiming_uniform_)


def xavier_normal(shape: Sequence[int], dtype: Any = None) -> QTensor:
    """Normal with variance 2 / (fan_in + fan_out)."""
    return _drawn(shape, dtype, init.xavier_normal_)


def xavier_uniform(shape: Sequence[int], dtype: Any = None) -> QTensor:
    """Uniform with variance 2 / (fan_in + fan_out)."""
    return _drawn(shape, dtype, init.xavier_uniform_)
