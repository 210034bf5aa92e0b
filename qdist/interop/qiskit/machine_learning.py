"""Gradients for qiskit-machine-learning: EstimatorQNN and whatever else takes a BaseEstimatorGradient."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from qiskit.providers import Options
from qiskit_machine_learning.algorithm_job import AlgorithmJob
from qiskit_machine_learning.gradients import BaseEstimatorGradient, DerivativeType, EstimatorGradientResult

from .estimator import Estimator
from .gradients import gradients, programs_of
from .jobs import in_order

__all__ = ["AdjointEstimatorGradient"]


class AdjointEstimatorGradient(BaseEstimatorGradient):
    """Exact gradients of expectation values by the adjoint method, at the cost of about three runs of a circuit.

    All values and observables of equal circuits are one batch. Under ``mpirun`` the states are split, and every rank
    gets every gradient. Options of a run, such as a precision, change nothing: values are exact.

    Args:
        estimator: the Estimator whose comm, device, dtype and plans are shared; None makes a new one.
        derivative_type: the part of 2 <psi|O|d psi> that is wanted; the gradient of the expectation value is the real
            one.
    """

    def __init__(
        self, estimator: Estimator | None = None, derivative_type: DerivativeType = DerivativeType.REAL
    ) -> None:
        self._programs = programs_of(estimator)
        super().__init__(estimator, derivative_type=derivative_type)

    def run(self, *args: Any, **kwargs: Any) -> AlgorithmJob:
        return in_order(self._programs.comm, super().run(*args, **kwargs))

    def _run(
        self,
        circuits: Sequence[Any],
        observables: Sequence[Any],
        parameter_values: Any,
        parameters: Sequence[Sequence[Any]],
        **options: Any,
    ) -> EstimatorGradientResult:
        part = self.derivative_type.name
        found = gradients(self._programs, circuits, observables, parameter_values, parameters, part)
        metadata = [{"parameters": wanted, "derivative_type": self.derivative_type} for wanted in parameters]
        return EstimatorGradientResult(gradients=found, metadata=metadata, options=Options(**options))
