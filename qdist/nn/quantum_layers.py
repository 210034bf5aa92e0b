"""The quantum layers of a model, found without importing what simulates circuits."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from .module import Module

if TYPE_CHECKING:
    from .quantum import QuantumLayer

__all__ = ["quantum_layers"]


def quantum_layers(model: Module) -> list[QuantumLayer]:
    """Those among all modules of a model; none where nobody has imported their class."""
    quantum = sys.modules.get("qdist.nn.quantum")
    return [] if quantum is None else [m for m in model.modules() if isinstance(m, quantum.QuantumLayer)]
