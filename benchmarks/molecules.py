"""Hamiltonians of LiH, H2O and N2 (STO-3G), and coupled-cluster circuits for them.

With PySCF installed the integrals are its own. Without it they are random numbers where symmetry allows any: an
integral over molecular orbitals is zero unless the product of their irreducible representations has the identity. Which
Pauli strings a Hamiltonian has, and which of their coefficients are equal, follows from that alone: 631, 1,086 and
2,951 terms either way.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence

import numpy as np

import qdist as qd
from qdist.circuit import PauliSum
from qdist.circuit.library import fermions
from qdist.circuit.library.molecules import Molecule

__all__ = ["MOLECULES", "ansatz", "hamiltonian", "source"]

# Orbitals by the irreducible representations of D2h and subgroups: bits, whose xor is the product. Of N2: sigma_g 0,
# sigma_u 4, pi_u 1 and 2, pi_g 5 and 6.
MOLECULES = {
    "LiH": (0, 0, 0, 1, 2, 0),
    "H2O": (0, 0, 1, 0, 2, 0, 1),
    "N2": (0, 4, 0, 4, 0, 1, 2, 5, 6, 4),
}
_PI_ORBITALS = ((5, 6), (7, 8))
_ELECTRONS = {"LiH": 4, "H2O": 10, "N2": 14}
_ATOMS = {
    "LiH": "Li 0 0 0; H 0 0 1.5949",
    "H2O": "O 0 0 0.1173; H 0 0.7572 -0.4692; H 0 -0.7572 -0.4692",
    "N2": "N 0 0 0; N 0 0 1.0977",
}


def source() -> str:
    """Where the integrals come from."""
    return "PySCF" if importlib.util.find_spec("pyscf") else "random numbers that have the molecules' symmetry"


def hamiltonian(name: str, seed: int = 0) -> PauliSum:
    """That of one of MOLECULES, by the Jordan-Wigner transformation; `seed` is that of random integrals."""
    if importlib.util.find_spec("pyscf"):
        return _from_pyscf(name).hamiltonian().simplify(1e-10)
    molecule = _molecule(MOLECULES[name], seed)
    if name == "N2":
        # Integrals of a linear molecule do not change with rotations about its axis; of the two pairs of pi orbitals a
        # calculation without symmetry turns one against the other.
        turns = [_rotated(molecule, _PI_ORBITALS, 2 * np.pi * k / 8) for k in range(8)]
        one_body, two_body = (sum(parts) / 8 for parts in zip(*((t.one_body, t.two_body) for t in turns)))
        molecule = _rotated(Molecule(14, 0.0, one_body, two_body), _PI_ORBITALS[1:], 0.3)
    return molecule.hamiltonian().simplify(1e-10)


def ansatz(name: str) -> qd.Circuit:
    """Unitary coupled cluster with singles and doubles, as Pauli rotations: an excitation a parameter.

    N2's are those that keep the symmetry of the orbitals, which are a seventh of all.
    """
    orbitals, electrons = MOLECULES[name], _ELECTRONS[name]
    if name != "N2":
        return fermions.uccsd(electrons, 2 * len(orbitals))
    kept = [
        excitation
        for excitation in fermions.excitations(electrons, 2 * len(orbitals))
        if not np.bitwise_xor.reduce([orbitals[mode // 2] for part in excitation for mode in part])
    ]
    circuit = fermions.hartree_fock(electrons, 2 * len(orbitals))
    for angle, (occupied, virtual) in zip(qd.ParameterVector("theta", len(kept)), kept):
        move = PauliSum([("", 1.0)])
        for mode in virtual:
            move = move @ fermions.creation(mode)
        for mode in reversed(occupied):
            move = move @ fermions.annihilation(mode)
        for string, coefficient in (move - move.adjoint()).simplify():
            letters = "".join(string.letter(q) for q in reversed(string.qubits))
            circuit.pauli_rotation(-2 * coefficient.imag * angle, letters, list(string.qubits))
    return circuit


def _from_pyscf(name: str) -> Molecule:
    from pyscf import ao2mo, gto, scf

    atoms = gto.M(atom=_ATOMS[name], basis="sto-3g", verbose=0)
    field = scf.RHF(atoms)
    field.kernel()
    orbitals = field.mo_coeff
    one_body = orbitals.T @ field.get_hcore() @ orbitals
    two_body = ao2mo.restore(1, ao2mo.kernel(atoms, orbitals), orbitals.shape[1])
    return Molecule(atoms.nelectron, atoms.energy_nuc(), one_body, two_body)


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
