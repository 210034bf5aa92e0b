"""Measurements with shots: samples in a basis for each group of measurements that share one, processed as PennyLane has
it. The results of every (part of a) shot vector come from the same samples."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import pennylane as qml
from numpy.typing import NDArray
from pennylane.measurements import ClassicalShadowMP, ExpectationMP, MeasurementProcess, ShadowExpvalMP, Shots
from pennylane.operation import Operator
from pennylane.ops import CompositeOp, Prod, SProd, Sum, SymbolicOp
from pennylane.tape import QuantumScript

from qdist.state.statevector import StateVector

from .measurements import wire_order
from .operations import MOST_MATRIX_WIRES
from .tapes import Compiler

__all__ = ["Sampler", "merged", "sample_state", "sampled"]

Sampler: TypeAlias = Callable[[Sequence[Operator]], NDArray[np.int64]]
"""Draws all shots after these rotations: bits of shape (shots, wires), in the order of the wires."""


def sample_state(
    state: StateVector,
    shots: int,
    rotations: Sequence[Operator],
    place: Mapping[Any, int],
    compiler: Compiler,
    rng: Any,
) -> NDArray[np.int64]:
    """Bits of so many shots of a state after rotations: shape (shots, wires), the wire of the highest qubit first."""
    if rotations:
        state = compiler.applied(rotations, place, state, None)
    indices = state.sample(shots, rng)
    return indices[:, None] >> np.arange(len(place) - 1, -1, -1) & 1


def sampled(
    measurements: Sequence[MeasurementProcess],
    shots: Shots,
    place: Mapping[Any, int],
    draw: Sampler,
    amplitudes: Callable[[], NDArray[Any]],
    rng: Any,
) -> Any:
    """The results of measurements: one, or a tuple of several; a tuple of these for a shot vector.

    draw: the samples; ``amplitudes``: the state, which classical shadows are drawn from.
    """
    tapes, combined = _groups(measurements, shots)
    order = wire_order(place)
    results = []
    for tape in tapes:
        if isinstance(tape.measurements[0], ClassicalShadowMP | ShadowExpvalMP):
            results.append(_shadows(tape.measurements[0], shots, order, amplitudes(), rng))
            continue
        samples = draw(_rotations(tape.measurements))
        parts = [
            tuple(mp.process_samples(samples, order, shot_range=bounds) for mp in tape.measurements)
            for bounds in shots.bins()
        ]
        unpacked = tuple(part[0] if len(part) == 1 else part for part in parts)
        results.append(unpacked if shots.has_partitioned_shots else unpacked[0])
    return combined(tuple(results))


def merged(rows: Sequence[Any], has_parts: bool, several: bool) -> Any:
    """The results of all rows of a batch, each measurement's with the batch in front."""
    if has_parts:
        return tuple(merged(part, False, several) for part in zip(*rows))
    if several:
        return tuple(merged(column, False, False) for column in zip(*rows))
    return list(rows) if isinstance(rows[0], dict) else np.stack(rows)


def _groups(measurements: Sequence[MeasurementProcess], shots: Shots) -> tuple[Sequence[QuantumScript], Any]:
    """Scripts of measurements that share a basis, and what makes the results of all of their results.

    Some have one of their own; PennyLane groups the others, the terms of sums whose mean is asked for included.
    """
    apart = [k for k, mp in enumerate(measurements) if _is_apart(mp)]
    others = [k for k in range(len(measurements)) if k not in apart]
    script = QuantumScript([], [measurements[k] for k in others], shots=shots)
    tapes, combine = qml.transforms.split_non_commuting(script) if others else ((), tuple)
    alone = [QuantumScript([], [measurements[k]], shots=shots) for k in apart]

    if others and not tapes and shots.has_partitioned_shots:
        # Constants alone: PennyLane finds how many parts there are from results, of which there are none.
        _, constants = qml.transforms.split_non_commuting(QuantumScript([], script.measurements))

        def combine(results: tuple[Any, ...]) -> Any:
            return (constants(results),) * shots.num_copies

    def combined(results: tuple[Any, ...]) -> Any:
        first = combine(results[: len(tapes)])
        if not apart:
            return first
        found: list[Any] = [None] * len(measurements)
        for k, result in zip(apart, results[len(tapes) :]):
            found[k] = result
        if shots.has_partitioned_shots:
            return tuple(
                _placed(found, others, first[part] if others else (), part) for part in range(shots.num_copies)
            )
        return _placed(found, others, first, None)

    return [*tapes, *alone], combined


def _is_apart(mp: MeasurementProcess) -> bool:
    """Whether a measurement has a basis of its own: a shadow, or one of the eigenvalues of a sum, which those of its
    terms do not tell. PennyLane's groups have neither those nor the identity's, nor zero's."""
    if isinstance(mp, ClassicalShadowMP | ShadowExpvalMP):
        return True
    obs = mp.obs
    if obs is None or isinstance(mp, ExpectationMP):
        return False
    if isinstance(obs, SProd | Prod):
        obs = obs.simplify()
    is_zero = obs.pauli_rep is not None and not any(obs.pauli_rep.values())
    return is_zero or isinstance(obs, Sum | qml.Identity)


def _placed(found: Sequence[Any], others: Sequence[int], rest: Any, part: int | None) -> Any:
    """All results of one part of a shot vector (None: there are no parts) in the order of the measurements."""
    row = [result if part is None or result is None else result[part] for result in found]
    for k, result in zip(others, (rest,) if len(others) == 1 else rest):
        row[k] = result
    return row[0] if len(row) == 1 else tuple(row)


def _rotations(measurements: Sequence[MeasurementProcess]) -> list[Operator]:
    """What takes the basis of a group to the computational one."""
    observables = [mp.obs for mp in measurements if mp.obs is not None]
    with qml.QueuingManager.stop_recording():
        if len(observables) > 1 and all(qml.pauli.is_pauli_word(o) for o in observables):
            return list(qml.pauli.diagonalize_qwc_pauli_words(observables)[0])
        for observable in observables:
            _check_diagonalizable(observable)
        return [gate for mp in measurements for gate in mp.diagonalizing_gates()]


def _check_diagonalizable(observable: Operator) -> None:
    """Raises DeviceError where PennyLane would diagonalise a matrix of many wires."""
    if isinstance(observable, SymbolicOp):
        _check_diagonalizable(observable.base)
    elif isinstance(observable, CompositeOp):
        for part in observable.overlapping_ops:
            wires = qml.wires.Wires.all_wires([operand.wires for operand in part])
            if len(part) == 1:
                _check_diagonalizable(part[0])
            elif len(wires) > MOST_MATRIX_WIRES:
                raise qml.exceptions.DeviceError(
                    f"samples of a sum or product whose terms share {len(wires)} wires take its eigenvalues: of at "
                    f"most {MOST_MATRIX_WIRES} wires. Measure its terms, or its expectation value"
                )


def _shadows(mp: Any, shots: Shots, order: qml.wires.Wires, amplitudes: NDArray[Any], rng: Any) -> Any:
    """PennyLane's own shadows of a state, one for each part of a shot vector."""
    tensor = amplitudes.reshape((2,) * len(order))
    found = tuple(
        mp.process_state_with_shots(tensor, order, count, rng=np.random.default_rng(rng.integers(1 << 31)))
        for count in shots
    )
    return found if shots.has_partitioned_shots else found[0]
