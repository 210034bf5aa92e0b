"""Nested tuples, lists and dicts with tensors in them, as modules take and give them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from qdist.tensor import Tensor

__all__ = ["described", "mapped", "restored", "tensors_in"]


def tensors_in(value: Any) -> Iterator[Tensor]:
    """The tensors, in order."""
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, (tuple, list)):
        for part in value:
            yield from tensors_in(part)
    elif isinstance(value, dict):
        for part in value.values():
            yield from tensors_in(part)


def mapped(value: Any, change: Callable[[Tensor], Any]) -> Any:
    """The same with other tensors."""
    if isinstance(value, Tensor):
        return change(value)
    if isinstance(value, tuple):
        parts = [mapped(part, change) for part in value]
        return type(value)(*parts) if hasattr(value, "_fields") else tuple(parts)
    if isinstance(value, list):
        return [mapped(part, change) for part in value]
    if isinstance(value, dict):
        return {key: mapped(part, change) for key, part in value.items()}
    return value


def described(value: Any) -> Any:
    """What `restored` makes such a structure of, without the tensors' values; lists and plain values, fit for JSON.

    Raises TypeError for what is neither a tensor, a plain value nor a structure of them.
    """
    if isinstance(value, Tensor):
        return ["tensor", list(value.shape), value.dtype.str, value.device, value.requires_grad]
    if isinstance(value, tuple):
        return ["tuple", [described(part) for part in value]]
    if isinstance(value, list):
        return ["list", [described(part) for part in value]]
    if isinstance(value, dict) and all(isinstance(key, str) for key in value):
        return ["dict", [[key, described(part)] for key, part in value.items()]]
    if value is None or isinstance(value, (bool, int, float, str)):
        return ["value", value]
    raise TypeError(f"{type(value).__name__}")


def restored(description: Any, tensor: Callable[..., Any]) -> Any:
    """The structure that `described` was given. tensor: makes one of (shape, dtype, device, requires_grad)."""
    kind, content, *rest = description
    if kind == "tensor":
        return tensor(tuple(content), *rest)
    if kind == "tuple":
        return tuple(restored(part, tensor) for part in content)
    if kind == "list":
        return [restored(part, tensor) for part in content]
    if kind == "dict":
        return {key: restored(part, tensor) for key, part in content}
    return content
