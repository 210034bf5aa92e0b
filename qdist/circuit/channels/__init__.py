"""Noise on a circuit: channels as instructions, given by Kraus operators, and errors of readout."""

from .channel import Channel, as_pauli, channel_of, refuse_channels
from .kinds import (
    amplitude_damping,
    bit_flip,
    depolarizing,
    kraus,
    pauli_channel,
    phase_damping,
    phase_flip,
    readout_error,
    thermal_relaxation,
)
from .linear import LinearGate

__all__ = [
    "Channel",
    "LinearGate",
    "amplitude_damping",
    "as_pauli",
    "bit_flip",
    "channel_of",
    "depolarizing",
    "kraus",
    "pauli_channel",
    "phase_damping",
    "phase_flip",
    "readout_error",
    "refuse_channels",
    "thermal_relaxation",
]
