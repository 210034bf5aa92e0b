"""What may take the place of a module's parameters, buffers and sub-modules, and what would be lost without a word."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ..tensor import Tensor
from ..tensor.arrays import as_array, device_of, to_device

__all__ = ["as_buffer", "check_trainable", "refuse_replacement", "refuse_unlisted"]

_DEPTH = 3  # Of lists in lists.


def as_buffer(owner: str, name: str, old: Tensor | None, value: Any) -> Tensor | None:
    """What a buffer becomes when `value` is assigned to it: a Tensor; arrays and numbers take its dtype and device.

    Raises:
        TypeError: for anything but numbers, and for a Tensor that wants a gradient, which no optimiser would see.
        ValueError: for an array or a number whose shape is another one.
    """
    if value is None:
        return None
    if isinstance(value, Tensor):
        if value.requires_grad:
            raise TypeError(
                f"{owner}.{name} is a buffer, which is saved but not trained; the value wants a gradient: assign "
                "value.detach(), compute it inside no_grad(), or make it an nn.Parameter"
            )
        return value
    if old is None:
        return Tensor(value)
    try:
        array = as_array(value, old.dtype)
    except (TypeError, ValueError) as error:
        raise TypeError(
            f"{owner}.{name} is a buffer and takes a Tensor, an array or a number, not {type(value).__name__}; "
            f"`del module.{name}` first to use the name for something else"
        ) from error
    if array.shape != old.shape:
        raise ValueError(
            f"{owner}.{name} is a buffer of shape {old.shape}, the value has shape {array.shape}: assign a Tensor to "
            "replace it by one of another shape"
        )
    return Tensor(to_device(array, device_of(old._data)))


def refuse_replacement(owner: str, name: str, old: Any, value: Any) -> None:
    """Raises TypeError: a parameter or module would no longer be trained, saved or broadcast."""
    if isinstance(old, Tensor):
        raise TypeError(
            f"{owner}.{name} is a Parameter; a {type(value).__name__} in its place would be neither trained nor saved. "
            f"To change its values: `with no_grad(): module.{name}.assign(value)`; to replace it: "
            f"`module.{name} = nn.Parameter(value)`; to use the name for something else: `del module.{name}` first"
        )
    raise TypeError(
        f"{owner}.{name} is a {type(old).__name__}; a {type(value).__name__} in its place would leave its parameters "
        f"untrained and unsaved: assign a Module or None, or `del module.{name}` first"
    )


def check_trainable(owner: str, name: str, value: Tensor) -> None:
    """Raises TypeError for a leaf that wants a gradient but is no Parameter: nothing would list, save or average it."""
    if value.requires_grad and value.is_leaf:
        raise TypeError(
            f"{owner}.{name}: a Tensor with requires_grad=True is not among the module's parameters, so it would be "
            "neither trained nor saved: assign nn.Parameter(value), or value.detach() if it is not to be trained"
        )


def refuse_unlisted(root: Any, module_class: type) -> None:
    """Raises TypeError for modules and parameters to be trained that only a list, tuple or dict of the tree holds."""
    tree = list(root.modules())
    known = {id(module) for module in tree}
    listed = {id(p) for module in tree for p in module._parameters.values()}
    for prefix, module in root.named_modules():
        for name, value in vars(module).items():
            if name in ("_parameters", "_buffers", "_modules") or not isinstance(value, list | tuple | dict):
                continue
            for found in _found(value, module_class, _DEPTH):
                tensors = [found] if isinstance(found, Tensor) else [] if id(found) in known else found._own()
                if any(t.requires_grad and t.is_leaf and id(t) not in listed for t in tensors):
                    where = f"{prefix}.{name}" if prefix else f"{type(root).__name__}.{name}"
                    raise TypeError(
                        f"{where} is a {type(value).__name__} that holds a {type(found).__name__} whose parameters no "
                        "module lists, so they would be neither trained nor saved: use nn.ModuleList or nn.Sequential, "
                        "assign each as an attribute of its own, or freeze it with requires_grad_(False)"
                    )


def _found(value: Any, module_class: type, depth: int) -> Iterator[Any]:
    if isinstance(value, (module_class, Tensor)):
        yield value
    elif depth and isinstance(value, list | tuple | dict):
        for part in value.values() if isinstance(value, dict) else value:
            yield from _found(part, module_class, depth - 1)
