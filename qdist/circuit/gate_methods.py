"""The gate methods of Circuit, written out so that editors and type checkers see each of them.

Angles come first, then qubits. Where one qubit is meant, a sequence applies the gate to each:
`c.h(range(4))`, `c.cx(0, [1, 2])`, `c.cx([0, 1], [2, 3])`. Every method returns the circuit.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Self, TypeAlias

from numpy.typing import ArrayLike

from .errors import CircuitError
from .gates import GATES, Gate, diagonal_gate, pauli_rotation_gate, permutation_gate, unitary_gate
from .parameters import Angle
from .wires import as_tuple

Qubits: TypeAlias = int | Iterable[int]


class GateMethods:
    """One method a unitary gate; CircuitBuilder adds the storage."""

    __slots__ = ()

    def _add(self, gate: Gate, qubits: tuple[Any, ...], params: tuple[Any, ...] = ()) -> Self:
        """Check and store one instruction, or one for each element where a qubit is a sequence."""
        raise NotImplementedError

    # One qubit.

    def id(self, qubit: Qubits) -> Self:
        """The identity."""
        return self._add(GATES["id"], (qubit,))

    def x(self, qubit: Qubits) -> Self:
        """Pauli X: the bit flip."""
        return self._add(GATES["x"], (qubit,))

    def y(self, qubit: Qubits) -> Self:
        """Pauli Y."""
        return self._add(GATES["y"], (qubit,))

    def z(self, qubit: Qubits) -> Self:
        """Pauli Z: the phase flip."""
        return self._add(GATES["z"], (qubit,))

    def h(self, qubit: Qubits) -> Self:
        """Hadamard."""
        return self._add(GATES["h"], (qubit,))

    def s(self, qubit: Qubits) -> Self:
        """S = diag(1, i), the square root of Z."""
        return self._add(GATES["s"], (qubit,))

    def sdg(self, qubit: Qubits) -> Self:
        """The inverse of S."""
        return self._add(GATES["sdg"], (qubit,))

    def t(self, qubit: Qubits) -> Self:
        """T = diag(1, e^{iπ/4}), the square root of S."""
        return self._add(GATES["t"], (qubit,))

    def tdg(self, qubit: Qubits) -> Self:
        """The inverse of T."""
        return self._add(GATES["tdg"], (qubit,))

    def sx(self, qubit: Qubits) -> Self:
        """The square root of X."""
        return self._add(GATES["sx"], (qubit,))

    def sxdg(self, qubit: Qubits) -> Self:
        """The inverse of the square root of X."""
        return self._add(GATES["sxdg"], (qubit,))

    def rx(self, theta: Angle, qubit: Qubits) -> Self:
        """exp(-i θ/2 X)."""
        return self._add(GATES["rx"], (qubit,), (theta,))

    def ry(self, theta: Angle, qubit: Qubits) -> Self:
        """exp(-i θ/2 Y)."""
        return self._add(GATES["ry"], (qubit,), (theta,))

    def rz(self, theta: Angle, qubit: Qubits) -> Self:
        """exp(-i θ/2 Z)."""
        return self._add(GATES["rz"], (qubit,), (theta,))

    def p(self, lam: Angle, qubit: Qubits) -> Self:
        """The phase gate diag(1, e^{iλ}), OpenQASM 2's u1."""
        return self._add(GATES["p"], (qubit,), (lam,))

    def u(self, theta: Angle, phi: Angle, lam: Angle, qubit: Qubits) -> Self:
        """[[cos θ/2, -e^{iλ} sin θ/2], [e^{iφ} sin θ/2, e^{i(φ+λ)} cos θ/2]], OpenQASM 2's u3."""
        return self._add(GATES["u"], (qubit,), (theta, phi, lam))

    def u2(self, phi: Angle, lam: Angle, qubit: Qubits) -> Self:
        """u(π/2, φ, λ)."""
        return self._add(GATES["u2"], (qubit,), (phi, lam))

    def u0(self, gamma: Angle, qubit: Qubits) -> Self:
        """OpenQASM 2's identity that lasts γ cycles."""
        return self._add(GATES["u0"], (qubit,), (gamma,))

    def r(self, theta: Angle, phi: Angle, qubit: Qubits) -> Self:
        """exp(-i θ/2 (cos φ X + sin φ Y))."""
        return self._add(GATES["r"], (qubit,), (theta, phi))

    def rot(self, phi: Angle, theta: Angle, omega: Angle, qubit: Qubits) -> Self:
        """rz(φ), then ry(θ), then rz(ω): PennyLane's Rot, as three gates."""
        return self.rz(phi, qubit).ry(theta, qubit).rz(omega, qubit)

    # Two qubits.

    def cx(self, control: Qubits, target: Qubits) -> Self:
        """Controlled X."""
        return self._add(GATES["cx"], (control, target))

    def cy(self, control: Qubits, target: Qubits) -> Self:
        """Controlled Y."""
        return self._add(GATES["cy"], (control, target))

    def cz(self, control: Qubits, target: Qubits) -> Self:
        """Controlled Z."""
        return self._add(GATES["cz"], (control, target))

    def ch(self, control: Qubits, target: Qubits) -> Self:
        """Controlled Hadamard."""
        return self._add(GATES["ch"], (control, target))

    def cs(self, control: Qubits, target: Qubits) -> Self:
        """Controlled S."""
        return self._add(GATES["cs"], (control, target))

    def csdg(self, control: Qubits, target: Qubits) -> Self:
        """Controlled inverse of S."""
        return self._add(GATES["csdg"], (control, target))

    def csx(self, control: Qubits, target: Qubits) -> Self:
        """Controlled square root of X."""
        return self._add(GATES["csx"], (control, target))

    def cp(self, lam: Angle, control: Qubits, target: Qubits) -> Self:
        """Controlled phase, diag(1, 1, 1, e^{iλ})."""
        return self._add(GATES["cp"], (control, target), (lam,))

    def crx(self, theta: Angle, control: Qubits, target: Qubits) -> Self:
        """Controlled rx."""
        return self._add(GATES["crx"], (control, target), (theta,))

    def cry(self, theta: Angle, control: Qubits, target: Qubits) -> Self:
        """Controlled ry."""
        return self._add(GATES["cry"], (control, target), (theta,))

    def crz(self, theta: Angle, control: Qubits, target: Qubits) -> Self:
        """Controlled rz."""
        return self._add(GATES["crz"], (control, target), (theta,))

    def cu(self, theta: Angle, phi: Angle, lam: Angle, gamma: Angle, control: Qubits, target: Qubits) -> Self:
        """Controlled e^{iγ} u(θ, φ, λ)."""
        return self._add(GATES["cu"], (control, target), (theta, phi, lam, gamma))

    def cu3(self, theta: Angle, phi: Angle, lam: Angle, control: Qubits, target: Qubits) -> Self:
        """Controlled u(θ, φ, λ)."""
        return self._add(GATES["cu3"], (control, target), (theta, phi, lam))

    def swap(self, qubit1: Qubits, qubit2: Qubits) -> Self:
        """Exchange two qubits."""
        return self._add(GATES["swap"], (qubit1, qubit2))

    def iswap(self, qubit1: Qubits, qubit2: Qubits) -> Self:
        """Exchange two qubits, with a phase i where they differ."""
        return self._add(GATES["iswap"], (qubit1, qubit2))

    def iswapdg(self, qubit1: Qubits, qubit2: Qubits) -> Self:
        """The inverse of iswap."""
        return self._add(GATES["iswapdg"], (qubit1, qubit2))

    def dcx(self, qubit1: Qubits, qubit2: Qubits) -> Self:
        """cx(qubit1, qubit2), then cx(qubit2, qubit1)."""
        return self._add(GATES["dcx"], (qubit1, qubit2))

    def dcxdg(self, qubit1: Qubits, qubit2: Qubits) -> Self:
        """The inverse of dcx."""
        return self._add(GATES["dcxdg"], (qubit1, qubit2))

    def ecr(self, qubit1: Qubits, qubit2: Qubits) -> Self:
        """The echoed cross-resonance gate, (IX - XY) / √2, with the last letters on qubit1."""
        return self._add(GATES["ecr"], (qubit1, qubit2))

    def rxx(self, theta: Angle, qubit1: Qubits, qubit2: Qubits) -> Self:
        """exp(-i θ/2 XX)."""
        return self._add(GATES["rxx"], (qubit1, qubit2), (theta,))

    def ryy(self, theta: Angle, qubit1: Qubits, qubit2: Qubits) -> Self:
        """exp(-i θ/2 YY)."""
        return self._add(GATES["ryy"], (qubit1, qubit2), (theta,))

    def rzz(self, theta: Angle, qubit1: Qubits, qubit2: Qubits) -> Self:
        """exp(-i θ/2 ZZ)."""
        return self._add(GATES["rzz"], (qubit1, qubit2), (theta,))

    def rzx(self, theta: Angle, qubit1: Qubits, qubit2: Qubits) -> Self:
        """exp(-i θ/2 ZX), with Z on qubit1 and X on qubit2."""
        return self._add(GATES["rzx"], (qubit1, qubit2), (theta,))

    def xx_plus_yy(self, theta: Angle, beta: Angle, qubit1: Qubits, qubit2: Qubits) -> Self:
        """Qiskit's XXPlusYY: exp(-i θ/4 (XX + YY)) between rz(β) and rz(-β) on qubit1."""
        return self._add(GATES["xx_plus_yy"], (qubit1, qubit2), (theta, beta))

    def fsim(self, theta: Angle, phi: Angle, qubit1: Qubits, qubit2: Qubits) -> Self:
        """exp(-i θ/2 (XX + YY)), then the phase e^{-iφ} on |11>."""
        return self._add(GATES["fsim"], (qubit1, qubit2), (theta, phi))

    # Three qubits and more.

    def ccx(self, control1: Qubits, control2: Qubits, target: Qubits) -> Self:
        """Toffoli."""
        return self._add(GATES["ccx"], (control1, control2, target))

    def ccz(self, control1: Qubits, control2: Qubits, target: Qubits) -> Self:
        """Z under two controls."""
        return self._add(GATES["ccz"], (control1, control2, target))

    def cswap(self, control: Qubits, target1: Qubits, target2: Qubits) -> Self:
        """Fredkin."""
        return self._add(GATES["cswap"], (control, target1, target2))

    def rccx(self, control1: Qubits, control2: Qubits, target: Qubits) -> Self:
        """Margolus' Toffoli, right up to relative phases."""
        return self._add(GATES["rccx"], (control1, control2, target))

    def rc3x(self, control1: Qubits, control2: Qubits, control3: Qubits, target: Qubits) -> Self:
        """X under three controls, right up to relative phases."""
        return self._add(GATES["rc3x"], (control1, control2, control3, target))

    def rc3xdg(self, control1: Qubits, control2: Qubits, control3: Qubits, target: Qubits) -> Self:
        """The inverse of rc3x."""
        return self._add(GATES["rc3xdg"], (control1, control2, control3, target))

    def c3x(self, control1: Qubits, control2: Qubits, control3: Qubits, target: Qubits) -> Self:
        """X under three controls."""
        return self._add(GATES["c3x"], (control1, control2, control3, target))

    def c3sqrtx(self, control1: Qubits, control2: Qubits, control3: Qubits, target: Qubits) -> Self:
        """The square root of X under three controls."""
        return self._add(GATES["c3sqrtx"], (control1, control2, control3, target))

    def c4x(self, control1: Qubits, control2: Qubits, control3: Qubits, control4: Qubits, target: Qubits) -> Self:
        """X under four controls."""
        return self._add(GATES["c4x"], (control1, control2, control3, control4, target))

    # Any number of qubits.

    def mcx(self, controls: int | Sequence[int], target: Qubits, ctrl_state: int | str | None = None) -> Self:
        """X under any number of controls; bit i of `ctrl_state` is the value controls[i] must have."""
        chosen = as_tuple(controls)
        return self._add(GATES["x"].controlled(len(chosen), ctrl_state), (*chosen, target))

    def mcp(
        self, lam: Angle, controls: int | Sequence[int], target: Qubits, ctrl_state: int | str | None = None
    ) -> Self:
        """The phase e^{iλ} where all controls have their values and the target is 1."""
        chosen = as_tuple(controls)
        return self._add(GATES["p"].controlled(len(chosen), ctrl_state), (*chosen, target), (lam,))

    def mcz(self, controls: int | Sequence[int], target: Qubits, ctrl_state: int | str | None = None) -> Self:
        """Z under any number of controls; bit i of `ctrl_state` is the value controls[i] must have."""
        chosen = as_tuple(controls)
        return self._add(GATES["z"].controlled(len(chosen), ctrl_state), (*chosen, target))

    def unitary(self, matrix: ArrayLike, qubits: int | Sequence[int]) -> Self:
        """Any unitary matrix; qubits[0] is the least significant bit of its index."""
        return self._on_all(unitary_gate(matrix), qubits)

    def diagonal(self, diagonal: ArrayLike, qubits: int | Sequence[int]) -> Self:
        """A diagonal of 2**n phases; qubits[0] is the least significant bit of its index."""
        return self._on_all(diagonal_gate(diagonal), qubits)

    def permutation(self, permutation: ArrayLike, qubits: int | Sequence[int]) -> Self:
        """Basis state |i> of the qubits becomes |permutation[i]>; qubits[0] is the lowest bit of i."""
        return self._on_all(permutation_gate(permutation), qubits)

    def pauli_rotation(self, theta: Angle, label: str, qubits: int | Sequence[int]) -> Self:
        """exp(-i θ/2 P) for a label such as "XZY", whose last letter acts on qubits[0]."""
        return self._on_all(pauli_rotation_gate(label), qubits, (theta,))

    def gphase(self, angle: Angle) -> Self:
        """The global phase e^{i angle}."""
        return self._add(GATES["gphase"], (), (angle,))

    def _on_all(self, gate: Gate, qubits: int | Sequence[int], params: tuple[Angle, ...] = ()) -> Self:
        chosen = as_tuple(qubits)
        if len(chosen) != gate.num_qubits:
            raise CircuitError(f"this {gate.name} acts on {gate.num_qubits} qubits; got {len(chosen)}: {list(chosen)}")
        return self._add(gate, chosen, params)
