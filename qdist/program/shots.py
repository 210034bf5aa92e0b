"""Expectation values, samples and shadows of a program from shots; averages over runs where a circuit is random."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from qdist.backends.errors import StateError
from qdist.program.runner import Runner
from qdist.progress import counted
from qdist.state.checking import checks
from qdist.state.measuring import estimates
from qdist.state.measuring.estimates import Estimates, Groups, groups_of
from qdist.state.measuring.expectation import Observable
from qdist.state.measuring.measure import Seed, generator
from qdist.state.measuring.pictures import Counts
from qdist.state.measuring.rotated import ReadoutError, flip_probabilities, flipped
from qdist.state.measuring.shadows import Shadow, shadow

__all__ = ["check", "counts", "estimated", "sample", "shadow_of"]


def check(program: Runner, shots: int | None) -> None:
    """Raises StateError unless ``shots`` is given where runs differ."""
    if program.is_random and shots is None:
        raise StateError(
            "the circuit measures or resets mid-circuit, so that every run ends in another state with another "
            "expectation value: expectation(observable, params, shots=1000) gives the mean over runs, and "
            "run(params).expectation(observable) the value of one; measurements at the end change nothing"
        )
    if shots is not None and checks.checked_shots(shots) == 0:
        raise StateError("shots=0: a mean needs at least one run")


def estimated(
    program: Runner,
    observables: Sequence[Observable],
    params: Any,
    shots: int,
    seed: Seed,
    readout_error: ReadoutError = None,
) -> Estimates:
    """Means over shots: (observables,), or for a batch (batch, observables)."""
    number, rng = checks.checked_shots(shots), generator(program.comm, seed)
    flips = flip_probabilities(readout_error, program.num_qubits, program.comm)
    if program.is_random and flips is not None:
        raise StateError(
            "readout_error= is for circuits without mid-circuit measurements: here each run has an exact value"
        )
    groups = None if program.is_random else groups_of(observables, program.num_qubits)
    if not checks.is_batch(params):
        return Estimates.of(*_one(program, observables, params, number, rng, groups, flips), number)
    theta = checks.checked_batch(params, program.circuit.num_parameters, program.comm)
    rows = [_one(program, observables, row, number, rng, groups, flips) for row in counted("rows", theta, program.comm)]
    shape = (len(theta), len(observables))
    found, errors = (np.array([row[k] for row in rows]).reshape(shape) for k in (0, 1))
    return Estimates.of(found, errors, number)


def _one(
    program: Runner,
    observables: Sequence[Observable],
    params: Any,
    shots: int,
    rng: np.random.Generator,
    groups: Groups | None,
    flips: NDArray[np.float64] | None,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    if groups is not None:
        return groups.measured(program.evolved(params), shots, rng, flips)
    # The state of each run is at hand, and its exact values vary less than outcomes would.
    values = np.empty((shots, len(observables)))
    for state, members in program.runs(shots, params, rng):
        values[members] = state.expectations(observables)
    return estimates.mean_of_runs(values)


def sample(
    program: Runner, shots: int, params: Any, seed: Seed, qubits: Any, readout_error: ReadoutError
) -> NDArray[np.int64]:
    """See ``Program.sample``."""
    number, rng = checks.checked_shots(shots), generator(program.comm, seed)
    chosen = checks.checked_qubits(qubits, program.num_qubits)
    flips = flip_probabilities(readout_error, program.num_qubits, program.comm)
    if program.is_random:
        indices = np.empty(number, np.int64)
        for state, members in program.runs(number, params, rng):
            indices[members] = state.sample(len(members), rng)
    else:
        indices = program.evolved(params).sample(number, rng)
    indices = flipped(indices, flips, rng)
    result = np.zeros_like(indices)
    for k, qubit in enumerate(chosen):
        result |= (indices >> qubit & 1) << k
    return result


def counts(program: Runner, shots: int, params: Any, seed: Seed) -> dict[str, int]:
    """See ``Program.counts``."""
    rng = generator(program.comm, seed)
    if not program.is_random:
        return program.run_with(program.values(params), None, rng, None).counts(shots, rng)
    measures = any(i.clbits for i in program.circuit)
    found: Counter[str] = Counter()
    for state, members in program.runs(checks.checked_shots(shots), params, rng):
        if measures:
            assert state.readout is not None, "the circuit is random"
            found.update(state.readout.tallied(state, len(members), rng))
        else:
            found.update(state.counts(len(members), rng, range(program.num_qubits)))
    return Counts(sorted(found.items()))


def shadow_of(program: Runner, shots: int, params: Any, seed: Seed, readout_error: ReadoutError) -> Shadow:
    """See ``Program.shadow``."""
    if program.is_random:
        raise StateError("a shadow is of one state, and every run of this circuit ends in another")
    return shadow(program.evolved(params), shots, seed, readout_error)
