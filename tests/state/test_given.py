"""What is given in place of a circuit or a communicator is refused with what to give instead."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import qdist as qd
from qdist import nn
from qdist.plan import Layout

theta = qd.Parameter("theta")
TAKERS: dict[str, Callable[..., Any]] = {
    "compile": qd.compile,
    "simulate": qd.simulate,
    "noise": qd.noise.compile,
    "layer": lambda circuit, **options: nn.QuantumLayer(circuit, ["Z0"], weights=[theta], **options),
}
states = pytest.mark.parametrize(
    "make",
    [
        qd.StateVector,
        lambda n, **options: qd.StateVector.basis(n, 1, **options),
        lambda n, **options: qd.StateVector.product(np.eye(2)[[0] * n], **options),
        lambda n, **options: qd.StateVector.from_amplitudes(np.eye(1 << n)[0], **options),
        qd.StateVector.empty,
    ],
)


class Foreign:
    """As an MPI library's communicator has them."""

    rank, size = 0, 2


@pytest.mark.parametrize("take", TAKERS.values(), ids=TAKERS)
def test_circuits_of_others(take: Callable[..., Any]) -> None:
    for given in (None, 5, [("h", 0)]):
        with pytest.raises(TypeError, match=rf"a qdist\.Circuit .*, not {type(given).__name__}"):
            take(given)
    with pytest.raises(TypeError, match=r"not str: Circuit\.from_qasm\(text\)"):
        take("OPENQASM 3.0; qubit q;")


@pytest.mark.parametrize("take", TAKERS.values(), ids=TAKERS)
def test_circuits_of_qiskit_and_pennylane(take: Callable[..., Any]) -> None:
    qiskit = pytest.importorskip("qiskit")
    with pytest.raises(TypeError, match=r"not QuantumCircuit: .*from_qiskit\(circuit\)"):
        take(qiskit.QuantumCircuit(2))
    qml = pytest.importorskip("pennylane")
    with pytest.raises(TypeError, match=r"not QuantumScript: .*qml\.device\(\"qdist\.qubit\""):
        take(qml.tape.QuantumScript([qml.X(0)]))


@pytest.mark.parametrize("take", TAKERS.values(), ids=TAKERS)
def test_communicators_of_others(take: Callable[..., Any]) -> None:
    circuit = qd.Circuit(4).rx(theta, 0) if take is TAKERS["layer"] else qd.Circuit(4).h(0)
    for given in (Foreign(), 1, "mpi"):
        with pytest.raises(TypeError, match=rf"qdist\.comm\.init\(\).*, not {type(given).__name__}"):
            take(circuit, comm=given)


@states
def test_states_on_communicators_of_others(make: Callable[..., Any]) -> None:
    for given in (Foreign(), 1):
        with pytest.raises(TypeError, match=rf"qdist\.comm\.init\(\).*, not {type(given).__name__}"):
            make(3, comm=given)


@states
def test_layouts_are_layouts(make: Callable[..., Any]) -> None:
    with pytest.raises(TypeError, match=r"layout is a qdist\.plan\.Layout, .*, not list"):
        make(3, layout=[2, 1, 0])
    assert make(3, layout=Layout([2, 1, 0])).layout == Layout([2, 1, 0])


def test_masked_amplitudes_are_refused() -> None:
    with pytest.raises(ValueError, match="masked"):
        qd.StateVector.from_amplitudes(np.ma.array([1.0, 1.0], mask=[False, True]))
