"""Observables are found by what they say."""

import numpy as np
import pytest

import qdist as qd


def test_an_observable_is_compiled_once_however_it_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    """Found by what it says: dicts, text and matrices that are made anew for each call cost what a kept sum does."""
    theta = qd.ParameterVector("t", 3)
    program = qd.compile(qd.Circuit(5).h(range(5)).ry(theta[0], 0).ry(theta[1], 1).cx(0, 1).rx(theta[2], 4))
    compiled: list[int] = []
    make = type(program.backend).observable
    monkeypatch.setattr(
        type(program.backend), "observable", lambda self, *rest, **more: compiled.append(1) or make(self, *rest, **more)
    )
    matrix = np.array([[0.5, 0.25j], [-0.25j, -1.5]])
    forms = [
        lambda: {"Z0 Z1": -1.25, "X3": 0.5},
        lambda: qd.PauliSum({"Z0 Z2": -1.25, "X3": 0.5}),
        lambda: "Z0 Y4",
        lambda: (matrix.copy(), [2]),
        lambda: qd.Hermitian(matrix.copy(), [3]),
    ]
    for form in forms:
        value, gradient = program.value_and_grad(form(), [0.1, 0.2, 0.3])
        before = len(compiled)
        for _ in range(3):
            again, same = program.value_and_grad(form(), [0.1, 0.2, 0.3])
            assert again == value
            np.testing.assert_array_equal(same, gradient)
        assert len(compiled) == before
    other, _ = program.value_and_grad({"Z0 Z1": -1.25, "X3": 0.75}, [0.1, 0.2, 0.3])
    assert other != program.value_and_grad(forms[0](), [0.1, 0.2, 0.3])[0]
