"""The frame of a state: which stored index an amplitude has, after X, CX and SWAP that moved nothing.

Such gates change indices by an affine map over GF(2). Instead of the amplitudes, the map is kept: the value of qubit q
at stored index s is the parity of ``s & functionals[q]``, plus ``constants[q]``; and ``columns[q]`` are the bits of s
that change where that qubit alone does.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

__all__ = ["Frame", "parity"]


def parity(mask: int) -> int:
    return mask.bit_count() & 1


class Frame:
    """The affine map between logical and stored indices; at the start they are the same."""

    __slots__ = ("columns", "constants", "functionals", "num_qubits")

    def __init__(self, num_qubits: int) -> None:
        self.num_qubits = num_qubits
        self.functionals = [1 << q for q in range(num_qubits)]
        self.constants = [0] * num_qubits
        self.columns = [1 << q for q in range(num_qubits)]

    def flip(self, target: int, controls: Iterable[tuple[int, int]] = ()) -> None:
        """X of a qubit, under at most one control (qubit, value)."""
        for control, value in controls:
            self.functionals[target] ^= self.functionals[control]
            self.constants[target] ^= self.constants[control] ^ 1 ^ value
            self.columns[control] ^= self.columns[target]
            return
        self.constants[target] ^= 1

    def swap(self, a: int, b: int) -> None:
        for table in (self.functionals, self.constants, self.columns):
            table[a], table[b] = table[b], table[a]

    def permute(self, targets: Sequence[int], image: Sequence[int]) -> None:
        """Takes setting j of some qubits to ``image[j]``, which must be affine over GF(2) (see ``is_affine``)."""
        first = image[0]
        old = [(self.functionals[q], self.constants[q], self.columns[q]) for q in targets]
        source = {image[j] ^ first: j for j in range(len(image))}
        for t, qubit in enumerate(targets):
            functional, constant, column = 0, first >> t & 1, 0
            for b, (f, c, m) in enumerate(old):
                if (image[1 << b] ^ first) >> t & 1:
                    functional, constant = functional ^ f, constant ^ c
                if source[1 << t] >> b & 1:
                    column ^= m
            self.functionals[qubit], self.constants[qubit], self.columns[qubit] = functional, constant, column

    def stored(self, x: int, z: int) -> tuple[int, int, int]:
        """The Pauli X^x Z^z of qubits as X^m Z^f of stored bits: (m, f, 1 if its sign is opposite)."""
        m = f = sign = 0
        for q in range(self.num_qubits):
            if x >> q & 1:
                m ^= self.columns[q]
            if z >> q & 1:
                f ^= self.functionals[q]
                sign ^= self.constants[q]
        return m, f, sign

    @property
    def origin(self) -> int:
        """The stored index of |0...0>."""
        return self.stored(sum(c << q for q, c in enumerate(self.constants)), 0)[0]


def is_affine(image: Sequence[int]) -> bool:
    """Whether a permutation of the settings of some bits is an affine map over GF(2)."""
    first = image[0]
    return all(image[j] ^ first == (image[j & j - 1] ^ first) ^ (image[j & -j] ^ first) for j in range(1, len(image)))
