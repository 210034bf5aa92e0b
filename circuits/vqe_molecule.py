"""The ground energy of a molecule from its integrals, by unitary coupled cluster.

python circuits/vqe_molecule.py                       # LiH, 12 qubits
python circuits/vqe_molecule.py --molecule h2o        # water, 14 qubits
python circuits/vqe_molecule.py --fcidump n2.fcidump  # any other, from the file that PySCF and others write
"""

from __future__ import annotations

import argparse

import numpy as np

import qdist as qd


def minimised(program: qd.Program, hamiltonian: qd.PauliSum, steps: int, lr: float) -> list[float]:
    """The energy before every step of Adam, from Hartree-Fock."""
    theta = qd.nn.Parameter(np.zeros(program.circuit.num_parameters))
    optimizer = qd.optim.Adam([theta], lr=lr)
    energies = []
    for _ in range(steps):
        energy, gradient = program.value_and_grad(hamiltonian, theta.data)
        energies.append(energy)
        theta.grad = qd.Tensor(gradient)
        optimizer.step()
    return energies


def main(argv: list[str] | None = None) -> list[float]:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--molecule", choices=["h2", "lih", "h2o"], default="lih")
    parser.add_argument("--fcidump", help="integrals of another molecule")
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--lr", type=float, default=0.02)
    args = parser.parse_args(argv)
    tabulated = {"h2": qd.library.h2, "lih": qd.library.lih, "h2o": qd.library.h2o}
    molecule = qd.library.Molecule.from_fcidump(args.fcidump) if args.fcidump else tabulated[args.molecule]()
    circuit = qd.library.uccsd(molecule.num_electrons, 2 * molecule.num_orbitals)
    hamiltonian = molecule.hamiltonian()
    energies = minimised(qd.compile(circuit, dtype="complex128"), hamiltonian, args.steps, args.lr)
    print(
        f"{circuit.num_qubits} qubits, {len(hamiltonian)} Pauli strings, {circuit.num_parameters} angles: "
        f"Hartree-Fock {energies[0]:.6f} Ha, coupled cluster {energies[-1]:.6f} Ha"
    )
    return energies


if __name__ == "__main__":
    main()
