"""Hypothesis strategies for random circuits, shared by the tests of everything that takes a circuit."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from qdist.circuit import (
    GATES,
    Circuit,
    Gate,
    Parameter,
    diagonal_gate,
    pauli_rotation_gate,
    permutation_gate,
    unitary_gate,
)

# Each gate once: the table also lists them under their aliases.
TABLE_GATES: tuple[Gate, ...] = tuple({id(gate): gate for gate in GATES.values()}.values())

angles = st.floats(-7.0, 7.0, allow_nan=False, width=32).map(float)


def random_unitary(size: int, seed: int) -> np.ndarray:
    """A Haar-random unitary: the Q of a Gaussian matrix, with the phases of R's diagonal taken out."""
    rng = np.random.default_rng(seed)
    q, r = np.linalg.qr(rng.normal(size=(size, size)) + 1j * rng.normal(size=(size, size)))
    return q * (np.diagonal(r) / np.abs(np.diagonal(r)))


@st.composite
def data_gates(draw: DrawFn, max_qubits: int) -> Gate:
    """Unitary, diagonal, permutation and Pauli rotation gates on 1 to `max_qubits` qubits."""
    num_qubits = draw(st.integers(1, max_qubits))
    seed = draw(st.integers(0, 2**16))
    kind = draw(st.sampled_from(["unitary", "diagonal", "permutation", "pauli"]))
    if kind == "unitary":
        return unitary_gate(random_unitary(1 << num_qubits, seed))
    if kind == "diagonal":
        phases = np.random.default_rng(seed).uniform(-np.pi, np.pi, 1 << num_qubits)
        return diagonal_gate(np.exp(1j * phases))
    if kind == "permutation":
        return permutation_gate(np.random.default_rng(seed).permutation(1 << num_qubits))
    return pauli_rotation_gate(draw(st.text("IXYZ", min_size=num_qubits, max_size=num_qubits)))


@st.composite
def unitary_gates(draw: DrawFn, max_qubits: int, with_data: bool = True) -> Gate:
    """Any gate with a matrix on at most `max_qubits` qubits: of the table, with data, with more controls."""
    fitting = [gate for gate in TABLE_GATES if gate.num_qubits <= max_qubits]
    gate = draw(st.sampled_from(fitting))
    if with_data and draw(st.integers(0, 4)) == 0:
        gate = draw(data_gates(min(max_qubits, 3)))
    spare = max_qubits - gate.num_qubits
    if spare and draw(st.integers(0, 4)) == 0:
        controls = draw(st.integers(1, spare))
        gate = gate.controlled(controls, draw(st.integers(0, (1 << controls) - 1)))
    return gate


@st.composite
def circuits(
    draw: DrawFn,
    min_qubits: int = 1,
    max_qubits: int = 4,
    max_gates: int = 12,
    parameters: Sequence[Parameter] = (),
    num_clbits: int = 0,
    with_data: bool = True,
) -> Circuit:
    """Random circuits.

    With `parameters` about half of the angles are affine expressions of them. With `num_clbits` there are
    measurements, resets and classically controlled gates too; without, the circuit is unitary.
    """
    num_qubits = draw(st.integers(min_qubits, max_qubits))
    circuit = Circuit(num_qubits, num_clbits)
    for _ in range(draw(st.integers(0, max_gates))):
        step = draw(st.integers(0, 5)) if num_clbits else 0
        if step == 1:
            circuit.measure(draw(st.integers(0, num_qubits - 1)), draw(st.integers(0, num_clbits - 1)))
        elif step == 2:
            circuit.reset(draw(st.integers(0, num_qubits - 1)))
        elif step == 3:
            clbits = draw(st.lists(st.integers(0, num_clbits - 1), min_size=1, max_size=2, unique=True))
            with circuit.if_(clbits, draw(st.integers(0, (1 << len(clbits)) - 1))) as else_:
                _append_gate(draw, circuit, parameters, with_data)
            if draw(st.booleans()):
                with else_:
                    _append_gate(draw, circuit, parameters, with_data)
        else:
            _append_gate(draw, circuit, parameters, with_data)
    return circuit


def _append_gate(draw: DrawFn, circuit: Circuit, parameters: Sequence[Parameter], with_data: bool) -> None:
    gate = draw(unitary_gates(circuit.num_qubits, with_data))
    qubits = draw(st.permutations(range(circuit.num_qubits)))[: gate.num_qubits]
    circuit.append(gate, qubits, [draw(_params(parameters)) for _ in range(gate.num_params)])


def _params(parameters: Sequence[Parameter]) -> SearchStrategy:
    if not parameters:
        return angles
    coefficients = st.sampled_from([-2.0, -1.0, -0.5, 0.5, 1.0, 3.0])
    affine = st.builds(
        lambda a, p, b, q, c: a * p + b * q + c,
        coefficients,
        st.sampled_from(parameters),
        coefficients,
        st.sampled_from(parameters),
        angles,
    )
    return st.one_of(angles, st.sampled_from(parameters), affine)
