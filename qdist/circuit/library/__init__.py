"""The library: textbook circuits, ansätze, feature maps, Hamiltonians and molecules."""

from .algorithms import (
    amplitude_estimation,
    bernstein_vazirani,
    constant_oracle,
    deutsch_jozsa,
    grover,
    parity_oracle,
    phase_estimation,
    qft,
)
from .ansatz import (
    efficient_su2,
    hardware_efficient,
    qaoa,
    qaoa_maxcut,
    real_amplitudes,
    strongly_entangling_layers,
)
from .embeddings import amplitude_embedding, angle_embedding, zz_feature_angles, zz_feature_map
from .evolution import heisenberg_evolution, tfim_evolution, trotter
from .fermions import annihilation, creation, electronic_hamiltonian, excitations, hartree_fock, uccsd
from .graphs import lattice_edges
from .hamiltonians import heisenberg_xxz, maxcut, tfim
from .molecules import Molecule, h2, h2o, lih
from .random_circuits import quantum_volume, random_circuit, random_su
from .states import ghz, graph_state, w_state

__all__ = [
    "Molecule",
    "amplitude_embedding",
    "amplitude_estimation",
    "angle_embedding",
    "annihilation",
    "bernstein_vazirani",
    "constant_oracle",
    "creation",
    "deutsch_jozsa",
    "efficient_su2",
    "electronic_hamiltonian",
    "excitations",
    "ghz",
    "graph_state",
    "grover",
    "h2",
    "h2o",
    "hardware_efficient",
    "hartree_fock",
    "heisenberg_evolution",
    "heisenberg_xxz",
    "lattice_edges",
    "lih",
    "maxcut",
    "parity_oracle",
    "phase_estimation",
    "qaoa",
    "qaoa_maxcut",
    "qft",
    "quantum_volume",
    "random_circuit",
    "random_su",
    "real_amplitudes",
    "strongly_entangling_layers",
    "tfim",
    "tfim_evolution",
    "trotter",
    "uccsd",
    "w_state",
    "zz_feature_angles",
    "zz_feature_map",
]
