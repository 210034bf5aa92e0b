"""What is given in place of a circuit or a communicator is refused with what to give instead."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import qdist as qd
from qdist import nn
from qdist.backends.errors import StateError
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


def test_states_that_are_none() -> None:
    program: Any = qd.compile(qd.Circuit(2).h(0))
    for given, told in (("00", "str"), (3, "int"), (np.eye(4), r"an array of shape \(4, 4\)")):
        with pytest.raises(StateError, match=f"initial is a StateVector, or the .* got {told}"):
            program.run(initial=given)
    with pytest.raises(StateError, match=r"out is a StateVector; got an array of shape \(4,\)"):
        program.run(out=np.zeros(4, np.complex64))
    with pytest.raises(TypeError, match=r"layout is a .*, not int"):
        qd.simulate(qd.Circuit(2)).relayout(3)  # type: ignore[arg-type]
    with pytest.raises(StateError, match="a pair of amplitudes for each qubit"):
        qd.StateVector.product([[1, 0], [1]])


@pytest.mark.parametrize("given", [{"Z0": -1.0, "X1": 0.5}, "Z0", qd.PauliSum("Z0")])
def test_one_observable_is_no_list_of_them(given: Any) -> None:
    # A dict that was gone through would give its terms without their coefficients.
    program = qd.compile(qd.Circuit(2).ry(theta, 0))
    for params in ([0.3], [[0.3], [0.4]]):
        for take in (program.jacobian, program.expectations):
            with pytest.raises(StateError, match="take a list of observables"):
                take(given, params)


def test_cotangents_are_a_list() -> None:
    program: Any = qd.compile(qd.Circuit(1).ry(theta, 0))
    with pytest.raises(StateError, match=r"one for each output; got 1\.0"):
        program.vjp(["Z0"], [0.3], 1.0)


def test_observables_of_others() -> None:
    program: Any = qd.compile(qd.Circuit(2).h(0))
    torch = pytest.importorskip("torch")
    with pytest.raises(StateError, match=r"got Tensor: numpy\.asarray\(matrix\)"):
        program.expectation(torch.eye(4))
    info = pytest.importorskip("qiskit.quantum_info")
    with pytest.raises(StateError, match=r"got SparsePauliOp: PauliSum\.from_qiskit"):
        program.expectation(info.SparsePauliOp("ZZ"))


def test_a_channel_is_no_noise_model() -> None:
    channel: Any = qd.noise.depolarizing(0.1)
    with pytest.raises(StateError, match=r"not Channel: NoiseModel\(\)\.add"):
        qd.noise.compile(qd.Circuit(1).h(0), channel)


def test_functions_of_frameworks_take_programs() -> None:
    functions: Any = pytest.importorskip("qdist.interop.torch")
    torch = pytest.importorskip("torch")
    circuit = qd.Circuit(1).ry(theta, 0)
    for take in (
        lambda c: functions.expectation(c, "Z0", torch.zeros(1)),
        lambda c: functions.state(c, torch.zeros(1)),
    ):
        with pytest.raises(TypeError, match=r"a qdist\.Program is needed, not Circuit: qdist\.compile\(circuit\)"):
            take(circuit)
