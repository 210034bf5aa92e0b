"""Modules that hold others, or nothing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from .module import Module, checked_module

__all__ = ["Identity", "ModuleDict"]


class Identity(Module):
    """Gives back what it is given."""

    def forward(self, x: Any) -> Any:
        return x


class ModuleDict(Module):
    """Modules by name, whose parameters are found.

    Raises ValueError for a name that a Module has in use already, or that has a dot.
    """

    def __init__(self, modules: Mapping[str, Module] | None = None) -> None:
        super().__init__()
        for name, module in (modules or {}).items():
            self[name] = module

    def __setitem__(self, name: str, module: Module) -> None:
        if not name or "." in name or (name not in self._modules and hasattr(self, name)):
            raise ValueError(f"ModuleDict: a module cannot be named {name!r}: it is in use, or no name")
        setattr(self, name, checked_module("ModuleDict", module))

    def __getitem__(self, name: str) -> Module:
        module = self._modules.get(name)
        if module is None:
            raise KeyError(f"{name!r}: there are {', '.join(self.keys())}")
        return module

    def __delitem__(self, name: str) -> None:
        delattr(self, name)

    def __contains__(self, name: object) -> bool:
        return self._modules.get(name) is not None  # type: ignore[call-overload]

    def __len__(self) -> int:
        return len(list(self.children()))

    def __iter__(self) -> Iterator[str]:
        return iter(self.keys())

    def keys(self) -> list[str]:
        """The names."""
        return [name for name, module in self._modules.items() if module is not None]

    def values(self) -> list[Module]:
        """The modules."""
        return list(self.children())

    def items(self) -> list[tuple[str, Module]]:
        """Names and modules."""
        return list(zip(self.keys(), self.values()))
