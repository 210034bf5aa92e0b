"""A tape bound to a program: the values of its angles, the amplitudes it begins with, the qubits of its wires."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import pennylane as qml
from numpy.typing import NDArray
from pennylane.tape import QuantumScript

from . import operations
from .tapes import Compiler, TapeProgram

__all__ = ["Bound", "as_numpy", "bound"]


class Bound(NamedTuple):
    """What a tape runs as."""

    program: TapeProgram
    place: Mapping[Any, int]
    """The qubit of each wire."""
    theta: NDArray[np.float64]
    """The program's parameters, of shape (parameters,), or (rows, parameters) for a batch."""
    starts: NDArray[Any] | None
    """The amplitudes that the tape begins with: those of all rows, or (rows, amplitudes); None: all wires are 0."""


def bound(tape: QuantumScript, compiler: Compiler, wires: Any) -> Bound:
    """A tape on the wires of a device (None: any); tapes of one structure differ in theta and starts alone."""
    found, place = compiler.of_tape(tape, wires)
    starts = found.starts(tape.operations)
    rows = len(starts) if starts is not None and starts.ndim == 2 else None
    return Bound(found, place, found.values(tape.operations, rows), starts)


def as_numpy(tape: QuantumScript) -> QuantumScript:
    """The tape with NumPy's numbers where it has those of another framework; but angles, of which there are most, are
    unwrapped when they are bound."""
    if operations.all_in_table(tape.operations):
        observables = [mp.obs for mp in tape.measurements if mp.obs is not None]
        if all(qml.math.get_interface(*obs.data) == "numpy" for obs in observables):
            return tape
    (converted,), _ = qml.transforms.convert_to_numpy_parameters(tape)
    return converted
