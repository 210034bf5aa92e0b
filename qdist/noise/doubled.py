"""A noisy circuit on density matrices: rho as a state of 2n qubits, rows on qubits 0 .. n-1, columns on n .. 2n-1.

A gate U takes rho to U rho U†: U on the rows' qubits and its complex conjugate on the columns'. A channel is one matrix
on both.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from itertools import product

import numpy as np

from qdist.circuit import CircuitError, Gate, diagonal_gate, unitary_gate
from qdist.circuit.channels import Channel, LinearGate
from qdist.circuit.gate import Params, standard_name
from qdist.circuit.instruction import Instruction

__all__ = ["conjugate", "doubled"]


def doubled(instructions: Iterable[Instruction], num_qubits: int, adjoint: bool = False) -> list[Instruction]:
    """The instructions on 2n qubits. adjoint: of channels, the adjoint superoperators."""
    found = []
    for gate, qubits, params, _, _ in instructions:
        columns = tuple(q + num_qubits for q in qubits)
        if isinstance(gate, Channel):
            matrix = gate.superoperator
            found.append(Instruction(LinearGate(matrix.conj().T if adjoint else matrix), qubits + columns))
        elif qubits:  # A global phase cancels.
            found.append(Instruction(gate, qubits, params))
            other, angles = conjugate(gate, params)
            found.append(Instruction(other, columns, angles))
    return found


def conjugate(gate: Gate, params: Params) -> tuple[Gate, Params]:
    """The gate and the angles whose matrix is the complex conjugate of this gate's."""
    base, angles = gate.base, params
    if base.num_params:
        signs = _signs(base)
        angles = tuple(param if sign > 0 else -param for param, sign in zip(params, signs))
    elif not base.is_real:
        base = _constant(base)
    return (base.controlled(gate.num_controls, gate.ctrl_state) if gate.num_controls else base), angles


@cache
def _signs(base: Gate) -> tuple[int, ...]:
    """Of each angle: -1 where it changes its sign in the complex conjugate."""
    if base.pauli is not None:
        return (1 if base.pauli.count("Y") % 2 else -1,)
    # Angles with no special relation to each other.
    angles = [0.6180339887 + 0.7320508075 * k for k in range(base.num_params)]
    wanted = base.matrix(*angles).conj()
    for signs in product((1, -1), repeat=base.num_params):
        if np.allclose(base.matrix(*(s * a for s, a in zip(signs, angles))), wanted, rtol=0, atol=1e-12):
            return signs
    raise CircuitError(f"{base.name} has no complex conjugate among the gates; use method='trajectories'")


def _constant(base: Gate) -> Gate:
    if base.is_diagonal:
        return diagonal_gate(base.diagonal().conj())
    matrix = base.matrix().conj()
    if standard_name(base):
        # The conjugate of many a row of the table is its inverse, another row: a simpler gate than a matrix.
        other, _ = base.inverse(())
        if np.array_equal(other.matrix(), matrix):
            return other
    return unitary_gate(matrix)
