"""The operators qdist::circuit, its vector-Jacobian product qdist::circuit_vjp, and qdist::circuit_second.

circuit(x, weights, handle) gives (batch, outputs) for x of (batch, features) and weights of all rows, (weights,), or of
each row, (batch, weights). The derivative of the vjp is circuit_second, by the tangent circuit; that one has no
derivative, and says so.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from qdist.interop.circuit_maps import found
from qdist.nn.quantum_map import Derivatives, Kept

from .arrays import DTYPES, Lent, as_array, as_tensor, device_name, lies_plain, module_on, number_and_gradient

__all__ = ["circuit", "circuit_second", "circuit_vjp", "map_of", "pulled_back", "read", "read_number"]


def map_of(x: Tensor, handle: str) -> Any:
    """The circuit of a handle, for x's precision and device. Raises TypeError where no circuit runs in them."""
    dtype = DTYPES.get(x.dtype)
    if dtype is None:
        raise TypeError(f"circuits take torch.float32 or torch.float64, which are angles; got {x.dtype}")
    return found(handle).of(device_name(x), dtype)


def read(circuit_map: Any, x: Tensor, weights: Tensor, differentiated: bool) -> tuple[Tensor, Any]:
    """What qdist::circuit gives, and what `pulled_back` takes of it, as long as x and weights do not change;
    differentiated: whether it will be called."""
    rows = circuit_map.map
    if x.is_cpu and rows.takes_lent and rows.takes_rows(x.shape[0]) and weights.ndim == 1 and _are_lent(x, weights):
        values, kept = rows.read_lent(Lent(x), Lent(weights))
        return torch.from_numpy(values.copy()), _OfRows(values, kept)  # What is returned may be changed in place.
    _check_device(x, weights)
    with module_on(x) as xp:
        xp = circuit_map.module(xp, x, weights)
        found, saved = circuit_map.forward_saved(xp, as_array(xp, x), as_array(xp, weights), differentiated)
        if isinstance(saved, Derivatives):
            return _on_device_of(x, found, saved)
        return as_tensor(xp, found, x), saved


class _OfRows(NamedTuple):
    """What a forward of rows on the CPU leaves, beside x and the weights."""

    values: NDArray[Any]
    kept: Kept


def _are_lent(x: Tensor, weights: Tensor) -> bool:
    return weights.is_cpu and lies_plain(x) and lies_plain(weights)


def _check_device(x: Tensor, weights: Tensor) -> None:
    if x.device != weights.device:
        raise TypeError(f"the weights are on {weights.device} and x is on {x.device}: move one with to(device)")


def _on_device_of(x: Tensor, found: Any, derivatives: Derivatives) -> tuple[Tensor, Derivatives]:
    """One number and its derivatives, in one copy."""
    together = as_tensor(np, np.concatenate([found.ravel(), *map(np.ravel, derivatives)]).astype(found.dtype), x)
    number, by_x, by_weights = together.split([1, derivatives.by_x.size, derivatives.by_weights.size])
    return number.view(1, 1).clone(), Derivatives(by_x.view(1, -1), by_weights)


def read_number(circuit_map: Any, params: Tensor) -> tuple[Tensor, Tensor]:
    """The only number of one set of parameters, (parameters,), and its gradient."""
    with module_on(params) as xp:
        if circuit_map.reads_there:
            found, gradient = circuit_map.number_there(xp, as_array(xp, params))
            return torch.from_dlpack(found), torch.from_dlpack(gradient)
        given = as_array(np, params)
        queued = circuit_map.queued_number(given)
        if queued is not None:
            return torch.from_dlpack(queued[0]), torch.from_dlpack(queued[1])
        number, gradient = circuit_map.number(given)
        return number_and_gradient(number, gradient, params)


def pulled_back(
    circuit_map: Any, x: Tensor, weights: Tensor, g: Tensor, needs: tuple[bool, bool], saved: Any = None
) -> tuple[Tensor | None, Tensor | None]:
    """dL/dx and dL/dweights; None where they are not needed."""
    if saved.__class__ is _OfRows:
        g = g if lies_plain(g) else g.resolve_neg().contiguous()
        by_x, by_weights = circuit_map.map.pull_back_lent(Lent(x), Lent(weights), Lent(g), *saved, needs)
        return None if by_x is None else torch.from_numpy(by_x), None if by_weights is None else torch.from_numpy(
            by_weights
        )
    if isinstance(saved, Derivatives):
        return g * saved.by_x if needs[0] else None, g[0] * saved.by_weights if needs[1] else None
    with module_on(x) as xp:
        xp = circuit_map.module(xp, x, weights)
        # What was saved has x and the weights.
        given = (None, None) if saved else (as_array(xp, x), as_array(xp, weights))
        first, second = circuit_map.backward(xp, *given, as_array(xp, g), needs, saved)
        return None if first is None else as_tensor(xp, first, x), None if second is None else as_tensor(xp, second, x)


@torch.library.custom_op("qdist::circuit", mutates_args=())
def circuit(x: Tensor, weights: Tensor, handle: str) -> Tensor:
    circuit_map = map_of(x, handle)
    _check_device(x, weights)
    with module_on(x) as xp:
        xp = circuit_map.module(xp, x, weights)
        return as_tensor(xp, circuit_map.forward(xp, as_array(xp, x), as_array(xp, weights)), x)


@circuit.register_fake
def _(x: Tensor, weights: Tensor, handle: str) -> Tensor:
    return x.new_empty((x.shape[0], found(handle).width))


@torch.library.custom_op("qdist::circuit_vjp", mutates_args=())
def circuit_vjp(
    x: Tensor, weights: Tensor, g: Tensor, handle: str, by_x: bool, by_weights: bool
) -> tuple[Tensor, Tensor]:
    """dL/dx and dL/dweights; empty where not asked for."""
    first, second = pulled_back(map_of(x, handle), x, weights, g, (by_x, by_weights))
    return x.new_empty(0) if first is None else first, x.new_empty(0) if second is None else second


@circuit_vjp.register_fake
def _(x: Tensor, weights: Tensor, g: Tensor, handle: str, by_x: bool, by_weights: bool) -> tuple[Tensor, Tensor]:
    return x.new_empty(x.shape if by_x else 0), x.new_empty(weights.shape if by_weights else 0)


@torch.library.custom_op("qdist::circuit_second", mutates_args=())
def circuit_second(
    x: Tensor, weights: Tensor, g: Tensor, dx: Tensor, dweights: Tensor, handle: str
) -> tuple[Tensor, Tensor, Tensor]:
    """The changes of the outputs along dx and dweights, and the derivatives of their product with g."""
    with module_on(x):
        arrays = (as_array(np, tensor) for tensor in (x, weights, g, dx, dweights))
        changes, by_x, by_weights = (as_tensor(np, part, x) for part in map_of(x, handle).second(np, *arrays))
        return changes, by_x, by_weights


@circuit_second.register_fake
def _(
    x: Tensor, weights: Tensor, g: Tensor, dx: Tensor, dweights: Tensor, handle: str
) -> tuple[Tensor, Tensor, Tensor]:
    return x.new_empty(g.shape), x.new_empty(x.shape), x.new_empty(weights.shape)


# Derivatives: what torch.compile and whoever calls an operator by its name go through. -------------------------------

NO_THIRD = (
    "circuits have first and second derivatives, and this asks for a third: detach what is not to be differentiated "
    "again, or leave create_graph=True out of the second backward"
)

NO_FORWARD_TWICE = (
    "circuits are differentiated twice at most, and forward once: take jacrev in the place of the inner jacfwd or jvp, "
    "as torch.func.hessian does"
)


def keep(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
    """Saves what the vjp takes."""
    x, weights, ctx.handle = inputs
    _hold(ctx)
    ctx.save_for_backward(x, weights)


def _hold(ctx: Any) -> None:
    """Keeps the circuit for the derivative: a loss may have made its program or layer inside itself. What is compiled
    has the handle alone."""
    if not torch.compiler.is_compiling():
        ctx.circuit = found(ctx.handle)


def _pull_back(ctx: Any, g: Tensor) -> tuple[Tensor | None, Tensor | None, None]:
    by_x, by_weights = ctx.needs_input_grad[:2]
    first, second = circuit_vjp(*ctx.saved_tensors, g, ctx.handle, by_x, by_weights)
    return first if by_x else None, second if by_weights else None, None


def keep_vjp(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
    """Saves what the derivative of the vjp takes."""
    x, weights, g, ctx.handle, ctx.by_x, ctx.by_weights = inputs
    _hold(ctx)
    ctx.save_for_backward(x, weights, g)


def keep_second(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
    """Saves what the derivatives of circuit_second by the tangents take; those that are zero stay None."""
    x, weights, g, _, _, ctx.handle = inputs
    _hold(ctx)
    ctx.save_for_backward(x, weights, g)
    ctx.set_materialize_grads(False)


def tangents(ctx: Any, x: Tensor, weights: Tensor, dx: Tensor | None, dweights: Tensor | None) -> tuple[Tensor, Tensor]:
    """The cotangents of the vjp's results, zeros for those that were not asked for."""
    dx = torch.zeros_like(x) if dx is None or not ctx.by_x else dx
    dweights = torch.zeros_like(weights) if dweights is None or not ctx.by_weights else dweights
    return dx, dweights


def _pull_back_vjp(ctx: Any, dx: Tensor | None, dweights: Tensor | None) -> tuple[Tensor | None, ...]:
    x, weights, g = ctx.saved_tensors
    changes, by_x, by_weights = circuit_second(x, weights, g, *tangents(ctx, x, weights, dx, dweights), ctx.handle)
    return by_x, by_weights, changes, None, None, None


def _refuse(ctx: Any, *cotangents: Any) -> Any:
    raise RuntimeError(NO_THIRD)


circuit.register_autograd(_pull_back, setup_context=keep)
circuit_vjp.register_autograd(_pull_back_vjp, setup_context=keep_vjp)
circuit_second.register_autograd(_refuse)
