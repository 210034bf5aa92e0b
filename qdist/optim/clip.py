"""Gradient clipping."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from ..tensor import Tensor
from ..tensor.half import wide_array


def clip_grad_norm_(parameters: Tensor | Iterable[Tensor], max_norm: float) -> float:
    """Scale all gradients together so that their joint 2-norm is at most max_norm; returns the norm before.

    parameters: such as those of model.parameters(), or one.

    Raises:
        ValueError: for parameters of which ranks have parts: the error says what clips them.
        RuntimeError: when the norm is not finite; gradients are left as they are.
    """
    check_max_norm(max_norm)
    parameters = listed(parameters)
    for p in parameters:
        partition = getattr(p, "partition", None)
        if p.dispatch is not None:
            refuse("parallel.auto.clip_grad_norm_(parameters, max_norm)")
        if partition is not None and partition.comm.size > 1:
            refuse("parallel.clip_grad_norm_(parameters, max_norm)")
    check_here(parameters)
    grads = [p.grad for p in parameters if p.grad is not None]
    norm = math.sqrt(sum(squares(g) for g in grads))
    scale_gradients(grads, norm, max_norm)
    return norm


def listed(parameters: Any) -> list[Any]:
    """Parameters as a list; one, whose rows could be gone through as well, is a list of it. Raises TypeError for a
    module."""
    if hasattr(parameters, "parameters"):
        kind = type(parameters).__name__
        raise TypeError(f"clipping takes parameters such as those of model.parameters(), not {kind}")
    return [parameters] if isinstance(parameters, Tensor) else list(parameters)


def check_here(parameters: Iterable[Any]) -> None:
    """Raises ValueError for parameters whose gradients are to be clipped by who has divided the model."""
    for p in parameters:
        if (whole := getattr(p, "clipped_by", None)) is not None:
            refuse(whole)


def refuse(instead: str) -> None:
    """Raises the ValueError of gradients that are not all here."""
    raise ValueError(f"ranks have different parts of this model's gradient, and here is one alone: take {instead}")


def check_max_norm(max_norm: float) -> None:
    """Raises ValueError unless it is positive."""
    if isinstance(max_norm, str) or not max_norm > 0:
        raise ValueError(f"max_norm must be positive, got {max_norm!r}")


def squares(gradient: Tensor) -> float:
    """The sum of the squared absolute values."""
    flat = wide_array(gradient.data.reshape(-1))  # Half precision has no room for squares, nor for their sum.
    return float(abs((flat.conj() @ flat).real))


def scale_gradients(gradients: Iterable[Tensor], norm: float, max_norm: float) -> None:
    """Scales gradients whose joint norm is `norm`, in place, if that is above max_norm.

    Raises RuntimeError when the norm is not finite.
    """
    if not math.isfinite(norm):
        raise RuntimeError(f"the gradient norm is {norm}; look for NaN or infinity in the loss or the data")
    if norm > max_norm:
        for gradient in gradients:
            gradient.data *= max_norm / norm


def clip_grad_value_(parameters: Tensor | Iterable[Tensor], limit: float) -> None:
    """Keep every component of every gradient within [-limit, limit]; parameters as of `clip_grad_norm_`. Raises
    ValueError for complex gradients, and where ZeRO has divided them."""
    if not limit > 0:
        raise ValueError(f"limit must be positive, got {limit}")
    parameters = listed(parameters)
    check_here(parameters)
    for p in parameters:
        if p.grad is not None and p.grad.dtype.kind == "c":
            raise ValueError("a complex gradient has no order to clip its components by: take clip_grad_norm_")
    for p in parameters:
        if p.grad is not None:
            p.grad.data = p.grad.data.clip(-limit, limit)
