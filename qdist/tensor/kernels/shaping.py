"""Operations that move, pick, join or cut elements, and their derivatives."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..arrays import Array, add_at, add_rows_at, device_of, to_device


class Place:
    """Marks, inside an index key, the place of the next array input."""

    def __repr__(self) -> str:
        return "<array>"


PLACE = Place()


def move(xp: Any, a: Array, device: str) -> Any:
    return to_device(a, device), (device_of(a),)


def move_vjp(xp: Any, g: Array, saved: Any, needs: Any, device: str) -> Any:
    return (to_device(g, saved[0]),)


def reshape(xp: Any, a: Array, shape: tuple[int, ...]) -> Any:
    return a.reshape(shape), a.shape


def reshape_vjp(xp: Any, g: Array, saved: Any, needs: Any, shape: tuple[int, ...]) -> Any:
    return (g.reshape(saved),)


def transpose(xp: Any, a: Array, axes: tuple[int, ...]) -> Any:
    return a.transpose(axes), ()


def transpose_vjp(xp: Any, g: Array, saved: Any, needs: Any, axes: tuple[int, ...]) -> Any:
    inverse = [0] * len(axes)
    for position, axis in enumerate(axes):
        inverse[axis] = position
    return (g.transpose(inverse),)


def expand(xp: Any, a: Array, shape: tuple[int, ...]) -> Any:
    return xp.broadcast_to(a, shape), ()


def expand_vjp(xp: Any, g: Array, saved: Any, needs: Any, shape: tuple[int, ...]) -> Any:
    return (g,)


def concatenate(xp: Any, *arrays: Array, axis: int) -> Any:
    return xp.concatenate(arrays, axis=axis), tuple(a.shape[axis] for a in arrays)


def concatenate_vjp(xp: Any, g: Array, saved: Any, needs: Any, axis: int) -> Any:
    return tuple(xp.split(g, np.cumsum(saved)[:-1].tolist(), axis=axis))


def stack(xp: Any, *arrays: Array, axis: int) -> Any:
    return xp.stack(arrays, axis=axis), ()


def stack_vjp(xp: Any, g: Array, saved: Any, needs: Any, axis: int) -> Any:
    return tuple(xp.moveaxis(g, axis, 0))


def split(xp: Any, a: Array, sizes: tuple[int, ...], axis: int) -> Any:
    parts = xp.split(a, np.cumsum(sizes)[:-1].tolist(), axis=axis)
    return list(parts), tuple(part.shape for part in parts)


def split_vjp(xp: Any, g: Any, saved: Any, needs: Any, sizes: tuple[int, ...], axis: int) -> Any:
    whole = _side_by_side(g, axis) if xp is np else None
    if whole is not None:
        return (whole,)
    dtype = next(part.dtype for part in g if part is not None)
    parts = [xp.zeros(shape, dtype) if part is None else part for part, shape in zip(g, saved)]
    return (xp.concatenate(parts, axis=axis),)


def _side_by_side(parts: Any, axis: int) -> Array | None:
    """The array that these NumPy arrays are the parts of along an axis, if they lie in memory as such; else None."""
    first = parts[0]
    if len(parts) < 2 or any(part is None for part in parts) or first.base is None:
        return None
    place, length = _address(first), first.shape[axis]
    # The stride of an axis with one number means nothing.
    step = (_address(parts[1]) - place) // max(1, length)
    strides = (*first.strides[:axis], step, *first.strides[axis + 1 :])
    for part in parts[1:]:
        same = (*part.strides[:axis], step, *part.strides[axis + 1 :]) == strides and part.dtype == first.dtype
        if part.base is not first.base or not same or _address(part) != place + length * step:
            return None
        length += part.shape[axis]
    if step <= 0 or any(part.shape[axis] > 1 and part.strides[axis] != step for part in parts):
        return None
    shape = (*first.shape[:axis], length, *first.shape[axis + 1 :])
    return np.lib.stride_tricks.as_strided(first, shape, strides)


def _address(array: np.ndarray) -> int:
    return array.__array_interface__["data"][0]


def pad(xp: Any, a: Array, widths: tuple[tuple[int, int], ...], value: float) -> Any:
    return xp.pad(a, widths, constant_values=value), a.shape


def pad_vjp(xp: Any, g: Array, saved: Any, needs: Any, widths: Any, value: float) -> Any:
    return (g[tuple(slice(before, before + n) for (before, _), n in zip(widths, saved))],)


def flip(xp: Any, a: Array, axes: tuple[int, ...]) -> Any:
    return xp.flip(a, axes), ()


def flip_vjp(xp: Any, g: Array, saved: Any, needs: Any, axes: tuple[int, ...]) -> Any:
    return (xp.flip(g, axes),)


def roll(xp: Any, a: Array, shift: int, axis: int) -> Any:
    return xp.roll(a, shift, axis), ()


def roll_vjp(xp: Any, g: Array, saved: Any, needs: Any, shift: int, axis: int) -> Any:
    return (xp.roll(g, -shift, axis),)


def tril(xp: Any, a: Array, k: int) -> Any:
    return xp.tril(a, k), ()


def tril_vjp(xp: Any, g: Array, saved: Any, needs: Any, k: int) -> Any:
    return (xp.tril(g, k),)


def triu(xp: Any, a: Array, k: int) -> Any:
    return xp.triu(a, k), ()


def triu_vjp(xp: Any, g: Array, saved: Any, needs: Any, k: int) -> Any:
    return (xp.triu(g, k),)


def _key(key: tuple, arrays: tuple[Array, ...]) -> tuple:
    following = iter(arrays)
    return tuple(next(following) if part is PLACE else part for part in key)


def index(xp: Any, a: Array, *arrays: Array, key: tuple) -> Any:
    """a[key], where each PLACE in `key` stands for the next of `arrays` (integers or masks)."""
    return a[_key(key, arrays)], (a.shape, *arrays)


def index_vjp(xp: Any, g: Array, saved: Any, needs: Any, key: tuple) -> Any:
    shape, *arrays = saved
    out = xp.zeros(shape, g.dtype)
    if arrays:
        add_at(xp, out, _key(key, arrays), g)
    else:
        out[key] = g
    return (out, *(None for _ in arrays))


def gather(xp: Any, a: Array, indices: Array, axis: int, loss: str = "") -> Any:
    """out[i, j, k] = a[i, indices[i, j, k], k] for axis = 1, and so on, for all i, j, k that indices has.

    loss: the one that has checked its targets, these indices; a captured graph checks those of further batches.
    """
    _check_along("gather", a, indices, axis)
    return a[_along(xp, indices, axis)], (a.shape, indices)


def gather_vjp(xp: Any, g: Array, saved: Any, needs: Any, axis: int, loss: str = "") -> Any:
    shape, indices = saved
    out = xp.zeros(shape, g.dtype)
    add_at(xp, out, _along(xp, indices, axis), g)
    return out, None


def scatter_add(xp: Any, a: Array, indices: Array, source: Array, axis: int) -> Any:
    """A copy of a with source[i, j, k] added to [i, indices[i, j, k], k] for axis = 1, and so on, for all i, j, k that
    indices has. source broadcasts to their shape."""
    _check_along("scatter_add", a, indices, axis)
    shape, needed = np.shape(source), indices.shape
    if shape != needed and (
        len(shape) > len(needed) or any(n not in (1, m) for n, m in zip(shape[::-1], needed[::-1]))
    ):
        raise ValueError(
            f"scatter_add: a source of shape {shape} does not fit indices of shape {needed}: along each axis it needs "
            "at least as many numbers as they have, or one"
        )
    out = a.copy()
    add_at(xp, out, _along(xp, indices, axis), source)
    return out, (indices,)


def scatter_add_vjp(xp: Any, g: Array, saved: Any, needs: Any, axis: int) -> Any:
    (indices,) = saved
    return g, None, g[_along(xp, indices, axis)] if needs[2] else None


def _check_along(name: str, a: Array, indices: Array, axis: int) -> None:
    """Raises ValueError unless the places of indices, along all axes but the given one, are places of a; TypeError for
    indices that are not integers, of which masks would select in another way."""
    if indices.dtype.kind not in "iu":
        raise TypeError(f"{name} takes integer indices, got {indices.dtype}")
    pairs = zip(indices.shape, a.shape)
    if indices.ndim != a.ndim or any(n > m and i != axis for i, (n, m) in enumerate(pairs)):
        raise ValueError(
            f"{name}: indices of shape {indices.shape} do not fit a tensor of shape {a.shape}: they need as many axes, "
            f"and along all but axis {axis} at most its sizes; expand() repeats a tensor along an axis of length one"
        )


def _along(xp: Any, indices: Array, axis: int) -> tuple:
    """The key of the places that indices name along an axis, at their own places along the others. Sizes of one are
    places too and do not broadcast, other than in take_along_axis."""
    ranges = []
    for position, n in enumerate(indices.shape):
        shape = [1] * indices.ndim
        shape[position] = n
        ranges.append(indices if position == axis else xp.arange(n).reshape(shape))
    return tuple(ranges)


def embedding(xp: Any, table: Array, indices: Array) -> Any:
    """Rows of `table` (vocabulary, ...) for integer indices of any shape."""
    return table[indices], (table.shape, indices)


def embedding_vjp(xp: Any, g: Array, saved: Any, needs: Any) -> Any:
    shape, indices = saved
    out = xp.zeros(shape, g.dtype)
    rows = indices.reshape(-1)
    rows = xp.where(rows < 0, rows + shape[0], rows)
    add_rows_at(xp, out, rows, g.reshape(rows.size, *shape[1:]))
    return out, None
