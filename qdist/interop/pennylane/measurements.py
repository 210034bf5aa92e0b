"""Measurements without shots: which are outputs that a Program differentiates, and how all of them read a state."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any

import numpy as np
import pennylane as qml
from numpy.typing import NDArray
from pennylane.measurements import (
    DensityMatrixMP,
    ExpectationMP,
    MeasurementProcess,
    ProbabilityMP,
    PurityMP,
    StateMP,
    VarianceMP,
    VnEntropyMP,
)

from qdist.circuit import PauliSum
from qdist.state.outputs import Expectation, Output, Probabilities, State
from qdist.state.statevector import StateVector

from . import observables
from .outputs import StateOfNoWires
from .tapes import Compiler

__all__ = ["numeric", "on_positions", "output_of", "qubits_of", "read", "wire_order"]

_MOST_GATHERED = 24
"""States of up to so many qubits are brought together for measurements that PennyLane computes from amplitudes."""
_MOST_REDUCED = 6
"""Density matrices of up to so many wires of a larger state are computed from expectation values of Pauli strings."""


def wire_order(place: Mapping[Any, int]) -> qml.wires.Wires:
    """The wires of a tape, that of the highest qubit first."""
    return qml.wires.Wires(sorted(place, key=lambda wire: -place[wire]))


def on_positions(mp: MeasurementProcess, place: Mapping[Any, int]) -> MeasurementProcess:
    """The measurement with the position of each wire as its label: some of PennyLane's take labels for positions."""
    return mp.map_wires({wire: len(place) - 1 - qubit for wire, qubit in place.items()})


def qubits_of(wires: Sequence[Any], place: Mapping[Any, int]) -> list[int]:
    """The qubits of wires, in our order: the last wire is the lowest bit. All of them where there are no wires."""
    return [place[wire] for wire in reversed(wires)] if len(wires) else list(range(len(place)))


def output_of(mp: MeasurementProcess, place: Mapping[Any, int]) -> Output | None:
    """The output of a Program that is the measurement's value; None where none is."""
    if mp.mv is not None:
        return None
    if isinstance(mp, ExpectationMP):
        return None if mp.obs is None else observables.expectation(mp.obs, place)
    if isinstance(mp, VarianceMP):
        return None if mp.obs is None else observables.variance(mp.obs, place)
    if isinstance(mp, ProbabilityMP) and mp.obs is None:
        return Probabilities(qubits_of(mp.wires, place))
    if type(mp) is StateMP and (not mp.wires or list(mp.wires) == list(wire_order(place))):
        return State() if place else StateOfNoWires()
    return None


def read(
    measurements: Sequence[MeasurementProcess],
    outputs: Sequence[Any],
    state: StateVector,
    place: Mapping[Any, int],
    compiler: Compiler,
) -> list[Any]:
    """The value of each measurement in a state, the same on every rank; all expectation values share their passes."""
    sums = [output.observable for output in outputs if isinstance(output, Expectation)]
    expected = iter(state.expectations(sums)) if sums else iter(())
    values = []
    for mp, output in zip(measurements, outputs):
        if isinstance(output, Expectation):
            values.append(next(expected))
        elif isinstance(output, Output):
            values.append(numeric(output.value(state)))
        else:
            values.append(_read_other(mp, state, place, compiler))
    return values


def numeric(value: Any) -> Any:
    """A float as NumPy has it: what PennyLane's interfaces take."""
    return np.float64(value) if isinstance(value, float) else value


def _read_other(mp: MeasurementProcess, state: StateVector, place: Mapping[Any, int], compiler: Compiler) -> Any:
    if isinstance(mp, ProbabilityMP) and mp.mv is None:
        rotated = compiler.applied(mp.diagonalizing_gates(), place, state, None)
        return rotated.probabilities(qubits_of(mp.wires, place))
    few = isinstance(mp, DensityMatrixMP | PurityMP | VnEntropyMP) and len(mp.wires) <= _MOST_REDUCED
    if few and state.num_qubits > _MOST_GATHERED:
        reduced = _density_matrix(state, qubits_of(mp.wires, place))
        return mp.process_density_matrix(reduced, mp.wires)
    if not isinstance(mp, qml.measurements.StateMeasurement):
        raise qml.exceptions.DeviceError(f"{mp} needs shots: give the QNode some with qml.set_shots(qnode, shots=...)")
    return on_positions(mp, place).process_state(state.amplitudes(), qml.wires.Wires(range(len(place))))


def _density_matrix(state: StateVector, qubits: Sequence[int]) -> NDArray[np.complex128]:
    """The reduced density matrix, sum_P <P> P / 2^k, indexed with qubits[0] as the lowest bit."""
    size = 1 << len(qubits)
    strings = [PauliSum.from_masks([x], [z], [1.0]) for x, z in product(range(size), repeat=2)]
    means = state.expectations([string.relabel(qubits) for string in strings])
    x, z = (np.array(pair) for pair in zip(*product(range(size), repeat=2)))
    return PauliSum.from_masks(x.astype(np.uint64), z.astype(np.uint64), means / size).to_matrix(len(qubits))
