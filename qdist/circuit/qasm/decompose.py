"""Gates that OpenQASM has no name for, in terms of simpler ones.

Every rule is exact, global phase included, so that it can be put under further controls and so that a
definition written from it is recognised when it is read back. Rules take angles that may be parameters.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise
from typing import TypeAlias

from ..data_gates import DiagonalGate, PauliRotationGate, PermutationGate, UnitaryGate, unitary_gate
from ..errors import CircuitError
from ..gate import NAMED, standard_name
from ..gates import GATES, Gate
from ..parameters import Angle
from .dense import Step, diagonal_steps, permutation_steps, unitary_steps

Params: TypeAlias = tuple[Angle, ...]

_HALF_PI = math.pi / 2


def decompose(gate: Gate, params: Params) -> list[Step]:
    """The gate on qubits 0 .. num_qubits - 1 as a list of (gate, angles, qubits), first step first.

    Raises CircuitError for a gate that has no rule.
    """
    if gate.num_controls:
        return _controlled(gate, params)
    rule = _RULES.get(standard_name(gate))
    if rule is not None:
        return rule(*params)
    if isinstance(gate, PauliRotationGate):
        return _pauli_rotation(gate.data, params[0])
    if isinstance(gate, DiagonalGate):
        return diagonal_steps(gate.data)
    if isinstance(gate, PermutationGate):
        return permutation_steps(gate.data)
    if isinstance(gate, UnitaryGate):
        return unitary_steps(gate.data)
    if not standard_name(gate) and not gate.num_params:
        return unitary_steps(unitary_gate(gate.matrix()).data)
    raise CircuitError(f"there is no decomposition of {gate.name}")


def _step(name: str, *wires: int, params: Params = ()) -> Step:
    return NAMED[name], params, wires


def _steps(text: str) -> list[Step]:
    """`"h 0, cx 0 1"` as steps."""
    parts = (part.split() for part in text.split(","))
    return [_step(name, *map(int, wires)) for name, *wires in parts]


def _inverse(steps: list[Step]) -> list[Step]:
    return [(*gate.inverse(params), wires) for gate, params, wires in reversed(steps)]


def _moved(steps: list[Step], wires: tuple[int, ...]) -> list[Step]:
    return [(gate, params, tuple(wires[k] for k in own)) for gate, params, own in steps]


# Gates of the table.


def _r(theta: Angle, phi: Angle) -> list[Step]:
    return [_step("rz", 0, params=(-phi,)), _step("rx", 0, params=(theta,)), _step("rz", 0, params=(phi,))]


def _between(before: str, middle: Callable[[Angle], list[Step]], angle: Angle) -> list[Step]:
    """A change of basis around a rotation."""
    steps = _steps(before)
    return steps + middle(angle) + _inverse(steps)


def _rzz(theta: Angle) -> list[Step]:
    return [_step("cx", 0, 1), _step("rz", 1, params=(theta,)), _step("cx", 0, 1)]


def _rzz_itself(theta: Angle) -> list[Step]:
    return [_step("rzz", 0, 1, params=(theta,))]


def _xx_yy(theta: Angle) -> list[Step]:
    return [_step("rxx", 0, 1, params=(theta,)), _step("ryy", 0, 1, params=(theta,))]


def _xx_plus_yy(theta: Angle, beta: Angle) -> list[Step]:
    turn = [_step("rz", 0, params=(beta,))]
    return turn + _xx_yy(theta / 2) + _inverse(turn)


_RC3X = _steps(
    "h 3, t 3, cx 2 3, tdg 3, h 3, cx 0 3, t 3, cx 1 3, tdg 3, cx 0 3, t 3, cx 1 3, tdg 3, h 3, t 3, cx 2 3, tdg 3, h 3"
)
_ISWAP = _steps("s 0, s 1, h 0, cx 0 1, cx 1 0, h 1")
_DCX = _steps("cx 0 1, cx 1 0")

_RULES: dict[str, Callable[..., list[Step]]] = {
    "sx": lambda: _steps("h 0, s 0, h 0"),
    "sxdg": lambda: _steps("h 0, sdg 0, h 0"),
    "swap": lambda: _steps("cx 0 1, cx 1 0, cx 0 1"),
    "u0": lambda gamma: [],
    "r": _r,
    "iswap": lambda: _ISWAP,
    "iswapdg": lambda: _inverse(_ISWAP),
    "dcx": lambda: _DCX,
    "dcxdg": lambda: _inverse(_DCX),
    "ecr": lambda: [
        _step("rzx", 0, 1, params=(math.pi / 4,)),
        _step("x", 0),
        _step("rzx", 0, 1, params=(-math.pi / 4,)),
    ],
    "rzz": _rzz,
    "rxx": lambda theta: _between("h 0, h 1", _rzz_itself, theta),
    "ryy": lambda theta: _between("sx 0, sx 1", _rzz_itself, theta),
    "rzx": lambda theta: _between("h 1", _rzz_itself, theta),
    "xx_plus_yy": _xx_plus_yy,
    "fsim": lambda theta, phi: [*_xx_yy(theta), _step("cp", 0, 1, params=(-phi,))],
    "rccx": lambda: _steps("h 2, t 2, cx 1 2, tdg 2, cx 0 2, t 2, cx 1 2, tdg 2, h 2"),
    "rc3x": lambda: _RC3X,
    "rc3xdg": lambda: _inverse(_RC3X),
    "phased_u": lambda theta, phi, lam, gamma: [
        _step("u", 0, params=(theta, phi, lam)),
        _step("gphase", params=(gamma,)),
    ],
    # A phase on both values of a qubit is a phase on everything.
    "gphase": lambda angle: [
        _step("p", 0, params=(angle,)),
        _step("x", 0),
        _step("p", 0, params=(angle,)),
        _step("x", 0),
    ],
}


def _pauli_rotation(label: str, theta: Angle) -> list[Step]:
    """Into the Z basis, the parity of the qubits onto the last of them, a rotation there, and back."""
    letters = {qubit: letter for qubit, letter in enumerate(reversed(label)) if letter != "I"}
    if not letters:
        return [_step("gphase", params=(theta / -2,))]
    basis = {"X": "h", "Y": "sx", "Z": None}
    turn = [_step(name, q) for q, letter in letters.items() if (name := basis[letter])]
    qubits = list(letters)
    turn += [_step("cx", a, b) for a, b in pairwise(qubits)]
    return [*turn, _step("rz", qubits[-1], params=(theta,)), *_inverse(turn)]


# Gates under controls.


def _controlled(gate: Gate, params: Params) -> list[Step]:
    base, count = gate.base, gate.num_controls
    ones = (1 << count) - 1
    if gate.ctrl_state != ones:
        flips = [_step("x", k) for k in range(count) if not gate.ctrl_state >> k & 1]
        inner = (base.controlled(count), params, tuple(range(gate.num_qubits)))
        return [*flips, inner, *flips]
    rule = _CONTROLLED_RULES.get(standard_name(base))
    if rule is not None:
        return rule(count, *params)
    controls = tuple(range(count))
    return [
        (inner.controlled(count), angles, controls + tuple(count + k for k in wires))
        for inner, angles, wires in decompose(base, params)
    ]


def _mcx(count: int) -> list[Step]:
    return [_step("h", count), _multi("p", count, math.pi), _step("h", count)]


def _multi(name: str, count: int, *params: Angle) -> Step:
    """The named gate on qubit `count`, under controls 0 .. count - 1."""
    return NAMED[name].controlled(count), params, tuple(range(count + 1))


def _mcp(count: int, lam: Angle) -> list[Step]:
    """Barenco's recursion: half the phase for each of two qubits, minus half for their parity."""
    if count == 1:
        p = lambda angle, qubit: _step("p", qubit, params=(angle,))  # noqa: E731
        cx = _step("cx", 0, 1)
        return [p(lam / 2, 0), cx, p(lam / -2, 1), cx, p(lam / 2, 1)]
    last = count - 1
    flip = _multi("x", last)
    rest = (GATES["p"].controlled(last), (lam / 2,), (*range(last), count))
    return [
        _step("cp", last, count, params=(lam / 2,)),
        flip,
        _step("cp", last, count, params=(lam / -2,)),
        flip,
        rest,
    ]


def _rotation(name: str) -> Callable[[int, Angle], list[Step]]:
    """rz or ry: two half turns, the second undone where the controls do not flip its axis."""

    def rule(count: int, theta: Angle) -> list[Step]:
        flip = _multi("x", count)
        half = [_step(name, count, params=(angle,)) for angle in (theta / 2, theta / -2)]
        return [half[0], flip, half[1], flip]

    return rule


def _in_basis(before: str, inner: str, *angles: float) -> Callable[..., list[Step]]:
    """A gate that is another one in a different basis of the target."""

    def rule(count: int, *params: Angle) -> list[Step]:
        turn = _moved(_steps(before), (count,)) if before else []
        return [*turn, _multi(inner, count, *angles, *params), *_inverse(turn)]

    return rule


def _mch(count: int) -> list[Step]:
    turn = _step("ry", count, params=(-math.pi / 4,))
    return [turn, _multi("z", count), *_inverse([turn])]


def _mcu(count: int, theta: Angle, phi: Angle, lam: Angle, gamma: Angle = 0.0) -> list[Step]:
    """e^{i gamma} u = e^{i (gamma + (phi + lam) / 2)} rz(phi) ry(theta) rz(lam)."""
    phase = gamma + (phi + lam) / 2
    return [
        (GATES["gphase"].controlled(count), (phase,), tuple(range(count))),
        _multi("rz", count, lam),
        _multi("ry", count, theta),
        _multi("rz", count, phi),
    ]


def _mcr(count: int, theta: Angle, phi: Angle) -> list[Step]:
    turn = _step("rz", count, params=(-phi,))
    return [turn, _multi("rx", count, theta), *_inverse([turn])]


def _mcswap(count: int) -> list[Step]:
    first, second = count, count + 1
    return [
        _step("cx", second, first),
        (GATES["x"].controlled(count + 1), (), tuple(range(count + 2))),
        _step("cx", second, first),
    ]


_CONTROLLED_RULES: dict[str, Callable[..., list[Step]]] = {
    "id": lambda count: [],
    "u0": lambda count, gamma: [],
    "x": _mcx,
    "y": _in_basis("sdg 0", "x"),
    "z": _in_basis("", "p", math.pi),
    "s": _in_basis("", "p", _HALF_PI),
    "sdg": _in_basis("", "p", -_HALF_PI),
    "t": _in_basis("", "p", _HALF_PI / 2),
    "tdg": _in_basis("", "p", -_HALF_PI / 2),
    "sx": _in_basis("h 0", "p", _HALF_PI),
    "sxdg": _in_basis("h 0", "p", -_HALF_PI),
    "h": _mch,
    "p": _mcp,
    "rx": _in_basis("h 0", "rz"),
    "ry": _rotation("ry"),
    "rz": _rotation("rz"),
    "u": _mcu,
    "u2": lambda count, phi, lam: _mcu(count, _HALF_PI, phi, lam),
    "phased_u": _mcu,
    "r": _mcr,
    "swap": _mcswap,
}
