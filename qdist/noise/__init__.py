"""Noisy circuits: channels, noise models, trajectories and density matrices.

circuit = qd.Circuit(2).h(0).cx(0, 1).depolarizing(0.02, 0, 1)
qd.noise.compile(circuit).expectation("Z0 Z1", shots=1000, seed=0)                  # a mean with a standard error
qd.noise.compile(circuit, method="density_matrix").expectation("Z0 Z1")             # exact
"""

from qdist.circuit.channels import (
    Channel,
    amplitude_damping,
    bit_flip,
    depolarizing,
    kraus,
    pauli_channel,
    phase_damping,
    phase_flip,
    thermal_relaxation,
)
from qdist.noise.model import NoiseModel
from qdist.noise.program import NoisyProgram, compile

__all__ = [
    "Channel",
    "NoiseModel",
    "NoisyProgram",
    "amplitude_damping",
    "bit_flip",
    "compile",
    "depolarizing",
    "kraus",
    "pauli_channel",
    "phase_damping",
    "phase_flip",
    "thermal_relaxation",
]
