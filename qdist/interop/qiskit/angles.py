"""Qiskit's parameter expressions as affine expressions of our parameters."""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping
from typing import Any

from qiskit.circuit import Parameter as QiskitParameter
from qiskit.circuit import ParameterExpression
from qiskit.circuit.parametervector import ParameterVectorElement as QiskitElement

from qdist.circuit import CircuitError, Parameter, ParameterVector
from qdist.circuit.parameters import Angle

__all__ = ["Angles"]


class Angles:
    """Turns parameters of one circuit of Qiskit into ours, each into one of its name.

    given: parameters of Qiskit with what stands for them.
    """

    def __init__(self, given: Mapping[Any, Angle] | None = None) -> None:
        self._made: MutableMapping[Any, Angle] = dict(given or {})
        self._vectors: dict[Any, ParameterVector] = {}

    def __call__(self, value: Any) -> Angle:
        """An angle: a float, or an affine expression. Raises CircuitError for any other expression, by name."""
        if type(value) is float:
            return value
        if isinstance(value, QiskitParameter):
            return self._parameter(value)
        if isinstance(value, ParameterExpression):
            return self._affine(value) if value.parameters else self._number(value)
        return self._number(value)

    def put(self, parameter: Any, value: Angle) -> None:
        """From now on the parameter stands for a value: that of a loop's pass."""
        self._made[parameter] = value

    @staticmethod
    def _number(value: Any) -> float:
        number = complex(value)
        if number.imag:
            raise CircuitError(f"angles are real numbers; got {value}")
        return number.real

    def _parameter(self, parameter: Any) -> Angle:
        found = self._made.get(parameter)
        if found is None:
            found = self._made[parameter] = self._new(parameter)
        return found

    def _new(self, parameter: Any) -> Parameter:
        if not isinstance(parameter, QiskitElement):
            return Parameter(parameter.name)
        vector = parameter.vector
        key = vector[0].uuid
        if key not in self._vectors:
            self._vectors[key] = ParameterVector(vector.name, len(vector))
        return self._vectors[key][parameter.index]

    def _affine(self, expression: Any) -> Angle:
        result: Any = 0.0
        for parameter in sorted(expression.parameters, key=lambda one: one.name):
            slope = expression.gradient(parameter)
            if isinstance(slope, ParameterExpression) and slope.parameters:
                raise CircuitError(
                    f"{expression} is not affine in {parameter.name}, and angles of qdist are sums of multiples of "
                    "parameters: give it a value with assign_parameters before, or compute it outside of the circuit"
                )
            result = result + self._number(slope) * self._parameter(parameter)
        constant = expression.bind({parameter: 0.0 for parameter in expression.parameters})
        return result + self._number(constant)
