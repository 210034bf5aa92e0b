"""The programs written in Qiskit: they train, and Qiskit's own simulator gives the same numbers."""

import sys
from importlib import import_module

import numpy as np
import pytest
from programs import FOLDER

pytest.importorskip("qiskit")


@pytest.fixture(autouse=True)
def _found(monkeypatch):
    monkeypatch.syspath_prepend(str(FOLDER))
    yield
    for name in ("qiskit_vqe", "qiskit_qnn"):
        sys.modules.pop(name, None)


def test_the_energy_of_a_chain_is_nearly_that_of_its_ground_state():
    pytest.importorskip("qiskit_algorithms")
    program = import_module("qiskit_vqe")
    found = program.main(["--spins", "6", "--layers", "3", "--steps", "40"])
    exact = np.linalg.eigvalsh(program.heisenberg(6).to_matrix())[0] / 6
    assert exact <= found < exact + 1e-3


def test_moons_are_learned():
    pytest.importorskip("torch")
    pytest.importorskip("qiskit_machine_learning")
    program = import_module("qiskit_qnn")
    options = ["--qubits", "3", "--layers", "1", "--points", "64", "--batch", "32", "--lr", "0.1"]
    losses, accuracy = program.main([*options, "--epochs", "20"])
    assert losses[-1] < 0.7 * losses[0]
    assert accuracy > 0.8
    others, _ = program.main([*options, "--epochs", "1", "--default"])
    assert others[0] == pytest.approx(losses[0], abs=1e-4)
