"""Shots in random bases: what shots have in common is computed once, and nothing else changes."""

import tracemalloc
from functools import reduce

import numpy as np
import pytest

import qdist as qd
from qdist.backends.errors import StateError
from qdist.state.measuring import random_bases, rotated, shadows
from qdist.state.measuring.measure import drawn

SHOTS = 200
TO_Z = {
    "X": np.array([[1, 1], [1, -1]]) / 2**0.5,
    "Y": np.array([[1, -1j], [1, 1j]]) / 2**0.5,
    "Z": np.eye(2),
}


def amplitudes(qubits: int) -> np.ndarray:
    rng = np.random.default_rng(qubits)
    found = rng.normal(size=1 << qubits) + 1j * rng.normal(size=1 << qubits)
    return found / np.linalg.norm(found)


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
@pytest.mark.parametrize(("few", "together"), [(1, 1), (64, 256), (1 << 12, 1 << 18)])
def test_shots_are_those_of_states_that_are_turned_one_by_one(dtype, few, together, monkeypatch) -> None:
    monkeypatch.setattr(random_bases, "_FEW", few)
    monkeypatch.setattr(random_bases, "_TOGETHER", together)
    for qubits in (1, 2, 5, 10):
        sv = qd.StateVector.from_amplitudes(amplitudes(qubits).astype(dtype))
        bases = np.random.default_rng(1).integers(0, 3, (SHOTS, qubits), dtype=np.uint8)
        found = random_bases.measured(sv.amplitudes(), bases, key=12345)
        for kind in np.unique(bases, axis=0):
            rows = np.flatnonzero((bases == kind).all(axis=1))
            turned = rotated.rotated(sv, "".join(random_bases.LETTERS[basis] for basis in kind))
            np.testing.assert_array_equal(found[rows], drawn(turned, rows, 12345))


@pytest.mark.parametrize("letters", ["XYZ", "YYX", "ZZZ"])
def test_outcomes_come_as_often_as_dense_matrices_say(letters: str) -> None:
    state, shots = amplitudes(3), 20000
    turns = reduce(np.kron, [TO_Z[letter] for letter in reversed(letters)])
    exact = np.abs(turns @ state) ** 2
    bases = np.tile(np.array(["XYZ".index(letter) for letter in letters], np.uint8), (shots, 1))
    counted = np.bincount(random_bases.measured(state, bases, key=7), minlength=8)
    assert (np.abs(counted - shots * exact) < 5 * np.sqrt(shots * exact * (1 - exact))).all()


def test_a_shadow_plans_no_circuits(monkeypatch) -> None:
    def refuse(*args, **kwargs):
        raise AssertionError("each basis would be a circuit of its own")

    monkeypatch.setattr(rotated, "make_plan", refuse)
    sv = qd.StateVector.from_amplitudes(amplitudes(12))
    shadow = sv.shadow(2000, seed=5, readout_error=0.01)
    found = shadow.expectation("X3 Z4")
    wrong = (1 - 2 * 0.01) ** 2  # what is left of a correlation that is read with errors
    assert found == pytest.approx(wrong * sv.expectation("X3 Z4"), abs=5 * found.standard_error)


def test_states_too_large_to_be_gathered_give_the_same(monkeypatch) -> None:
    sv = qd.StateVector.from_amplitudes(amplitudes(6))
    together = sv.shadow(50, seed=3)
    monkeypatch.setattr(shadows, "_GATHERED", 0)
    monkeypatch.setattr(type(sv.backend), "is_host", False)
    monkeypatch.setattr(shadows, "measured", None)
    np.testing.assert_array_equal(sv.shadow(50, seed=3).bits, together.bits)


def test_a_large_state_takes_the_memory_of_one_more() -> None:
    state = amplitudes(21).astype(np.complex64)
    bases = np.random.default_rng(2).integers(0, 3, (12, 21), dtype=np.uint8)
    tracemalloc.start()
    try:
        random_bases.measured(state, bases, key=3)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 1.25 * state.nbytes  # a half, a quarter, ..., and one temporary array


def test_a_state_of_zeros_is_refused() -> None:
    sv = qd.StateVector(3)
    sv.local[:] = 0
    with pytest.raises(StateError, match="norm is 0; nothing can be drawn"):
        sv.shadow(5)
