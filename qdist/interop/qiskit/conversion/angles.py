"""Qiskit's parameter expressions as expressions of our parameters: affine ones, products and functions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, MutableMapping
from typing import Any

from qiskit.circuit import Parameter as QiskitParameter
from qiskit.circuit import ParameterExpression
from qiskit.circuit.parametervector import ParameterVectorElement as QiskitElement

from qdist.circuit import CircuitError, Parameter, ParameterVector
from qdist.circuit.functions import elementary
from qdist.circuit.parameters import Angle

__all__ = ["Angles"]


class Angles:
    """Turns parameters of one circuit of Qiskit into ours, each into one of its name.

    given: parameters of Qiskit with what stands for them.
    """

    def __init__(self, given: Mapping[Any, Angle] | None = None) -> None:
        self._made: MutableMapping[Any, Angle] = dict(given or {})

    def __call__(self, value: Any) -> Angle:
        """An angle: a float or an expression. Raises CircuitError for one that we lack, by name."""
        if type(value) is float:
            return value
        if isinstance(value, QiskitParameter):
            found = self._made.get(value)
            if found is None:
                found = self._made[value] = self._new(value)
            return found
        if isinstance(value, ParameterExpression):
            return self._expression(value) if value.parameters else self._number(value)
        return self._number(value)

    def put(self, parameter: Any, value: Angle) -> None:
        """From now on the parameter stands for a value: that of a loop's pass, or after the loop what it was before."""
        self._made[parameter] = value

    @staticmethod
    def _number(value: Any) -> float:
        number = complex(value)
        if number.imag:
            raise CircuitError(f"angles are real numbers; got {value}")
        return number.real

    def _new(self, parameter: Any) -> Angle:
        if not isinstance(parameter, QiskitElement):
            return Parameter(parameter.name)
        # Qiskit makes the vector anew for every element that is asked for it: all elements are noted at once.
        vector = parameter.vector
        ours = ParameterVector(vector.name, len(vector))
        for element, own in zip(vector, ours):
            self._made.setdefault(element, own)
        return self._made[parameter]

    def _expression(self, expression: Any) -> Angle:
        """Replays how the expression is computed, step by step on a stack."""
        stack: list[Angle] = []
        for step in expression._qpy_replay:
            name = _name(step.op)
            function = _FUNCTIONS.get(name)
            if function is not None:
                stack.append(elementary(function, self._operand(step.lhs, stack)))
                continue
            operator = _OPERATORS.get(name)
            if operator is None:
                raise CircuitError(
                    f"{expression} has no counterpart in qdist because of {name.lower()}(): give it a value "
                    "with assign_parameters before, or compute it outside of the circuit"
                )
            right = self._operand(step.rhs, stack)
            stack.append(operator(self._operand(step.lhs, stack), right))
        (found,) = stack
        return found

    def _operand(self, operand: Any, stack: list[Angle]) -> Angle:
        return stack.pop() if operand is None else self(operand)


def _name(operation: Any) -> str:
    """SIN, of a Python enum in Qiskit 1 and of a compiled one in Qiskit 2, which has no attribute ``name``."""
    return getattr(operation, "name", None) or str(operation).rpartition(".")[2]


_FUNCTIONS = {
    "SIN": "sin",
    "COS": "cos",
    "TAN": "tan",
    "ASIN": "arcsin",
    "ACOS": "arccos",
    "ATAN": "arctan",
    "EXP": "exp",
    "LOG": "log",
}
_OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "ADD": lambda left, right: left + right,
    "SUB": lambda left, right: left - right,
    "RSUB": lambda left, right: right - left,
    "MUL": lambda left, right: left * right,
    "DIV": lambda left, right: left / right,
    "RDIV": lambda left, right: right / left,
    "POW": lambda left, right: left**right,
    "RPOW": lambda left, right: right**left,
}
