"""The table of PennyLane's operations as gates of ours: what each is made of, exactly, its global phase included.

A part is (gate, wires, angles): a gate of qdist, the wires it acts on in the gate's own order (controls first), and its
angles, which are affine in the operation's parameters. Because the product of the parts is the operation's matrix to
the last phase, controlling or inverting every part gives the controlled or the inverse operation.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import pennylane as qml
from pennylane.operation import Operator

from qdist.circuit.gate import Gate
from qdist.circuit.gates import GATES, pauli_rotation_gate
from qdist.circuit.parameters import Angle

__all__ = ["FIXED", "RULES", "Part", "Rule", "controlled", "inverse"]

Part: TypeAlias = tuple[Gate, tuple[Any, ...], tuple[Angle, ...]]
Rule: TypeAlias = Callable[[Any, Sequence[Any]], list[Part]]


def inverse(part: Part) -> Part:
    """The part that undoes this one."""
    gate, wires, angles = part
    undone, turned = gate.inverse(angles)
    return undone, wires, tuple(turned)


def controlled(part: Part, op: Any) -> Part:
    """The part under the controls of an operation."""
    gate, wires, angles = part
    values = op.control_values
    state = sum(bool(value) << k for k, value in enumerate(values))
    return gate.controlled(len(values), state), (*op.control_wires, *wires), angles


def _pauli_rotation(word: str, wires: Sequence[Any], angle: Any) -> list[Part]:
    """exp(-i angle/2 P); PennyLane's words and ours have the letters in opposite orders of the wires."""
    kept = [(letter, wire) for letter, wire in zip(word, wires) if letter != "I"]
    if not kept:
        return [(GATES["gphase"], (), (-0.5 * angle,))]
    letters = "".join(letter for letter, _ in kept)
    chosen = tuple(wire for _, wire in kept)
    if letters in _ROTATIONS:
        return [(GATES[_ROTATIONS[letters]], chosen, (angle,))]
    return [(pauli_rotation_gate(letters[::-1]), chosen, (angle,))]


_ROTATIONS = {"X": "rx", "Y": "ry", "Z": "rz", "XX": "rxx", "YY": "ryy", "ZZ": "rzz"}


def _rot(op: Operator, angles: Sequence[Any]) -> list[Part]:
    (wire,), (phi, theta, omega) = op.wires, angles
    return [(GATES["rz"], (wire,), (phi,)), (GATES["ry"], (wire,), (theta,)), (GATES["rz"], (wire,), (omega,))]


def _pswap(op: Operator, angles: Sequence[Any]) -> list[Part]:
    wires, (phi,) = tuple(op.wires), angles
    return [(GATES["swap"], wires, ()), (GATES["rzz"], wires, (phi,)), (GATES["gphase"], (), (0.5 * phi,))]


def _ising_xy(op: Operator, angles: Sequence[Any]) -> list[Part]:
    return [(GATES["xx_plus_yy"], tuple(op.wires), (-angles[0], 0.0))]


def _single_excitation(sign: int) -> Rule:
    """The rotation between 01 and 10; with a sign also the phase e^{i sign phi/2} where both wires are equal."""

    def rule(op: Operator, angles: Sequence[Any]) -> list[Part]:
        wires, (phi,) = tuple(op.wires), angles
        parts: list[Part] = [(GATES["xx_plus_yy"], wires, (phi, -math.pi / 2))]
        if sign:
            parts += [(GATES["rzz"], wires, (-0.5 * sign * phi,)), (GATES["gphase"], (), (0.25 * sign * phi,))]
        return parts

    return rule


def _double_excitation(sign: int) -> Rule:
    """The rotation between 0011 and 1100; with a sign also the phase e^{i sign phi/2} everywhere else.

    Three CNOTs take both states to b = 0, c = 1, d = 0, where they differ in a alone.
    """

    def rule(op: Operator, angles: Sequence[Any]) -> list[Part]:
        (a, b, c, d), (phi,) = op.wires, angles
        cnots: list[Part] = [(GATES["cx"], pair, ()) for pair in ((a, b), (c, d), (a, c))]
        middle: list[Part] = [(GATES["ry"].controlled(3, 0b010), (b, c, d, a), (phi,))]
        if sign:
            middle.append((GATES["gphase"].controlled(3, 0b010), (b, c, d), (-0.5 * sign * phi,)))
            middle.append((GATES["gphase"], (), (0.5 * sign * phi,)))
        return [*cnots, *middle, *reversed(cnots)]

    return rule


def _fermionic_swap(op: Operator, angles: Sequence[Any]) -> list[Part]:
    (a, b), (phi,) = op.wires, angles
    turned: list[Part] = [(GATES["p"], (wire,), (0.5 * phi,)) for wire in (a, b)]
    return [(GATES["xx_plus_yy"], (a, b), (phi, 0.0)), *turned]


def _orbital_rotation(op: Operator, angles: Sequence[Any]) -> list[Part]:
    (a, b, c, d), (phi,) = op.wires, angles
    # The fermionic swap of neighbours, before and after the two rotations of one spin each.
    swap: list[Part] = [(GATES["swap"], (b, c), ()), (GATES["cz"], (b, c), ())]
    turns: list[Part] = [(GATES["xx_plus_yy"], pair, (phi, -math.pi / 2)) for pair in ((a, b), (c, d))]
    return [*swap, *turns, *swap]


def _fermionic_single(op: Operator, angles: Sequence[Any]) -> list[Part]:
    """exp(theta/2 (c_p^dagger c_r - h.c.)): two Pauli rotations with Z between the ends."""
    wires, between = tuple(op.wires), "Z" * (len(op.wires) - 2)
    parts: list[Part] = []
    for sign, first, last in ((-1, "Y", "X"), (1, "X", "Y")):
        parts += _pauli_rotation(first + between + last, wires, 0.5 * sign * angles[0])
    return parts


def _fermionic_double(op: Any, angles: Sequence[Any]) -> list[Part]:
    """exp(theta/2 (c_p^dagger c_q^dagger c_r c_s - h.c.)): eight Pauli rotations that commute, with Z inside the pairs.

    PennyLane's decomposition has twenty gates and more for each of them.
    """
    first, second = (op.hyperparameters[name] for name in ("wires1", "wires2"))
    wires = (*first, *second)
    parts: list[Part] = []
    for sign, ends in _DOUBLES:
        word = ends[0] + "Z" * (len(first) - 2) + ends[1:3] + "Z" * (len(second) - 2) + ends[3]
        parts += _pauli_rotation(word, wires, 0.125 * sign * angles[0])
    return parts


_DOUBLES = (
    *((-1, letters) for letters in ("XXYX", "YXYY", "XYYY", "XXXY")),
    *((1, letters) for letters in ("YXXX", "XYXX", "YYYX", "YYXY")),
)
"""The signs and letters at the ends of both runs of wires: a double excitation's eight strings by Jordan-Wigner."""


def _phase_where(values: int) -> Rule:
    """e^{i phi} where the wires have these values (the first wire is bit 0)."""

    def rule(op: Operator, angles: Sequence[Any]) -> list[Part]:
        a, b = op.wires
        return [(GATES["gphase"].controlled(2, values), (a, b), tuple(angles))]

    return rule


def _table(name: str) -> Rule:
    """The gate of our table with the same wires and angles."""
    gate = GATES[name]
    return lambda op, angles: [(gate, tuple(op.wires), tuple(angles))]


FIXED: dict[type, Gate] = {
    qml.PauliX: GATES["x"],
    qml.PauliY: GATES["y"],
    qml.PauliZ: GATES["z"],
    qml.Hadamard: GATES["h"],
    qml.S: GATES["s"],
    qml.T: GATES["t"],
    qml.SX: GATES["sx"],
    qml.SWAP: GATES["swap"],
    qml.ISWAP: GATES["iswap"],
    qml.ECR: GATES["ecr"],
    qml.CNOT: GATES["cx"],
    qml.CY: GATES["cy"],
    qml.CZ: GATES["cz"],
    qml.CH: GATES["ch"],
    qml.CSWAP: GATES["cswap"],
    qml.Toffoli: GATES["ccx"],
    qml.CCZ: GATES["ccz"],
}

RULES: dict[type, Rule] = {
    qml.Identity: lambda op, angles: [],
    qml.RX: _table("rx"),
    qml.RY: _table("ry"),
    qml.RZ: _table("rz"),
    qml.PhaseShift: _table("p"),
    qml.U1: _table("p"),
    qml.U2: _table("u2"),
    qml.U3: _table("u"),
    qml.Rot: _rot,
    qml.CRX: _table("crx"),
    qml.CRY: _table("cry"),
    qml.CRZ: _table("crz"),
    qml.CRot: lambda op, angles: [controlled(part, op) for part in _rot(op.base, angles)],
    qml.ControlledPhaseShift: _table("cp"),
    qml.CPhaseShift00: _phase_where(0b00),
    qml.CPhaseShift01: _phase_where(0b10),
    qml.CPhaseShift10: _phase_where(0b01),
    qml.MultiControlledX: lambda op, angles: [controlled((GATES["x"], tuple(op.target_wires), ()), op)],
    qml.IsingXX: _table("rxx"),
    qml.IsingYY: _table("ryy"),
    qml.IsingZZ: _table("rzz"),
    qml.IsingXY: _ising_xy,
    qml.PSWAP: _pswap,
    qml.SingleExcitation: _single_excitation(0),
    qml.SingleExcitationPlus: _single_excitation(1),
    qml.SingleExcitationMinus: _single_excitation(-1),
    qml.DoubleExcitation: _double_excitation(0),
    qml.DoubleExcitationPlus: _double_excitation(1),
    qml.DoubleExcitationMinus: _double_excitation(-1),
    qml.FermionicSWAP: _fermionic_swap,
    qml.OrbitalRotation: _orbital_rotation,
    qml.FermionicSingleExcitation: _fermionic_single,
    qml.FermionicDoubleExcitation: _fermionic_double,
    qml.MultiRZ: lambda op, angles: _pauli_rotation("Z" * len(op.wires), op.wires, angles[0]),
    qml.PauliRot: lambda op, angles: _pauli_rotation(op.hyperparameters["pauli_word"], op.wires, angles[0]),
    qml.GlobalPhase: lambda op, angles: [(GATES["gphase"], (), (-angles[0],))],
}
