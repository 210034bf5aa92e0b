"""What names mean while a program is read: registers, constants and parameters, in nested scopes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

from .errors import Source
from .syntax import Node


@dataclass(frozen=True, slots=True)
class Wires:
    """Qubits or bits under one name. A `scalar` is a single one, which cannot be indexed."""

    wires: tuple[int, ...]
    scalar: bool = False

    def __len__(self) -> int:
        if self.scalar:
            raise TypeError("a single qubit or bit has no length")
        return len(self.wires)


class Qubits(Wires):
    __slots__ = ()

    def __getitem__(self, index: int) -> Qubits:
        return Qubits((self.wires[index],), scalar=True)

    def __str__(self) -> str:
        return "a qubit" if self.scalar else f"a register of {len(self.wires)} qubits"


class Bits(Wires):
    __slots__ = ()

    def __getitem__(self, index: int) -> Bits:
        return Bits((self.wires[index],), scalar=True)

    def __str__(self) -> str:
        return "a classical bit" if self.scalar else f"a register of {len(self.wires)} classical bits"


class Names:
    """The names of one scope, and behind them those of the scope around it."""

    __slots__ = ("_own", "_parent")

    def __init__(self, own: Mapping[str, Any] | None = None, parent: Names | None = None) -> None:
        self._own: dict[str, Any] = dict(own or {})
        self._parent = parent

    def define(self, name: str, value: Any, node: Node) -> None:
        """Give a name its meaning in this scope, once."""
        if name in self._own:
            raise node.error(f"'{name}' is already declared")
        self._own[name] = value

    def get(self, name: str) -> Any:
        """What a name means, or None."""
        if name in self._own:
            return self._own[name]
        return None if self._parent is None else self._parent.get(name)

    def value(self, name: str, source: Source, start: int, end: int) -> Any:
        """What a name means; a QasmError at `source.text[start:end]` where it means nothing."""
        found = self.get(name)
        if found is None:
            raise source.error(f"'{name}' is not declared{suggestion(name, self._visible())}", start, end)
        return found

    def constants(self) -> Names:
        """The numbers among these names, which are all that a gate's body sees of the program around it."""
        return _Constants(parent=self)

    def _visible(self) -> list[str]:
        return [*self._own, *(self._parent._visible() if self._parent else ())]


class _Constants(Names):
    """The numbers of the scope around it, now and later."""

    __slots__ = ()

    def get(self, name: str) -> Any:
        found = super().get(name)
        return found if isinstance(found, int | float) else None


def suggestion(name: str, known: list[str]) -> str:
    """`; did you mean 'x'?`, where a known name is close."""
    close = get_close_matches(name[:64], known[:1000], n=1)
    return f"; did you mean '{close[0]}'?" if close else ""
