"""Tangents of angles as expressions: the derivative of an expression along tangents of its parameters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from qdist.circuit import Parameter
from qdist.circuit.functions import Elementary, Function
from qdist.circuit.parameters import Angle, Expression, total

__all__ = ["Tangents"]


class Tangents:
    """A tangent, a Parameter of its own, for each of some parameters; and what follows from them for expressions."""

    def __init__(self, parameters: Sequence[Parameter]) -> None:
        names = {parameter.name for parameter in parameters}
        prefix = "d "
        while any(prefix + name in names for name in names):
            prefix = "d" + prefix
        self.parameters = tuple(Parameter(prefix + parameter.name) for parameter in parameters)
        self._known: dict[Parameter, Angle] = dict(zip(parameters, self.parameters))

    def of(self, angle: Angle) -> Angle:
        """The change of an angle; 0.0 where it is a number."""
        if not isinstance(angle, Expression):
            return 0.0
        return total(coefficient * self._symbol(symbol) for symbol, coefficient in angle.terms.items())

    def _symbol(self, symbol: Parameter) -> Angle:
        if symbol not in self._known:
            assert isinstance(symbol, Function), "a symbol is a parameter or a function of some"
            self._known[symbol] = self._function(symbol)
        return self._known[symbol]

    def _function(self, symbol: Function) -> Angle:
        operation, arguments = symbol.call
        changes = [self.of(argument) for argument in arguments]
        if not isinstance(operation, Elementary):
            return operation.change(arguments, changes, symbol.output)
        partials = operation.partials(_Symbolic, arguments)
        return total(partial * change for partial, change in zip(partials, changes) if isinstance(change, Expression))


class _Symbolic:
    """What the table of derivatives takes from NumPy, for expressions."""

    @staticmethod
    def where(condition: Any, value: Any, otherwise: Any) -> Any:
        return value if condition is True else otherwise

    divide, power, log, exp, sin, cos, tan = np.divide, np.power, np.log, np.exp, np.sin, np.cos, np.tan
    arcsin, arccos, arctan, tanh, sqrt = np.arcsin, np.arccos, np.arctan, np.tanh, np.sqrt
