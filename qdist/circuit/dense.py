"""The matrix of a circuit, column by column."""

from __future__ import annotations

from typing import Any

import numpy as np

from .errors import CircuitError
from .matrices import Matrix, check_matrix

__all__ = ["columns", "matrix"]


def matrix(circuit: Any, comm: Any = None) -> Matrix:
    """The unitary of a bound circuit: complex128, (2**n, 2**n), on every rank of ``comm``, which share the columns.

    Raises CircuitError for circuits that are not unitary or have unbound parameters, MemoryError where it is too large.
    """
    if circuit.num_parameters:
        names = ", ".join(p.name for p in circuit.parameters[:6])
        raise CircuitError(f"the circuit has unbound parameters ({names}): to_matrix(params) takes their values")
    check_matrix(circuit.num_qubits, 3)
    size = 1 << circuit.num_qubits
    if comm is None or comm.size == 1:
        return columns(circuit, range(size))
    # Every rank has as many, so that one all-gather does; some at the end are computed twice.
    share = -(-size // comm.size)
    first = min(comm.rank * share, size - share)
    parts = comm.all_gather(columns(circuit, range(first, first + share)))
    whole = np.empty((size, size), np.complex128)
    for rank, part in enumerate(parts):
        start = min(rank * share, size - share)
        whole[:, start : start + share] = part
    return whole


def columns(circuit: Any, chosen: range) -> Matrix:
    """Some columns of the matrix: what the circuit makes of these basis states."""
    n = circuit.num_qubits
    state = np.zeros((1 << n, len(chosen)), np.complex128)
    state[list(chosen), range(len(chosen))] = 1
    for index, (gate, qubits, params, _, condition) in enumerate(circuit):
        if gate.is_directive:
            continue
        if not gate.is_unitary or condition:
            what = f"{gate.name} under a classical condition" if gate.is_unitary else gate.name
            raise CircuitError(f"instruction {index} is {what}, and the matrix of a circuit is that of its gates")
        if gate.num_qubits == 0:
            state *= gate.matrix(*params)[0, 0]
        else:
            state = _applied(state, n, gate, qubits, params)
    return state


def _applied(state: Matrix, n: int, gate: Any, qubits: tuple[int, ...], params: Any) -> Matrix:
    """The base of a gate on the part of the state where its controls have their values."""
    count = gate.num_controls
    tensor = state.reshape((2,) * n + (state.shape[1],))
    place: list[Any] = [slice(None)] * (n + 1)
    for k, control in enumerate(qubits[:count]):
        place[n - 1 - control] = gate.ctrl_state >> k & 1
    part = tensor[tuple(place)]
    left = [q for q in reversed(range(n)) if q not in qubits[:count]]
    first = [left.index(q) for q in reversed(qubits[count:])]
    # Not np.moveaxis, which takes longer than all else where a circuit is small.
    order = first + [axis for axis in range(part.ndim) if axis not in first]
    moved = part.transpose(order)
    product = gate.base.matrix(*params) @ moved.reshape(1 << len(first), -1)
    back = sorted(range(part.ndim), key=order.__getitem__)
    tensor[tuple(place)] = product.reshape(moved.shape).transpose(back)
    return tensor.reshape(state.shape)
