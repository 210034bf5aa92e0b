"""Quantum layers in parallel models: the ranks that share a circuit's amplitudes must all do the same work."""

from __future__ import annotations

from collections.abc import Iterable

from qdist.comm import Communicator, Mesh
from qdist.nn import Module
from qdist.nn.quantum_layers import quantum_layers

__all__ = ["amplitude_groups", "check_circuits"]


def check_circuits(layers: Iterable[object], comm: Communicator) -> None:
    """Raises ValueError for a QuantumLayer, in one of these, that goes over the ranks of `comm`, which get different
    rows of the batch or different layers: they would wait for each other for ever, or give wrong numbers.

    A layer made with a Mesh averages its gradients over the axis "dp" by itself, so it cannot be averaged here too.
    """
    if comm.size == 1:
        return
    for circuit in (found for layer in layers if isinstance(layer, Module) for found in quantum_layers(layer)):
        over = circuit.comm
        if over is comm or (isinstance(over, Mesh) and over.shape.get("dp", 1) > 1):
            raise ValueError(
                f"a QuantumLayer was made with comm={over!r}, whose ranks have different work to do here: make a Mesh "
                'with an axis "state", and give comm=mesh["state"] to the layer and another axis to the rest'
            )


def amplitude_groups(model: Module) -> list[Communicator]:
    """The communicators that circuits in a model are split over, each once: what their ranks compute around a circuit
    has to be equal, and so have all parameters."""
    groups = [circuit.program.comm for circuit in quantum_layers(model)]
    return list({id(group): group for group in groups if group is not None and group.size > 1}.values())
