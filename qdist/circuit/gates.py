"""THE gate table: every gate that has a name, and the makers of those that carry data.

A row says all that the planner and the kernels ask of a gate; what its matrix shows (diagonal, real, X-like) is read
off the matrix. Most gates with angles also need a formula in native/src/gates/formulas.hpp and a rule in
plan/rows/steps.py: ARCHITECTURE.md ("How to add") says which.

Conventions are Qiskit's; names are those of OpenQASM's qelib1.inc and stdgates.inc, then Qiskit's.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from . import matrices as m
from .data_gates import (
    barrier_gate,
    diagonal_gate,
    initialize_gate,
    pauli_rotation_gate,
    permutation_gate,
    unitary_gate,
)
from .gate import NAMED, Gate, Params, StandardGate, register_controlled

__all__ = [
    "GATES",
    "MEASURE",
    "RESET",
    "Gate",
    "barrier_gate",
    "diagonal_gate",
    "initialize_gate",
    "pauli_rotation_gate",
    "permutation_gate",
    "unitary_gate",
]

# Every unitary gate with a name, under that name and its aliases.
GATES: dict[str, Gate] = {}


# How a gate is undone: itself, itself with every angle negated, another row, or another order of angles.


def _itself(gate: StandardGate, params: Params) -> tuple[Gate, Params]:
    return gate, params


def _negated(gate: StandardGate, params: Params) -> tuple[Gate, Params]:
    return gate, tuple(-param for param in params)


def _by(name: str) -> Callable[[StandardGate, Params], tuple[Gate, Params]]:
    return lambda gate, params: (GATES[name], params)


def _with(angles: Callable[..., Params]) -> Callable[[StandardGate, Params], tuple[Gate, Params]]:
    return lambda gate, params: (gate, angles(*params))


_u_inverse = _with(lambda theta, phi, lam: (-theta, -lam, -phi))
_u2_inverse = _with(lambda phi, lam: (-lam - math.pi, -phi + math.pi))
_first_negated = _with(lambda theta, axis: (-theta, axis))
_phased_u_inverse = _with(lambda theta, phi, lam, gamma: (-theta, -lam, -phi, -gamma))

# fmt: off
_STANDARD = [
    StandardGate("id", m.I, 0, _itself, qasm2_name="id", qasm3_name="id", symbol="I"),
    StandardGate("x", m.X, 0, _itself, qasm2_name="x", qasm3_name="x", symbol="X"),
    StandardGate("y", m.Y, 0, _itself, qasm2_name="y", qasm3_name="y", symbol="Y"),
    StandardGate("z", m.Z, 0, _itself, qasm2_name="z", qasm3_name="z", symbol="Z"),
    StandardGate("h", m.H, 0, _itself, qasm2_name="h", qasm3_name="h", symbol="H"),
    StandardGate("s", m.S, 0, _by("sdg"), qasm2_name="s", qasm3_name="s", symbol="S"),
    StandardGate("sdg", m.SDG, 0, _by("s"), qasm2_name="sdg", qasm3_name="sdg", symbol="S†"),
    StandardGate("t", m.T, 0, _by("tdg"), qasm2_name="t", qasm3_name="t", symbol="T"),
    StandardGate("tdg", m.TDG, 0, _by("t"), qasm2_name="tdg", qasm3_name="tdg", symbol="T†"),
    StandardGate("sx", m.SX, 0, _by("sxdg"), qasm2_name="sx", qasm3_name="sx", symbol="√X"),
    StandardGate("sxdg", m.SXDG, 0, _by("sx"), qasm2_name="sxdg", symbol="√X†"),

    StandardGate("rx", m.rx, 1, _negated, pauli="X", qasm2_name="rx", qasm3_name="rx", symbol="Rx"),
    StandardGate("ry", m.ry, 1, _negated, pauli="Y", qasm2_name="ry", qasm3_name="ry", symbol="Ry"),
    StandardGate("rz", m.rz, 1, _negated, pauli="Z", qasm2_name="rz", qasm3_name="rz", symbol="Rz"),
    StandardGate("p", m.p, 1, _negated, generator=m.constant(-2 * m.ONE),
                 qasm2_name="u1", qasm3_name="p", symbol="P"),
    StandardGate("gphase", m.gphase, 1, _negated, generator=m.constant([[-2]]), qasm3_name="gphase"),
    StandardGate("u", m.u, 3, _u_inverse, derivative=m.u_derivative,
                 qasm2_name="u3", qasm3_name="u3", symbol="U"),
    StandardGate("u2", m.u2, 2, _u2_inverse, derivative=m.u2_derivative,
                 qasm2_name="u2", qasm3_name="u2", symbol="U2"),
    StandardGate("u0", m.u0, 1, _itself, derivative=m.u0_derivative, qasm2_name="u0", symbol="U0"),
    StandardGate("r", m.r, 2, _first_negated, derivative=m.r_derivative, symbol="R"),

    StandardGate("swap", m.SWAP, 0, _itself, qasm2_name="swap", qasm3_name="swap", symbol="✕"),
    StandardGate("iswap", m.ISWAP, 0, _by("iswapdg"), symbol="iSwap"),
    StandardGate("iswapdg", m.ISWAPDG, 0, _by("iswap"), symbol="iSwap†"),
    StandardGate("dcx", m.DCX, 0, _by("dcxdg"), symbol="DCX"),
    StandardGate("dcxdg", m.DCXDG, 0, _by("dcx"), symbol="DCX†"),
    StandardGate("ecr", m.ECR, 0, _itself, symbol="ECR"),
    StandardGate("rxx", m.rxx, 1, _negated, pauli="XX", qasm2_name="rxx", symbol="Rxx"),
    StandardGate("ryy", m.ryy, 1, _negated, pauli="YY", symbol="Ryy"),
    StandardGate("rzz", m.rzz, 1, _negated, pauli="ZZ", qasm2_name="rzz", symbol="Rzz"),
    StandardGate("rzx", m.rzx, 1, _negated, pauli="ZX", symbol="Rzx"),
    StandardGate("xx_plus_yy", m.xx_plus_yy, 2, _first_negated, derivative=m.xx_plus_yy_derivative,
                 symbol="XX+YY"),
    StandardGate("fsim", m.fsim, 2, _negated, derivative=m.fsim_derivative, symbol="fSim"),
    StandardGate("rccx", m.RCCX, 0, _itself, qasm2_name="rccx", symbol="RCCX"),
    StandardGate("rc3x", m.RC3X, 0, _by("rc3xdg"), qasm2_name="rc3x", symbol="RC3X"),
    StandardGate("rc3xdg", m.RC3XDG, 0, _by("rc3x"), symbol="RC3X†"),
]
# fmt: on
GATES.update({gate.name: gate for gate in _STANDARD})

# u with the phase that matters once it is controlled: the base of cu.
_PHASED_U = StandardGate("phased_u", m.phased_u, 4, _phased_u_inverse, derivative=m.phased_u_derivative, symbol="U")

# fmt: off
_CONTROLLED = [
    register_controlled("cx", GATES["x"], qasm2_name="cx", qasm3_name="cx"),
    register_controlled("cy", GATES["y"], qasm2_name="cy", qasm3_name="cy"),
    register_controlled("cz", GATES["z"], qasm2_name="cz", qasm3_name="cz"),
    register_controlled("ch", GATES["h"], qasm2_name="ch", qasm3_name="ch"),
    register_controlled("cs", GATES["s"]),
    register_controlled("csdg", GATES["sdg"]),
    register_controlled("csx", GATES["sx"], qasm2_name="csx"),
    register_controlled("cp", GATES["p"], qasm2_name="cu1", qasm3_name="cp"),
    register_controlled("crx", GATES["rx"], qasm2_name="crx", qasm3_name="crx"),
    register_controlled("cry", GATES["ry"], qasm2_name="cry", qasm3_name="cry"),
    register_controlled("crz", GATES["rz"], qasm2_name="crz", qasm3_name="crz"),
    register_controlled("cu3", GATES["u"], qasm2_name="cu3"),
    register_controlled("cu", _PHASED_U, qasm2_name="cu", qasm3_name="cu"),
    register_controlled("cswap", GATES["swap"], qasm2_name="cswap", qasm3_name="cswap"),
    register_controlled("ccx", GATES["x"], 2, qasm2_name="ccx", qasm3_name="ccx"),
    register_controlled("ccz", GATES["z"], 2),
    register_controlled("c3x", GATES["x"], 3, qasm2_name="c3x"),
    register_controlled("c4x", GATES["x"], 4, qasm2_name="c4x"),
    register_controlled("c3sqrtx", GATES["sx"], 3, qasm2_name="c3sqrtx"),
]
# fmt: on
GATES.update({gate.name: gate for gate in _CONTROLLED})

_ALIASES = {
    "phase": "p",
    "u1": "p",
    "u3": "u",
    "U": "u",
    "CX": "cx",
    "cnot": "cx",
    "cphase": "cp",
    "cu1": "cp",
    "toffoli": "ccx",
    "fredkin": "cswap",
}
GATES.update({alias: GATES[name] for alias, name in _ALIASES.items()})

MEASURE = Gate("measure", 1, kind="measure", num_clbits=1, symbol="M")
RESET = Gate("reset", 1, kind="reset", symbol="|0⟩")

# What a pickled gate is found by. Not all of it is for users: the base of cu is reached only through cu.
NAMED.update(GATES, phased_u=_PHASED_U, measure=MEASURE, reset=RESET)
