"""How a JAX computation calls a circuit, which runs on the host: by one of three ways.

On the CPU by XLA's foreign functions: the native module hands over XLA's own buffers, and results are written there. By
pure_callback on other devices, which copies to the host and back, and with a JAX whose interface does not fit. On
several ranks, which must all make the same exchanges in the same order, by io_callback in the order of the program:
XLA may run independent calls in any order, and at the same time.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from functools import cache
from typing import Any

import jax
import numpy as np
from jax.experimental import io_callback
from numpy.typing import NDArray

from qdist.interop.circuit_maps import found
from qdist.native import kernels

__all__ = ["alike", "called"]

_TARGET = "qdist_circuit"


def called(what: str, handle: str, shapes: Sequence[jax.ShapeDtypeStruct], *arrays: Any) -> list[Any]:
    """Arrays of these shapes: the "forward", "backward" or "second" of a circuit, which ``_run`` has."""

    def on_host(*given: Any) -> list[NDArray[Any]]:
        return _run(what, handle, [np.asarray(array) for array in given])

    def by_callback(*given: Any) -> list[Any]:
        return list(jax.pure_callback(on_host, list(shapes), *given))

    def foreign(*given: Any) -> list[Any]:
        return list(jax.ffi.ffi_call(_TARGET, list(shapes))(*given, call=f"{what} {handle}"))

    comm = found(handle).comm
    if comm is not None and comm.size > 1:
        return list(io_callback(on_host, list(shapes), *arrays, ordered=True))
    if not _is_registered():
        results = by_callback(*arrays)
    elif _platforms() == {"cpu"}:
        results = foreign(*arrays)
    else:
        results = jax.lax.platform_dependent(*arrays, cpu=foreign, default=by_callback)
    return _varying(results, _axes(arrays))


def alike(*arrays: Any) -> list[Any]:
    """Arrays that are typed as different from shard to shard of a shard_map along the same axes, as one operation takes
    them; where they were not, their derivatives are summed over the shards."""
    return _varying(arrays, _axes(arrays))


def _axes(arrays: Sequence[Any]) -> frozenset[str]:
    """The axes of a shard_map along which one of the arrays is typed as different; older versions of JAX type none."""
    found: frozenset[str] = frozenset()
    for array in arrays if hasattr(jax, "typeof") else ():
        kind = jax.typeof(array)
        manual = getattr(kind, "manual_axis_type", None)
        found |= getattr(kind, "vma", found) if manual is None else manual.varying
    return found


def _varying(arrays: Sequence[Any], axes: frozenset[str]) -> list[Any]:
    if not axes:
        return list(arrays)
    found = []
    for array in arrays:
        missing = tuple(axes - _axes([array]))
        if missing:
            pcast = getattr(jax.lax, "pcast", None)
            array = pcast(array, missing, to="varying") if pcast else jax.lax.pvary(array, missing)
        found.append(array)
    return found


def _run(what: str, handle: str, arrays: Sequence[NDArray[Any]]) -> list[NDArray[Any]]:
    circuit: Any = found(handle).of("cpu", arrays[0].dtype)
    if what == "forward":
        return [circuit.forward(np, *arrays)]
    if what == "backward":
        return circuit.backward(np, *arrays, (True, True))  # type: ignore[no-any-return]
    return circuit.second(np, *arrays)  # type: ignore[no-any-return]


def _receive(call: str, arguments: list[NDArray[Any]], results: list[NDArray[Any]]) -> None:
    what, handle = call.split()
    for result, array in zip(results, _run(what, handle, arguments), strict=True):
        np.copyto(result, array)


@cache
def _is_registered() -> bool:
    """Whether XLA knows the native module's function."""
    try:
        jax.ffi.register_ffi_target(_TARGET, kernels.xla_function(_receive), platform="cpu")
    except Exception as error:  # What jaxlib raises is not said anywhere.
        logging.getLogger("qdist").warning(
            "circuits in JAX run by pure_callback, which copies: XLA's foreign functions (jax.ffi) are missing, or do "
            "not fit: %s",
            error,
        )
        return False
    return True


def _platforms() -> set[str]:
    from jax.extend.backend import backends

    return set(backends())
