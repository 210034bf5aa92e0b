"""Hamiltonians with the structure of molecules, without their integrals: random numbers where symmetry allows any.

An integral over molecular orbitals is zero unless the product of their irreducible representations has the identity.
Which Pauli strings a Hamiltonian has, and which of their coefficients are equal, follows from that alone; LiH, H2O and
N2 in the STO-3G basis have 631, 1,086 and 2,951 terms here as with PySCF's integrals.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from qdist.circuit import PauliSum
from qdist.circuit.library.molecules import Molecule

__all__ = ["MOLECULES", "hamiltonian"]

# Orbitals by the irreducible representations of D2h and subgroups: bits, whose xor is the product. Of N2: sigma_g 0,
# sigma_u 4, pi_u 1 and 2, pi_g 5 and 6.
MOLECULES = {
    "LiH": (0, 0, 0, 1, 2, 0),
    "H2O": (0, 0, 1, 0, 2, 0, 1),
    "N2": (0, 4, 0, 4, 0, 1, 2, 5, 6, 4),
}
_PI_ORBITALS = ((5, 6), (7, 8))


def hamiltonian(name: str, seed: int = 0) -> PauliSum:
    """That of a molecule like one of MOLECULES, by the Jordan-Wigner transformation."""
    molecule = _molecule(MOLECULES[name], seed)
    if name == "N2":
        # Integrals of a linear molecule do not change with rotations about its axis; of the two pairs of pi orbitals a
        # calculation without symmetry turns one against the other.
        turns = [_rotated(molecule, _PI_ORBITALS, 2 * np.pi * k / 8) for k in range(8)]
        one_body, two_body = (sum(parts) / 8 for parts in zip(*((t.one_body, t.two_body) for t in turns)))
        molecule = _rotated(Molecule(14, 0.0, one_body, two_body), _PI_ORBITALS[1:], 0.3)
    return molecule.hamiltonian().simplify(1e-10)


def _molecule(representations: Sequence[int], seed: int) -> Molecule:
    rng = np.random.default_rng(seed)
    size = len(representations)
    labels = np.array(representations)
    one_body, two_body = rng.normal(size=(size,) * 2), 0.1 * rng.normal(size=(size,) * 4)
    one_body += one_body.T
    for axes in ((1, 0, 2, 3), (0, 1, 3, 2), (2, 3, 0, 1)):
        two_body = two_body + two_body.transpose(axes)
    pairs = labels[:, None] ^ labels
    return Molecule(2, 0.0, one_body * (pairs == 0), two_body * (pairs[:, :, None, None] == pairs))


def _rotated(molecule: Molecule, pairs: Sequence[tuple[int, int]], angle: float) -> Molecule:
    """The molecule with each of some pairs of orbitals rotated by an angle."""
    turn = np.eye(molecule.num_orbitals)
    for pair in pairs:
        turn[np.ix_(pair, pair)] = [[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]]
    two_body = np.einsum("ap,bq,cr,ds,pqrs->abcd", turn, turn, turn, turn, molecule.two_body, optimize=True)
    return Molecule(molecule.num_electrons, molecule.constant, turn @ molecule.one_body @ turn.T, two_body)
