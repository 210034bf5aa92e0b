"""Stand-ins: put into a model in the place of its modules, so that calls of them are steps of a pass.

Modules that are open run their forward code as it is: the model itself, lists of modules, and what holds such lists.
All others are closed: they run on one stage, as a whole.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from qdist.nn import Module, ModuleDict, ModuleList, Sequential
from qdist.parallel.pipeline.graph.traced import current_pass

__all__ = ["find", "open_modules", "open_up"]

_CONTAINERS = (ModuleList, ModuleDict, Sequential)


class StandIn(Module):
    """In the place of a closed module: calls, and reads of parameters from outside, are told to the pass."""

    def __init__(self, module: Module, name: str) -> None:
        super().__init__()
        object.__setattr__(self, "_inner", module)
        object.__setattr__(self, "_name", name)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        now = current_pass()
        return self._inner(*args, **kwargs) if now is None else now.call(self._name, self._inner, args, kwargs)

    def __getattr__(self, attribute: str) -> Any:
        inner, now = self.__dict__["_inner"], current_pass()
        name = f"{self.__dict__['_name']}.{attribute}"
        if now is not None and inner._parameters.get(attribute) is not None:
            return now.read(name, lambda: getattr(inner, attribute))
        value = getattr(inner, attribute)
        return value if now is None or not isinstance(value, Module) else StandIn(value, name)

    def __len__(self) -> int:
        return len(self._inner)

    def __iter__(self) -> Iterator[Any]:
        return (StandIn(child, f"{self._name}.{name}") for name, child in self._inner._modules.items() if child)

    def __getitem__(self, key: Any) -> Any:
        return list(self)[key]


def open_modules(model: Module, inside: list[str], depth: int) -> list[str]:
    """The names of the modules that stay open.

    Args:
        inside: names of modules at which stages begin: all around them are open.
        depth: how many levels of modules of one's own are open besides.
    """
    names = [""]
    for name in inside:
        parts = name.split(".")
        names += [".".join(parts[:count]) for count in range(1, len(parts))]

    def walk(module: Module, name: str, levels: int) -> None:
        for own, child in module._modules.items():
            if child is None:
                continue
            full = f"{name}.{own}" if name else own
            ours = type(child).__module__.partition(".")[0] == "qdist"
            listing = any(isinstance(grandchild, (ModuleList, ModuleDict)) for grandchild in child.children())
            if isinstance(child, _CONTAINERS) or full in names:
                names.append(full)
                walk(child, full, levels)
            elif not ours and (listing or (levels > 0 and any(child.children()))):
                names.append(full)
                walk(child, full, levels - (not listing))

    walk(model, "", depth)
    return list(dict.fromkeys(names))


def find(model: Module, name: str) -> Any:
    """The module of a dotted name, or the parameter."""
    found: Any = model
    for part in name.split(".") if name else ():
        found = found._modules[part] if found._modules.get(part) is not None else found._parameters[part]
    return found


def open_up(model: Module, names: list[str]) -> Callable[[], None]:
    """Puts stand-ins into the open modules; returns what takes them out again."""
    undo: list[Callable[[], None]] = []
    opened = {name: find(model, name) for name in names}
    for name, module in opened.items():
        for own, child in list(module._modules.items()):
            full = f"{name}.{own}" if name else own
            if child is not None and full not in opened:
                setattr(module, own, StandIn(child, full))
                undo.append(partial(setattr, module, own, child))
        if any(parameter is not None for parameter in module._parameters.values()):
            undo.append(_tell_reads(module, name))

    def close() -> None:
        for each in reversed(undo):
            each()

    return close


def _tell_reads(module: Module, name: str) -> Callable[[], None]:
    """Has reads of an open module's own parameters be steps; returns what undoes it."""
    before = type(module)

    def reading(own: str) -> property:
        shown = getattr(before, own, None)

        def value(self: Any) -> Any:
            return shown.__get__(self) if isinstance(shown, property) else self.__dict__[own]

        def read(self: Any) -> Any:
            now = current_pass()
            return value(self) if now is None else now.read(f"{name}.{own}" if name else own, lambda: value(self))

        def write(self: Any, new: Any) -> None:
            self.__dict__[own] = new

        return property(read, write)

    names = [own for own, parameter in module._parameters.items() if parameter is not None]
    module.__class__ = type(before.__name__, (before,), {own: reading(own) for own in names})

    def undo() -> None:
        module.__class__ = before

    return undo
