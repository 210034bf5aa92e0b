"""A circuit as a JAX function with custom_vjp, differentiated twice; how it is called is in calls.py.

vmap folds its dimension into the batch (custom_vmap): one call, whatever is vmapped. The derivative of the vjp is by
the tangent circuit; a third derivative is refused.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any
from weakref import WeakKeyDictionary

import jax
import jax.numpy as jnp
from jax.custom_batching import custom_vmap

from qdist.interop.circuit_maps import CircuitMaps

from .calls import alike, called

__all__ = ["in_rows", "real"]

NO_THIRD = (
    "circuits have first and second derivatives, and this asks for a third: jax.lax.stop_gradient what is not to be "
    "differentiated again"
)

Function = Callable[[Any, Any], Any]
_functions: WeakKeyDictionary[CircuitMaps, Function] = WeakKeyDictionary()


def real(*given: Any) -> list[Any]:
    """Arrays of the widest of their dtypes, float32 or float64. Raises TypeError for complex numbers."""
    arrays = [jnp.asarray(array) for array in given]
    dtype = jnp.result_type(*arrays)
    if jnp.issubdtype(dtype, jnp.complexfloating):
        raise TypeError(f"circuits take real numbers, which are angles; got {dtype}")
    if dtype not in (jnp.float32, jnp.float64):
        dtype = jnp.dtype(jnp.float32)
    return [array.astype(dtype) for array in arrays]


def in_rows(maps: CircuitMaps, x: Any, weights: Any) -> Any:
    """The outputs of a circuit, (..., outputs), for every row of x, (..., features), in one call."""
    # Of arrays without elements no length is inferred.
    rows = x.reshape(math.prod(x.shape[:-1]), x.shape[-1])
    return function_of(maps)(*alike(rows, weights)).reshape(*x.shape[:-1], maps.width)


def function_of(maps: CircuitMaps) -> Function:
    """(x, weights) -> (batch, outputs), for x of (batch, features) and weights of all rows or, (batch, weights), of
    each. The same object for the same circuit, so that jit traces it once."""
    made = _functions.get(maps)
    if made is None:
        made = _functions[maps] = _made(maps.handle, maps.width)
    return made


def _made(handle: str, width: int) -> Function:
    @custom_vmap
    def forward(x: Any, w: Any) -> Any:
        (found,) = called("forward", handle, [jax.ShapeDtypeStruct((x.shape[0], width), x.dtype)], x, w)
        return found

    @forward.def_vmap
    def _(size: int, batched: Any, x: Any, w: Any) -> Any:
        front = _front(x, batched[0], size)
        rows = front.shape[1]
        if batched[1] or w.ndim == 2:
            w, _shared = _of_each(w, batched[1], size, rows)
        return forward(_folded(front), w).reshape(size, rows, width), True

    @custom_vmap
    def backward(x: Any, w: Any, g: Any) -> Any:
        return tuple(called("backward", handle, _shapes(x, x, w), x, w, g))

    @backward.def_vmap
    def _(size: int, batched: Any, x: Any, w: Any, g: Any) -> Any:
        front = _front(x, batched[0], size)
        rows = front.shape[1]
        each, shared = _of_each(w, batched[1], size, rows)
        by_x, by_w = backward(_folded(front), each, _folded(_front(g, batched[2], size)))
        return (by_x.reshape(front.shape), _summed(by_w, size, rows, shared)), (True, True)

    @custom_vmap
    def second(x: Any, w: Any, g: Any, dx: Any, dw: Any) -> Any:
        return tuple(called("second", handle, _shapes(x, g, x, w), x, w, g, dx, dw))

    @second.def_vmap
    def _(size: int, batched: Any, x: Any, w: Any, g: Any, dx: Any, dw: Any) -> Any:
        front = _front(x, batched[0], size)
        rows = front.shape[1]
        each, shared = _of_each(w, batched[1], size, rows)
        along, _ = _of_each(dw, batched[4], size, rows)
        inner = [_folded(_front(array, there, size)) for array, there in ((g, batched[2]), (dx, batched[3]))]
        changes, by_x, by_w = second(_folded(front), each, *inner, along)
        found = changes.reshape(size, rows, width), by_x.reshape(front.shape), _summed(by_w, size, rows, shared)
        return found, (True, True, True)

    @jax.custom_vjp
    def circuit(x: Any, w: Any) -> Any:
        return forward(x, w)

    @jax.custom_vjp
    def circuit_vjp(x: Any, w: Any, g: Any) -> Any:
        return backward(x, w, g)

    @jax.custom_vjp
    def circuit_second(x: Any, w: Any, g: Any, dx: Any, dw: Any) -> Any:
        return second(x, w, g, dx, dw)

    def of_vjp(saved: Any, cotangents: Any) -> Any:
        changes, by_x, by_w = circuit_second(*saved, *cotangents)
        return by_x, by_w, changes

    def refused(saved: Any, cotangents: Any) -> Any:
        raise NotImplementedError(NO_THIRD)

    # What runs forward is differentiated again for the next order.
    circuit.defvjp(lambda x, w: (circuit(x, w), (x, w)), lambda saved, g: circuit_vjp(*saved, g))
    circuit_vjp.defvjp(lambda x, w, g: (circuit_vjp(x, w, g), (x, w, g)), of_vjp)
    circuit_second.defvjp(lambda *given: (circuit_second(*given), None), refused)
    return circuit


def _shapes(x: Any, *arrays: Any) -> list[jax.ShapeDtypeStruct]:
    return [jax.ShapeDtypeStruct(array.shape, x.dtype) for array in arrays]


def _front(array: Any, batched: bool, size: int) -> Any:
    return array if batched else jnp.broadcast_to(array, (size, *array.shape))


def _of_each(weights: Any, batched: bool, size: int, rows: int) -> tuple[Any, bool]:
    """Weights for every row of all, and whether rows of one element of the vmapped dimension share them."""
    front = _front(weights, batched, size)
    shared = front.ndim == 2
    each = jnp.broadcast_to(front[:, None], (size, rows, front.shape[-1])) if shared else front
    return each.reshape(size * rows, front.shape[-1]), shared


def _folded(array: Any) -> Any:
    return array.reshape(array.shape[0] * array.shape[1], *array.shape[2:])


def _summed(by_weights: Any, size: int, rows: int, shared: bool) -> Any:
    each = by_weights.reshape(size, rows, by_weights.shape[-1])
    return each.sum(1) if shared else each
