"""What a circuit that cannot be changed holds: as a plain circuit's, but refuses additions."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NoReturn

from .errors import CircuitError
from .instruction import Instruction
from .parameters import Parameter

__all__ = ["FrozenInstructions", "FrozenParameters"]


class FrozenInstructions(list[Instruction]):
    """The instructions."""

    __slots__ = ()

    def append(self, instruction: Instruction) -> None:
        _refuse()

    def extend(self, instructions: Iterable[Instruction]) -> None:
        _refuse()

    def __reduce__(self) -> tuple[Any, ...]:
        return FrozenInstructions, (list(self),)


class FrozenParameters(dict[str, Parameter]):
    """The parameters by name."""

    __slots__ = ()

    def setdefault(self, name: str, parameter: Parameter) -> Parameter:  # type: ignore[override]
        return self[name] if name in self else _refuse()


def _refuse() -> NoReturn:
    raise CircuitError("this circuit belongs to a compiled program and stays as it is: change a copy() of it")
