"""The gates that a program need not define: the built-in ones, and those of qelib1.inc and stdgates.inc."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

from ..gates import GATES, Gate
from ..parameters import Angle


class Builtin(NamedTuple):
    """A gate of the table, and the global phase by which the OpenQASM gate of that name is ahead of it."""

    gate: Gate
    phase: Callable[..., Angle] | None = None

    @property
    def num_params(self) -> int:
        return self.gate.num_params

    @property
    def num_qubits(self) -> int:
        return self.gate.num_qubits

    @property
    def depth(self) -> int:
        return 0


def _builtins(names: str) -> dict[str, Builtin]:
    return {name: Builtin(GATES[name]) for name in names.split()}


# OpenQASM 2 has no way to make a global phase matter, so that of the table, which is Qiskit's, serves all its
# gates.
BUILTIN_2 = _builtins("U CX")

# The header as the language's paper prints it. A program that includes it cannot define these again.
QELIB1 = _builtins("u3 u2 u1 cx id x y z h s sdg t tdg rx ry rz cz cy ch ccx crz cu1 cu3")

# What Qiskit's header of the same name has grown since. Programs written for the shorter header may define
# these themselves, and then mean their own.
QELIB1_GROWN = _builtins("u0 u p sx sxdg swap cswap crx cry cp csx cu rxx rzz rccx rc3x c3x c3sqrtx c4x")


def _u_phase(theta: Angle, phi: Angle, lam: Angle) -> Angle:
    return theta / 2


def _u2_phase(phi: Angle, lam: Angle) -> Angle:
    return (phi + lam) / -2


def _u3_phase(theta: Angle, phi: Angle, lam: Angle) -> Angle:
    return (phi + lam) / -2


# In OpenQASM 3 phases matter, because gates can be controlled. Its U is e^{i theta/2} times the table's u,
# and its u2 and u3 have determinant 1.
BUILTIN_3 = {"U": Builtin(GATES["u"], _u_phase), "gphase": Builtin(GATES["gphase"])}
STDGATES = {
    **_builtins("p x y z h s sdg t tdg sx rx ry rz cx cy cz cp crx cry crz ch swap ccx cswap cu"),
    **_builtins("CX phase cphase id u1"),
    "u2": Builtin(GATES["u2"], _u2_phase),
    "u3": Builtin(GATES["u"], _u3_phase),
}

# Angles with no special relation to each other, at which a definition is compared with a gate of the table.
GENERIC_ANGLES = tuple(math.sqrt(prime) - 1 for prime in (2, 3, 5, 7))
