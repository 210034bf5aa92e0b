"""The text drawing: what it shows, and that it fits."""

from __future__ import annotations

import io
import math
import sys

import pytest
from hypothesis import given, settings
from strategies import circuits

from qdist.circuit import GATES, Circuit, CircuitError, Parameter, ParameterVector


def drawn(circuit: Circuit) -> list[str]:
    return [line.rstrip() for line in circuit.draw().splitlines()]


def test_a_small_circuit_looks_like_this() -> None:
    t = Parameter("t")
    circuit = Circuit(3, 1).h(0).cx(0, 1).rzz(t / 2, 1, 2).measure(0, 0)
    with circuit.if_(0, 1):
        circuit.x(2)
    assert drawn(circuit) == [
        "q0: ─H─●────M→c0──────────────",
        "       │",
        "q1: ───X─Rzz(0.5*t)───────────",
        "             │",
        "q2: ────────Rzz─────X if c0=1─",
    ]


def test_where_stdout_is_ascii_circuits_are_printed_in_ascii(monkeypatch: pytest.MonkeyPatch) -> None:
    circuit = Circuit(3, 1).h(0).mcx([0, 2], 1, "01").sdg(1).rx(math.pi / 2, 2).measure(0, 0)
    with circuit.if_(0, 1):
        circuit.swap(1, 2)
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(io.BytesIO(), encoding="ascii"))
    print(circuit)
    assert drawn(circuit) == [
        "q0: -H-@--M->c0-------------",
        "       |",
        "q1: ---X---Sdg----x if c0=1-",
        "       |              |",
        "q2: ---o-Rx(pi/2)-----x-----",
    ]
    for gate in GATES.values():
        print(Circuit(gate.num_qubits).append(gate, range(gate.num_qubits), [0.1] * gate.num_params))


def test_what_tests_a_bit_stands_to_the_right_of_its_measurement() -> None:
    circuit = Circuit(2, 1).h(0).measure(0, 0)
    with circuit.if_(0, 1):
        circuit.x(1)
    circuit.h(0).measure(0, 0)
    top, _, bottom = drawn(circuit)
    assert top.index("M→c0") < bottom.index("X if c0=1") < top.rindex("M→c0")


def test_controls_show_the_value_they_need_and_lines_cross_wires() -> None:
    assert drawn(Circuit(4).mcx([0, 3], 1, "01").cz(3, 0)) == [
        "q0: ─●─Z─",
        "     │ │",
        "q1: ─X─┼─",
        "     │ │",
        "q2: ─┼─┼─",
        "     │ │",
        "q3: ─○─●─",
    ]


def test_gates_share_a_column_only_where_their_lines_do_not_meet() -> None:
    assert drawn(Circuit(4).cx(0, 2).h(1).h(3)) == [
        "q0: ─●───",
        "     │",
        "q1: ─┼─H─",
        "     │",
        "q2: ─X───",
        "",
        "q3: ─H───",
    ]


def test_targets_are_numbered_where_their_order_matters() -> None:
    text = Circuit(3).swap(0, 1).rzx(0.25, 2, 0).rxx(0.5, 0, 1).cswap(2, 0, 1).draw()
    assert text.count("✕") == 4
    assert "Rzx₀(0.25)" in text
    assert "Rzx₁" in text
    assert text.count("Rxx") == 2
    assert "Rxx₀" not in text


def test_angles_are_short() -> None:
    v = ParameterVector("theta", 2)
    circuit = Circuit(1).rx(math.pi / 2, 0).rx(-math.pi, 0).rx(3 * math.pi / 4, 0).rx(0.123456, 0).rx(0, 0)
    assert "Rx(π/2)─Rx(-π)─Rx(3π/4)─Rx(0.123)─Rx(0)" in circuit.draw()
    assert "U(theta[0],π,0.1)" in Circuit(1).u(v[0], math.pi, 0.1, 0).draw()
    long = Circuit(1).rx(2 * v[0] + 3 * v[1] + 0.777, 0).draw()
    assert "Rx(2*theta[0] + 3*theta[1]…)" in long


def test_other_instructions() -> None:
    circuit = Circuit(2, 2).initialize("10").reset(0).barrier().gphase(0.3).pauli_rotation(0.5, "XZ", [0, 1])
    with circuit.if_([0, 1], 2) as else_:
        circuit.h(0)
    with else_:
        circuit.h(1)
    circuit.append(GATES["gphase"].controlled(1, 0), 0, [0.4])
    text = circuit.draw()
    for part in (
        "global phase: 0.3",
        "|1⟩",
        "|0⟩",
        "░",
        "Rz(0.5)",
        "Rx",
        "H if c0,c1=2",
        "H if c0,c1≠2",
        "○(0.4)",
    ):
        assert part in text


def test_empty_circuits_show_their_wires() -> None:
    assert drawn(Circuit(2)) == ["q0: ─", "", "q1: ─"]
    assert Circuit(0).draw() == ""


@settings(max_examples=60, deadline=None, derandomize=True)
@given(circuits(max_qubits=4, max_gates=30, num_clbits=2))
def test_every_block_fits_the_width_and_is_aligned(circuit: Circuit) -> None:
    for block in circuit.draw(width=80).split("\n\n\n"):
        lines = [line for line in block.splitlines() if line.startswith("q")]
        assert len({len(line) for line in lines}) <= 1
        # Only a gate that is wider than the page by itself may pass the edge.
        assert all(len(line) <= 80 for line in lines) or block.count("(") <= circuit.num_qubits


def test_wrapped_blocks_repeat_the_labels() -> None:
    circuit = Circuit(11)
    for _ in range(30):
        circuit.rx(0.25, range(11))
    text = circuit.draw(width=60)
    blocks = text.split("\n\n\n")
    assert len(blocks) > 3
    assert all(block.startswith(" q0: ") and "\nq10: " in block for block in blocks)
    assert max(map(len, text.splitlines())) <= 60


def test_str_is_the_drawing_and_narrow_pages_are_refused() -> None:
    circuit = Circuit(1).h(0)
    assert str(circuit) == circuit.draw()
    with pytest.raises(CircuitError, match="at least 20 columns; got 10"):
        circuit.draw(10)
