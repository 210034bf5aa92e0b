"""The quantum natural gradient: steps that are short in the space of states, not in that of the parameters."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..tensor import Tensor
from ..tensor.arrays import Array, module_of, to_device
from .optimizer import Optimizer, gradient_of

__all__ = ["QuantumNaturalGradient", "conjugate_gradients"]

Product = Callable[[NDArray[np.float64]], NDArray[np.float64]]


class QuantumNaturalGradient(Optimizer):
    """p <- p - lr d, where (F + damping) d = g and F is the metric tensor (Stokes et al., arXiv 1909.02108).

    The system is solved by conjugate gradients, so that F is never made: a step takes at most `iterations` products.

    Args:
        parameters: what is trained, in one group; together, laid end to end, they are what F is of.
        metric_vector: F times a vector at the current values, such as `layer.metric_vector` of a QuantumLayer, or
            `lambda v: program.metric_vector(theta.numpy(), v)`.
        lr: the learning rate. damping: added to the diagonal; makes small eigenvalues of F harmless.
        iterations: products of a step at most. tolerance: of |(F + damping) d - g| / |g|, at which it ends earlier.
    """

    def __init__(
        self,
        parameters: Iterable[Any],
        metric_vector: Product,
        lr: float = 0.05,
        damping: float = 1e-3,
        iterations: int = 50,
        tolerance: float = 1e-5,
    ) -> None:
        if not callable(metric_vector):
            raise TypeError(
                f"metric_vector is a function of a vector, not {type(metric_vector).__name__}: "
                "lambda v: program.metric_vector(weights, v)"
            )
        self._metric_vector = metric_vector
        super().__init__(parameters, {"lr": lr, "damping": damping, "iterations": iterations, "tolerance": tolerance})

    def _check(self, group: dict[str, Any]) -> None:
        super()._check(group)
        if self.param_groups:
            raise ValueError("QuantumNaturalGradient has one group: the metric is that of all parameters together")
        for name, least in (("damping", 0.0), ("iterations", 1), ("tolerance", 0.0)):
            if not group[name] >= least:
                raise ValueError(f"QuantumNaturalGradient: {name} must be at least {least}, got {group[name]}")
        if not isinstance(group["iterations"], int | np.integer):
            raise ValueError(f"QuantumNaturalGradient: iterations is a whole number, got {group['iterations']}")
        for p in group["params"]:
            if p.dtype.kind != "f":
                raise TypeError(f"QuantumNaturalGradient updates real parameters, which are angles; got {p.dtype}")

    def step(self) -> None:
        """Update the parameters, all of which have a gradient, or none."""
        (group,) = self.param_groups
        given: list[Tensor] = group["params"]
        grads = [p.grad for p in given]
        if all(g is None for g in grads):
            return
        if any(g is None for g in grads):
            raise ValueError("a parameter has no gradient, and the metric is that of all of them: train all or none")
        flat = np.concatenate([_host(gradient_of(p)).reshape(-1) for p in given]).astype(np.float64)
        damping = group["damping"]
        natural = conjugate_gradients(
            lambda v: self._metric_vector(v) + damping * v, flat, group["iterations"], group["tolerance"]
        )
        at = 0
        try:
            for p in given:
                part = natural[at : at + p.data.size].reshape(p.data.shape).astype(p.dtype)
                p.grad = Tensor(to_device(part, p.device))
                at += p.data.size
            super().step()
        finally:
            for p, grad in zip(given, grads):
                p.grad = grad

    def _direction(self, xp: Any, g: Array, state: dict[str, Array], step: int, group: dict[str, Any]) -> None:
        g *= group["lr"]


def conjugate_gradients(
    product: Product, right: NDArray[np.float64], iterations: int, tolerance: float
) -> NDArray[np.float64]:
    """x with A x = right for a symmetric positive definite A, given its product with a vector; from x = 0 (Hestenes and
    Stiefel, 1952). Stops after so many products, or where |A x - right| <= tolerance |right|."""
    x = np.zeros_like(right)
    residual = right.copy()
    direction = residual.copy()
    squared = float(residual @ residual)
    enough = tolerance**2 * squared
    for _ in range(iterations):
        if squared <= enough:
            break
        image = product(direction)
        curvature = float(direction @ image)
        if curvature <= 0:  # Rounding, where A is singular: nothing more is known of this direction.
            break
        x += squared / curvature * direction
        residual -= squared / curvature * image
        squared, before = float(residual @ residual), squared
        direction = residual + squared / before * direction
    return x


def _host(array: Array) -> NDArray[Any]:
    return array if module_of(array) is np else array.get()
