"""The ground energy of a molecule from its integrals, by unitary coupled cluster.

python circuits/vqe_molecule.py                       # LiH, 12 qubits
python circuits/vqe_molecule.py --molecule h2o        # water, 14 qubits
python circuits/vqe_molecule.py --fcidump n2.fcidump  # any other, from the file that PySCF and others write
"""

from __future__ import annotations

import argparse

import numpy as np

import qdist as qd
from qdist import training


def minimised(circuit: qd.Circuit, hamiltonian: qd.PauliSum, args: argparse.Namespace) -> list[float]:
    """The energy before every step of Adam, from Hartree-Fock."""
    comm = qd.comm.init()
    layer = qd.nn.QuantumLayer(
        circuit,
        hamiltonian,
        weights=circuit.parameters,
        comm=comm,
        dtype="complex128",
        initial=np.zeros(circuit.num_parameters),
    )
    optimizer = qd.optim.Adam(layer.parameters(), lr=args.lr)

    def step(number: int) -> float:
        return training.descend(layer().sum(), optimizer)

    return training.train("vqe_molecule", step, {"layer": layer, "optimizer": optimizer}, args, comm)


def main(argv: list[str] | None = None) -> list[float]:
    parser = training.parser(__doc__, steps=30, lr=0.02)
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--molecule", choices=["h2", "lih", "h2o"], default="lih")
    which.add_argument("--fcidump", help="integrals of another molecule")
    args = parser.parse_args(argv)
    tabulated = {"h2": qd.library.h2, "lih": qd.library.lih, "h2o": qd.library.h2o}
    molecule = qd.library.Molecule.from_fcidump(args.fcidump) if args.fcidump else tabulated[args.molecule]()
    circuit = qd.library.uccsd(molecule.num_electrons, 2 * molecule.num_orbitals)
    hamiltonian = molecule.hamiltonian()
    energies = minimised(circuit, hamiltonian, args)
    if qd.comm.world().rank == 0:
        print(
            f"{circuit.num_qubits} qubits, {len(hamiltonian)} Pauli strings, {circuit.num_parameters} angles: "
            f"Hartree-Fock {energies[0]:.6f} Ha, coupled cluster {energies[-1]:.6f} Ha"
        )
        if args.plot:
            training.plot(energies, args.plot, "energy")
    return energies


if __name__ == "__main__":
    training.run(main)
