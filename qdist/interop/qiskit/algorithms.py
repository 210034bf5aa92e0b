"""Gradients and geometric tensors for qiskit-algorithms: VQE, time evolution, natural gradients."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from qiskit_algorithms.algorithm_job import AlgorithmJob
from qiskit_algorithms.gradients import (
    BaseEstimatorGradient,
    BaseQGT,
    DerivativeType,
    EstimatorGradientResult,
    QGTResult,
)

from .estimator import Estimator
from .geometry import geometric_tensor
from .gradients import gradients, programs_of
from .jobs import in_order

__all__ = ["AdjointEstimatorGradient", "AdjointQGT"]


class AdjointEstimatorGradient(BaseEstimatorGradient):
    """Exact gradients of expectation values by the adjoint method, at the cost of about three runs of a circuit.

    All values and observables of equal circuits are one batch. Under ``mpirun`` the states are split, and every rank
    gets every gradient. Whatever precision is asked for is met.

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
        *,
        precision: Any = None,
    ) -> EstimatorGradientResult:
        part = self.derivative_type.name
        found = gradients(self._programs, circuits, observables, parameter_values, parameters, part)
        metadata = [{"parameters": wanted, "derivative_type": self.derivative_type} for wanted in parameters]
        return EstimatorGradientResult(gradients=found, metadata=metadata, precision=0.0)


class AdjointQGT(BaseQGT):
    """The quantum geometric tensor, exactly, by derivatives of states: what ReverseQGT gives.

    Args:
        phase_fix: whether to subtract <d_i psi|psi><psi|d_j psi>.
        derivative_type: the part of the tensor that is wanted. The real one with the phase fix, a fourth of the quantum
            Fisher information, takes memory for a few states; others for as many as there are parameters.
        estimator: the Estimator whose comm, device, dtype and plans are shared; None makes a new one.
    """

    def __init__(
        self,
        phase_fix: bool = True,
        derivative_type: DerivativeType = DerivativeType.COMPLEX,
        estimator: Estimator | None = None,
    ) -> None:
        self._programs = programs_of(estimator)
        super().__init__(estimator, phase_fix, derivative_type)

    def run(self, *args: Any, **kwargs: Any) -> AlgorithmJob:
        return in_order(self._programs.comm, super().run(*args, **kwargs))

    def _run(
        self,
        circuits: Sequence[Any],
        parameter_values: Any,
        parameters: Sequence[Sequence[Any]],
        *,
        precision: Any = None,
    ) -> QGTResult:
        found, metadata = [], []
        for circuit, values, wanted in zip(circuits, parameter_values, parameters):
            program = self._programs.read(circuit).program
            columns = self._programs.columns(program.circuit)
            theta = np.asarray(values, float)
            own = geometric_tensor(program, theta[columns], self._phase_fix, self.derivative_type.name)
            # A parameter that was cancelled out of all angles is none of ours.
            whole = np.zeros((len(theta), len(theta)), own.dtype)
            whole[np.ix_(columns, columns)] = own
            place = {parameter: k for k, parameter in enumerate(circuit.parameters)}
            chosen = [place[parameter] for parameter in wanted]
            found.append(whole[np.ix_(chosen, chosen)])
            metadata.append({"parameters": wanted})
        return QGTResult(found, self.derivative_type, metadata, precision=0.0)
