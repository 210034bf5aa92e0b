"""The state after a circuit that runs one time, without a plan (backends/cpu/unplanned.py)."""

from __future__ import annotations

from typing import Any

import numpy as np

from qdist.backends import chosen_device
from qdist.backends.cpu.unplanned import MOST_QUBITS, UnplannedGates
from qdist.circuit import Circuit, lowered
from qdist.circuit.binding import ParameterValues, flat_values
from qdist.circuit.measurements import split_final_measurements
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
    kind, n = checks.checked_dtype(dtype), circuit.num_qubits
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
    theta = flat_values(circuit.parameters, [] if params is None else params)
    functions, n = circuit.functions, circuit.num_qubits
    program.bind(circuit.affine()(theta if functions is None else functions.extended(theta)))
    state = StateVector.empty(n, dtype, None, Layout.identity(n), "cpu")
    program.run_from_zero(state.local)
    return state
