"""The state after a circuit that runs one time, without a plan (backends/cpu/unplanned.py)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from qdist.backends import chosen_device
from qdist.backends.cpu.unplanned import MOST_QUBITS, UnplannedGates
from qdist.circuit import Circuit, lowered
from qdist.circuit.binding import ParameterValues, flat_values
from qdist.circuit.circuit import checked_circuit
from qdist.circuit.measurements import split_final_measurements
from qdist.circuit.parameters import Expression, Parameter
from qdist.native import kernels
from qdist.plan.layout import Layout
from qdist.plan.precision import LONG
from qdist.state.checking import checks
from qdist.state.measuring.readout import Readout
from qdist.state.statevector import StateVector

__all__ = ["run_unplanned"]


def run_unplanned(circuit: Circuit, params: ParameterValues | None, device: str, dtype: Any) -> StateVector | None:
    """The state after a circuit, from |0...0>; None where a plan is worth its time or needed: for large states, on
    GPUs, and for circuits that are not unitary before their last measurements.

    Raises CircuitError and StateError as ``simulate`` does.
    """
    kind, n = checks.checked_dtype(dtype), checked_circuit(circuit).num_qubits
    if not 0 < n <= MOST_QUBITS or chosen_device(device, n, kind, None) != "cpu":
        return None
    own = lowered(circuit)
    body, readings = split_final_measurements(own.instructions) if own.num_clbits else (own.instructions, {})
    gates = UnplannedGates.of(body, n, kind)
    program = None if gates is None else gates.program(own.num_parameters > 0)
    if gates is None or program is None:
        return None
    state = _run(program, own, params, kind)
    if kind == np.complex64 and len(gates.which) >= LONG:
        state.scale_to(1.0)
    state.readout = Readout((0,) * own.num_clbits, readings, False) if readings else None
    return state


def _run(program: Any, circuit: Circuit, params: ParameterValues | None, dtype: np.dtype[Any]) -> StateVector:
    parameters = circuit.parameters
    program.bind(_angles(circuit, parameters, flat_values(parameters, [] if params is None else params)))
    state = StateVector.empty(circuit.num_qubits, dtype, None, Layout.identity(circuit.num_qubits), "cpu")
    program.run_from_zero(state.local)
    return state


def _angles(circuit: Circuit, parameters: Sequence[Parameter], theta: NDArray[np.float64]) -> NDArray[np.float64]:
    """All angles for these values of the parameters, modulo 4 pi."""
    values: dict[Any, float] = dict(zip(parameters, theta.tolist()))
    angles: list[float] = []
    for instruction in circuit.instructions:
        for angle in instruction.params:
            if not isinstance(angle, Expression):
                angles.append(angle)
            elif angle in values:  # A product or function of parameters is none of them.
                angles.append(values[angle])
            else:
                functions = circuit.functions
                return circuit.affine()(theta if functions is None else functions.extended(theta))
    kernels.reduce_angles(reduced := np.array([angles], dtype=np.float64))
    return reduced[0]
