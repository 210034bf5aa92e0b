"""Shots: which measurements one run serves for all of them, and what came how often."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from qdist.circuit import Circuit

__all__ = ["final_measurements", "spread", "tally"]


def final_measurements(circuit: Circuit) -> dict[int, int] | None:
    """{classical bit: qubit} if all measurements come last and nothing is random or conditional before; else None."""
    measured: dict[int, int] = {}
    for gate, qubits, _, clbits, condition in circuit:
        if gate.is_directive:
            continue
        if condition or gate.kind in ("reset", "initialize") or (measured and gate.kind != "measure"):
            return None
        if gate.kind == "measure":
            if qubits[0] in measured.values() or clbits[0] in measured:
                return None
            measured[clbits[0]] = qubits[0]
    return measured


def spread(samples: NDArray[np.int64], clbits: Sequence[int]) -> NDArray[np.int64]:
    """Bit k of each sample moved to bit clbits[k]."""
    out = np.zeros_like(samples)
    for k, clbit in enumerate(clbits):
        out |= (samples >> k & 1) << clbit
    return out


def tally(outcomes: NDArray[np.int64], width: int) -> dict[str, int]:
    """How often each outcome came, as bit strings of this width, highest bit first."""
    values, times = np.unique(outcomes, return_counts=True)
    return {f"{int(v):0{width}b}": int(t) for v, t in zip(values, times)}
