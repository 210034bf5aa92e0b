"""Descriptions of layers: what a pipeline builds on the ranks that keep it, and on no other."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

from qdist.nn import DeferredParameter, Module, deferred

__all__ = ["LayerDesc", "SharedLayerDesc", "build_layers"]


class LayerDesc:
    """A layer that is going to be make(*args, **options).

    Args:
        make: a class of Modules, or a function that gives one.
    """

    def __init__(self, make: Callable[..., Any], *args: Any, **options: Any) -> None:
        if not callable(make):
            raise TypeError(f"LayerDesc takes a class of layers or a function that makes one, not {make!r}")
        self.make, self.args, self.options = make, args, options

    def build(self) -> Any:
        """The layer."""
        return self.make(*self.args, **self.options)

    def __repr__(self) -> str:
        name = getattr(self.make, "__name__", repr(self.make))
        options = [f"{key}={value!r}" for key, value in self.options.items()]
        return f"{type(self).__name__}({', '.join([name, *map(repr, self.args), *options])})"


class SharedLayerDesc(LayerDesc):
    """A layer that shares a weight with all others of its key: a table that embeds tokens and scores them.

    Args:
        key: which layers share.
        make: as of LayerDesc.
        forward_func: forward_func(layer, x) in the place of layer(x).
        shared_weight_attr: the name of the weight in every one of them.
    """

    def __init__(
        self,
        key: str,
        make: Callable[..., Any],
        *args: Any,
        forward_func: Callable[..., Any] | None = None,
        shared_weight_attr: str = "weight",
        **options: Any,
    ) -> None:
        super().__init__(make, *args, **options)
        self.key, self.forward_func, self.shared_weight_attr = key, forward_func, shared_weight_attr

    def tied(self, layer: Any, shared: dict[str, Module]) -> Any:
        """The layer with the weight of the first of its key in `shared`, where it is put if it is the first."""
        first = shared.setdefault(self.key, layer)
        own, other = getattr(layer, self.shared_weight_attr), getattr(first, self.shared_weight_attr)
        if own.shape != other.shape:
            raise ValueError(f"layers of key {self.key!r} share a weight and have shapes {other.shape} and {own.shape}")
        setattr(layer, self.shared_weight_attr, other)
        return layer if self.forward_func is None else _CalledBy(layer, self.forward_func)


class _CalledBy(Module):
    """A layer that is called in a way of its own."""

    def __init__(self, layer: Module, call: Callable[..., Any]) -> None:
        super().__init__()
        self.layer, self._call = layer, call

    def forward(self, *values: Any) -> Any:
        return self._call(self.layer, *values)


def build_layers(layers: Sequence[Any], kept: Collection[int] | None) -> list[Any]:
    """Layers as given, with those that are described built without values: see nn.deferred.

    Args:
        layers: Modules, functions and descriptions.
        kept: the places of those that this rank is going to keep; the arrays that others are made of are freed as soon
            as their shapes are known. None where that is not decided yet.
    """
    shared: dict[str, Module] = {}
    made = []
    for place, layer in enumerate(layers):
        if isinstance(layer, LayerDesc):
            description = layer
            with deferred():
                layer = description.build()
                if isinstance(description, SharedLayerDesc):
                    layer = description.tied(layer, shared)
            if kept is not None and place not in kept and not isinstance(description, SharedLayerDesc):
                _forget(layer)
        made.append(layer)
    return made


def _forget(layer: Any) -> None:
    """Leave a layer's parameters their shapes alone."""
    for parameter in layer.parameters() if isinstance(layer, Module) else ():
        if not parameter.deferred:
            DeferredParameter.take_values(parameter)
