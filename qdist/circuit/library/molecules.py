"""Small molecules: integrals over molecular orbitals, active spaces, and H2, LiH and H2O to start with.

The files in `data/` are FCIDUMPs of restricted Hartree-Fock orbitals in the STO-3G basis, computed with PySCF
2.14.0 (converged to 1e-13 Hartree). PySCF's full configuration interaction energies for them are
-1.137306035753 (H2), -7.882403410335 (LiH) and -75.012759313057 Hartree (H2O).
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from qdist.hints import hinted

from ..errors import CircuitError
from ..pauli import PauliSum
from .fermions import electronic_hamiltonian


@dataclass(frozen=True, eq=False)
class Molecule:
    """Electrons in molecular orbitals: all that a Hamiltonian and an ansatz need to know of a molecule.

    >>> from qdist.circuit.library import uccsd
    >>> molecule = h2()
    >>> hamiltonian = molecule.hamiltonian()
    >>> ansatz = uccsd(molecule.num_electrons, molecule.num_qubits)
    """

    num_electrons: int
    constant: float
    """The energy of the nuclei, and of frozen electrons, in Hartree."""
    one_body: NDArray[np.float64]
    """Kinetic energy and attraction, h_pq, of shape (orbitals, orbitals), in Hartree."""
    two_body: NDArray[np.float64]
    """Repulsion (pq|rs) in the chemists' order, of shape (orbitals,) * 4, in Hartree."""

    @property
    def num_orbitals(self) -> int:
        """The number of spatial orbitals."""
        return len(self.one_body)

    @property
    def num_qubits(self) -> int:
        """The number of spin orbitals."""
        return 2 * self.num_orbitals

    @classmethod
    def from_fcidump(cls, path: str | Path) -> Molecule:
        """Read an FCIDUMP file (Knowles and Handy, Comput. Phys. Commun. 54, 75 (1989)).

        Raises:
            CircuitError: with the line number, where the file is malformed; for unrestricted orbitals.
        """
        return cls._parse(Path(path).read_text())

    @classmethod
    def _parse(cls, text: str) -> Molecule:
        end = re.search(r"&END|^\s*/", text, re.MULTILINE | re.IGNORECASE)
        header, body = (text[: end.end()], text[end.end() :]) if end else ("", "")
        orbitals, electrons = (re.search(rf"\b{key}\s*=\s*(\d+)", header, re.I) for key in ("NORB", "NELEC"))
        if not orbitals or not electrons:
            raise CircuitError("an FCIDUMP starts with a header like &FCI NORB=2, NELEC=2, MS2=0 &END")
        if re.search(r"\bI?UHF\s*=\s*(1|\.T)", header, re.I):
            raise CircuitError("the FCIDUMP is of unrestricted orbitals; restricted ones are needed")
        n = int(orbitals[1])
        constant, one_body, two_body = 0.0, np.zeros((n, n)), np.zeros((n, n, n, n))
        for number, line in enumerate(body.split("\n"), header.count("\n") + 1):
            if not line.strip():
                continue
            integral, indices = _integral(number, line, n)
            match indices:
                case [p, q, r, s]:
                    for (a, b), (c, d) in itertools.permutations([(p, q), (r, s)]):
                        two_body[a, b, c, d] = two_body[b, a, c, d] = integral
                        two_body[a, b, d, c] = two_body[b, a, d, c] = integral
                case [p, q]:
                    one_body[p, q] = one_body[q, p] = integral
                case []:
                    constant = integral
                # One index is the energy of an orbital, which the Hamiltonian does not need.
        return cls(int(electrons[1]), constant, one_body, two_body)

    def active_space(self, active: Iterable[int], frozen: Iterable[int] = ()) -> Molecule:
        """The molecule with some orbitals frozen (doubly occupied), some active, and the others left empty.

        Args:
            active: spatial orbitals to keep, in their new order.
            frozen: spatial orbitals whose two electrons become part of the constant and of the one-body
                integrals.
        """
        kept, core = list(active), list(frozen)
        chosen = {*kept, *core}
        if len(chosen) != len(kept) + len(core) or not chosen <= set(range(self.num_orbitals)):
            raise CircuitError(
                f"active {kept} and frozen {core} orbitals must be different and below {self.num_orbitals}"
            )
        if 2 * len(core) > self.num_electrons:
            raise CircuitError(f"{len(core)} frozen orbitals hold more than the {self.num_electrons} electrons")
        repulsion = self.two_body
        coulomb = 2 * np.einsum("pqcc->pqc", repulsion)[:, :, core].sum(axis=2)
        exchange = np.einsum("pccq->pqc", repulsion)[:, :, core].sum(axis=2)
        field = coulomb - exchange
        constant = self.constant + float((2 * self.one_body + field)[core, core].sum())
        return Molecule(
            self.num_electrons - 2 * len(core),
            constant,
            (self.one_body + field)[np.ix_(kept, kept)],
            repulsion[np.ix_(kept, kept, kept, kept)],
        )

    def hamiltonian(self) -> PauliSum:
        """The electronic Hamiltonian with all constants, by the Jordan-Wigner transformation, in Hartree.

        Orbital p is on the qubits 2p (spin up) and 2p + 1 (spin down).
        """
        return electronic_hamiltonian(self.constant, self.one_body, self.two_body)


def _integral(number: int, line: str, num_orbitals: int) -> tuple[float, list[int]]:
    """The value of a line of an FCIDUMP, and its 4, 2, 1 or 0 orbitals counted from 0."""
    try:
        value, *columns = line.split()
        indices = [int(column) for column in columns]
        used = [index - 1 for index in indices if index]
        trailing_zeros = indices[: len(used)] == [index + 1 for index in used]
        if len(indices) == 4 and len(used) != 3 and trailing_zeros and set(used) <= set(range(num_orbitals)):
            return float(value.upper().replace("D", "E")), used
    except ValueError:
        pass
    raise CircuitError(
        f"line {number}: expected a number and four indices from 0 to {num_orbitals}, got {line.strip()!r}"
    )


@hinted
def h2() -> Molecule:
    """H2 at 0.735 Angstrom, STO-3G: 2 electrons, 4 qubits; the ground state has -1.137306 Hartree."""
    return _tabulated("h2_sto3g_0.735")


@hinted
def h2o() -> Molecule:
    """Water with bonds of 0.9584 Angstrom at 104.45 degrees, STO-3G: 10 electrons, 14 qubits; the ground state has
    -75.012759 Hartree. `h2o().active_space(range(1, 7), frozen=[0])` freezes the core of oxygen: 12 qubits."""
    return _tabulated("h2o_sto3g")


@hinted
def lih() -> Molecule:
    """LiH at 1.5949 Angstrom, STO-3G: 4 electrons, 12 qubits; the ground state has -7.882403 Hartree.

    `lih().active_space([1, 2, 5], frozen=[0])` is the usual small form on 6 qubits, with the core of lithium
    frozen and its empty px and py orbitals (3 and 4) left out: -7.881146 Hartree.
    """
    return _tabulated("lih_sto3g_1.5949")


def _tabulated(name: str) -> Molecule:
    return Molecule._parse((resources.files(__package__) / "data" / f"{name}.fcidump").read_text())
