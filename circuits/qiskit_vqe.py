"""The ground energy of a Heisenberg chain by the VQE of qiskit-algorithms.

    python circuits/qiskit_vqe.py
    mpirun -n 4 python circuits/qiskit_vqe.py --spins 20         # the state split over four ranks

Two objects differ from a program that runs on Qiskit's own simulator: the estimator, and the gradient, which the
adjoint method computes at the cost of about three runs however many angles there are. H is the sum of
X_i X_(i+1) + Y_i Y_(i+1) + Z_i Z_(i+1) over an open chain; the circuit starts from singlets on every other bond and
alternates rotations about the bonds. Prints the energy per spin, which tends to 1 - 4 ln 2 = -1.7726 for long chains.
"""

from __future__ import annotations

import argparse

import numpy as np
from qiskit.circuit import ParameterVector, QuantumCircuit
from qiskit.quantum_info import SparsePauliOp
from qiskit_algorithms import VQE
from qiskit_algorithms.optimizers import L_BFGS_B

import qdist
from qdist.interop.qiskit import Estimator
from qdist.interop.qiskit.algorithms import AdjointEstimatorGradient
from qdist.training import run, whole


def ansatz(spins: int, layers: int) -> QuantumCircuit:
    """Singlets on every other bond, and layers of rotations about all bonds: an angle for each bond of a layer."""
    angles = ParameterVector("angle", layers * (spins - 1))
    circuit = QuantumCircuit(spins)
    for i in range(0, spins - 1, 2):
        circuit.x([i, i + 1])
        circuit.h(i)
        circuit.cx(i, i + 1)
    for layer in range(layers):
        for start in (1, 0):
            for i in range(start, spins - 1, 2):
                angle = angles[layer * (spins - 1) + i]
                circuit.rxx(angle, i, i + 1)
                circuit.ryy(angle, i, i + 1)
                circuit.rzz(angle, i, i + 1)
    return circuit


def heisenberg(spins: int) -> SparsePauliOp:
    """The Hamiltonian of an open chain."""
    terms = [(letters, [i, i + 1], 1.0) for i in range(spins - 1) for letters in ("XX", "YY", "ZZ")]
    return SparsePauliOp.from_sparse_list(terms, num_qubits=spins)


def main(argv: list[str] | None = None) -> float:
    """Returns the lowest energy per spin."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--spins", type=whole(2, even=True), default=12, help="an even number (default: 12)")
    parser.add_argument("--layers", type=whole(1), default=4)
    parser.add_argument("--steps", type=whole(1), default=60, help="of L-BFGS (default: 60)")
    parser.add_argument("--seed", type=whole(0), default=1)
    args = parser.parse_args(argv)

    estimator = Estimator()
    circuit = ansatz(args.spins, args.layers)
    first = qdist.comm.world().rank == 0

    def report(count: int, angles: np.ndarray, energy: float, metadata: dict) -> None:
        if first and count % 10 == 1:
            print(f"evaluation {count}: {energy / args.spins:.6f}", flush=True)

    vqe = VQE(
        estimator,
        circuit,
        L_BFGS_B(maxiter=args.steps),
        gradient=AdjointEstimatorGradient(estimator),
        initial_point=np.random.default_rng(args.seed).normal(0.1, 0.05, circuit.num_parameters),
        callback=report,
    )
    found = vqe.compute_minimum_eigenvalue(heisenberg(args.spins)).eigenvalue.real / args.spins
    if first:
        print(f"energy per spin {found:.6f}")
    return found


if __name__ == "__main__":
    run(main)
