"""The programs written in PennyLane: they train, and other devices of PennyLane give the same numbers."""

import sys
from importlib import import_module

import numpy as np
import pytest
from programs import FOLDER

qml = pytest.importorskip("pennylane")


@pytest.fixture(autouse=True)
def _known(monkeypatch):
    """qml.device knows qdist.qubit, whatever is installed."""
    from qdist.interop.pennylane import QdistQubit

    inner = qml.device
    known = lambda name, **options: QdistQubit(**options) if name == "qdist.qubit" else inner(name, **options)  # noqa: E731
    monkeypatch.setattr(qml, "device", known)
    if str(FOLDER) not in sys.path:
        sys.path.insert(0, str(FOLDER))


def test_the_energy_of_a_chain_falls_and_is_that_of_another_device():
    program = import_module("pennylane_vqe")
    options = ["--spins", "6", "--layers", "1", "--steps", "4"]
    found = program.main(options)
    assert found[-1] < found[0] < 0
    np.testing.assert_allclose(found, program.main([*options, "--device", "default.qubit"]), atol=1e-9)


def test_moons_are_learned():
    pytest.importorskip("torch")
    program = import_module("pennylane_qnn")
    options = ["--qubits", "3", "--layers", "1", "--points", "128", "--batch", "64", "--epochs", "12", "--lr", "0.1"]
    losses, accuracy = program.main(options)
    assert losses[-1] < 0.7 * losses[0]
    assert accuracy > 0.8
    others, _ = program.main([*options[:-4], "--epochs", "1", "--lr", "0.1", "--device", "default.qubit"])
    assert others[0] == pytest.approx(losses[0], abs=1e-4)
