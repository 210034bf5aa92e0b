"""Ranks that share a state but were given different things are told so, all of them, before anything is computed."""

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import qdist as qd
import qdist.comm as qc
from qdist.backends.errors import StateError
from qdist.plan import Layout
from qdist.state.checking import same

QUBITS = 8
x, w = qd.ParameterVector("x", 2), qd.ParameterVector("w", 3)


@pytest.fixture(scope="session")
def comm() -> qc.Communicator:
    return qc.init(os.environ.get("QDIST_TEST_BACKEND", "auto"), timeout=120)


def ansatz(angle: float = 0.3, data: float = 1.0, name: str = "w") -> qd.Circuit:
    weights = qd.ParameterVector(name, 3)
    circuit = qd.Circuit(QUBITS)
    for qubit in range(QUBITS):
        circuit.ry(weights[qubit % 3] + 0.1 * qubit, qubit)
    circuit.rx(angle, 2).cx(0, QUBITS - 1).rzz(weights[1], 1, QUBITS - 1)
    circuit.unitary(np.diag([1, np.exp(1j * data)]), [3])
    for qubit in range(QUBITS):
        circuit.rx(weights[qubit % 3], qubit)
    return circuit


def theta(seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).uniform(0, 3, 3)


def odd(comm: qc.Communicator) -> int:
    """1 on the last rank, 0 on the others."""
    return int(comm.rank == comm.size - 1)


@pytest.fixture(autouse=True)
def _with_others(comm: qc.Communicator) -> None:
    if comm.size == 1:
        pytest.skip("needs others")


@pytest.mark.parametrize(
    "different",
    [
        lambda d: ansatz(angle=0.3 + d),
        lambda d: ansatz(angle=0.3 + 1e-12 * d),
        lambda d: ansatz(data=1.0 + d),
        lambda d: ansatz(name="wv"[d]),
        lambda d: ansatz().x(d),
        lambda d: ansatz().h(0) if d else ansatz().x(0),
        lambda d: ansatz().cx(0, 1) if d else ansatz().x(1),
        lambda d: ansatz().ry((0.25 + 0.25 * d) * x[0], 1),
        lambda d: qd.Circuit(QUBITS + d).h(0),
        lambda d: qd.Circuit(QUBITS, 2).h(0).measure(0, d),
    ],
)
def test_other_circuits(comm: qc.Communicator, different: Callable[[int], qd.Circuit]) -> None:
    with pytest.raises(StateError) as raised:
        qd.compile(different(odd(comm)), comm=comm)
    assert f"rank {comm.size - 1} has another circuit" in str(raised.value)
    assert "random numbers without a seed" in str(raised.value)


@pytest.mark.parametrize("option", [{"dtype": "complex128"}, {"schedule": "in-order"}])
def test_other_options(comm: qc.Communicator, option: dict[str, str]) -> None:
    with pytest.raises(StateError, match=f"rank {comm.size - 1} has another circuit"):
        qd.compile(ansatz(), comm=comm, **(option if odd(comm) else {}))


def test_other_plans(comm: qc.Communicator, monkeypatch: pytest.MonkeyPatch) -> None:
    if odd(comm):
        outline = same._outline
        monkeypatch.setattr(same, "_outline", lambda plan: (*outline(plan), "as another version plans"))
    with pytest.raises(StateError, match=f"rank {comm.size - 1} has another plan for the same circuit than rank 0"):
        qd.compile(ansatz(), comm=comm)


CALLS: dict[str, Callable[[qd.Program, np.ndarray], Any]] = {
    "bind": lambda p, t: p.bind(t),
    "run": lambda p, t: p.run(t),
    "run of a dict": lambda p, t: p.run(dict(zip(p.circuit.parameters, t))),
    "expectation": lambda p, t: p.expectation("Z0 Z7", t),
    "value_and_grad": lambda p, t: p.value_and_grad("Z0", t),
    "parameter-shift": lambda p, t: p.value_and_grad("Z0", t, method="parameter-shift"),
    "jacobian": lambda p, t: p.jacobian(["Z0", "X1"], t),
    "run_batch": lambda p, t: p.run_batch(np.stack([theta(), t])),
    "expectation of a batch": lambda p, t: p.expectation("Z0", np.stack([theta(), t])),
    "value_and_grad of a batch": lambda p, t: p.value_and_grad("Z0", np.stack([theta(), t])),
    "vjp": lambda p, t: p.vjp(["Z0", qd.Probabilities(0)], t, [1.0, np.ones(2)]),
}


@pytest.mark.parametrize("name", CALLS)
def test_other_values(comm: qc.Communicator, name: str) -> None:
    program = qd.compile(ansatz(), comm=comm)
    CALLS[name](program, theta())
    with pytest.raises(StateError) as raised:
        CALLS[name](program, theta(odd(comm)))
    named = rf"rank {comm.size - 1} of 'world' has other (parameter|angle) values than rank 0: \1 number \d"
    assert re.search(named, str(raised.value))
    assert "random numbers without a seed" in str(raised.value)
    # Nothing is broken: the next call is right.
    assert program.run(theta()).norm() == pytest.approx(1, abs=1e-5)


def test_values_that_differ_by_rounding_are_rank_0s_on_all(comm: qc.Communicator) -> None:
    program = qd.compile(ansatz(), comm=comm, dtype="complex128")
    alone = qd.compile(ansatz(), dtype="complex128").expectation("Z0 Z7", theta())
    assert program.expectation("Z0 Z7", theta() * (1 + 1e-9 * comm.rank)) == pytest.approx(alone, abs=1e-13)


def test_batches_of_other_lengths(comm: qc.Communicator) -> None:
    program = qd.compile(ansatz(), comm=comm)
    rows = np.tile(theta(), (2 + odd(comm), 1))
    for call in (program.run_batch, lambda t: program.expectation("Z0", t), lambda t: program.value_and_grad("Z0", t)):
        with pytest.raises(StateError, match=rf"rank {comm.size - 1} .* of shape \(3, 3\), rank 0 of shape \(2, 3\)"):
            call(rows)


@pytest.mark.parametrize(
    "ask",
    [
        lambda s, d: s.expectation(["Z0", "Z1"][d]),
        lambda s, d: s.expectation({"Z0": 1.0 + d}),
        lambda s, d: s.expectations(["Z0", "X1"] if d else ["Z0"]),
        lambda s, d: s.variance(["Z0", "X0"][d]),
        lambda s, d: s.apply_pauli_sum(["Z0", "X7"][d]),
    ],
)
def test_other_observables(comm: qc.Communicator, ask: Callable[[qd.StateVector, int], Any]) -> None:
    state = qd.simulate(ansatz(), theta(), comm=comm)
    with pytest.raises(StateError, match=rf"rank {comm.size - 1} has other observables than rank 0, on 'world'\."):
        ask(state, odd(comm))


@pytest.mark.parametrize("what", ["Z0", qd.Probabilities([0, 1]), qd.Overlap, qd.State()])
def test_other_cotangents(comm: qc.Communicator, what: Any) -> None:
    program = qd.compile(ansatz(), comm=comm)
    output = qd.Overlap(program.run(theta())) if what is qd.Overlap else what
    cotangent = {"Z0": np.array(1.0)}.get(what) if isinstance(what, str) else np.ones(output.shape(QUBITS))
    with pytest.raises(StateError, match=f"rank {comm.size - 1} of 'world' has other cotangent values"):
        program.vjp([output], theta(), [cotangent * (1.0 + odd(comm))])


def test_other_amplitudes_and_factors(comm: qc.Communicator, tmp_path: Path) -> None:
    rng = np.random.default_rng(odd(comm))
    for dtype in ("complex64", "complex128", "float32", "float64"):
        with pytest.raises(StateError, match=f"rank {comm.size - 1} has other amplitudes than rank 0"):
            qd.StateVector.from_amplitudes(rng.normal(size=1 << QUBITS).astype(dtype), comm=comm)
    swapped = np.arange(1.0, (1 << 16) + 1)
    if odd(comm):
        swapped[[0, -1]] = swapped[[-1, 0]]
    with pytest.raises(StateError, match="other amplitudes"):
        qd.StateVector.from_amplitudes(swapped, comm=comm)
    with pytest.raises(StateError, match="other factors"):
        qd.StateVector.product(rng.normal(size=(QUBITS, 2)), comm=comm)
    with pytest.raises(StateError, match="another basis state"):
        qd.StateVector.basis(QUBITS, odd(comm), comm=comm)
    mine = Path(comm.broadcast_object(str(tmp_path)))
    for number in range(2):
        qd.StateVector.basis(QUBITS, number, comm=comm).save(mine / f"{number}")
    with pytest.raises(StateError, match="another state file"):
        qd.StateVector.load(mine / f"{odd(comm)}", comm=comm)
    with pytest.raises(StateError, match="other indices"):
        qd.StateVector(QUBITS, comm=comm).amplitudes([odd(comm)])


def test_initial_states_in_other_layouts(comm: qc.Communicator) -> None:
    program = qd.compile(ansatz(), comm=comm).bind(theta())
    initial = qd.StateVector(QUBITS, comm=comm)
    initial.layout = Layout.identity(QUBITS).swap(0, 1 + odd(comm))
    with pytest.raises(StateError, match="another layout of the initial state"):
        program.run(initial=initial)


def test_seeds_are_the_same_or_rank_0s(comm: qc.Communicator) -> None:
    circuit = qd.Circuit(QUBITS, 2)
    for qubit in range(QUBITS):
        circuit.h(qubit)
    circuit.measure(0, 0).cx(0, QUBITS - 1).reset(1).h(0).measure(QUBITS - 1, 1)
    program = qd.compile(circuit, comm=comm)
    state = program.run(seed=None)
    assert state.norm() == pytest.approx(1, abs=1e-5)
    assert len(set(comm.all_gather_object(program.bits))) == 1
    unseeded = [state.sample(20).tolist() for _ in range(2)]
    assert all(theirs == unseeded for theirs in comm.all_gather_object(unseeded))
    assert unseeded[0] != unseeded[1]
    assert len({str(sorted(c.items())) for c in comm.all_gather_object(program.counts(10))}) == 1
    common = np.random.default_rng(5)
    assert len(set(comm.all_gather_object(tuple(state.sample(9, seed=common))))) == 1
    for seed in (odd(comm), np.random.default_rng(odd(comm)), None if odd(comm) else 3):
        for draw in (lambda s: state.sample(3, seed=s), lambda s: state.copy().measure([0], seed=s)):
            with pytest.raises(StateError, match=f"rank {comm.size - 1} of 'world' draws with another seed than"):
                draw(seed)


def test_other_arguments_of_measurements(comm: qc.Communicator) -> None:
    state, other = qd.simulate(ansatz(), theta(), comm=comm), odd(comm)
    for draw in (lambda: state.sample(3 + other, seed=1), lambda: state.measure([other], seed=1)):
        with pytest.raises(StateError, match=f"rank {comm.size - 1} of 'world' draws other qubits or another number"):
            draw()
    with pytest.raises(StateError, match="another choice of qubits"):
        state.probabilities([other])
    with pytest.raises(StateError, match="another outcome to collapse to"):
        state.collapse(0, other)
    with pytest.raises(StateError, match="another root"):
        state.gather(other)
    with pytest.raises(StateError, match="another layout"):
        state.relayout(Layout.identity(QUBITS).swap(0, 1 + other))
    with pytest.raises(StateError, match="another size, dtype or layout"):
        qd.StateVector(QUBITS + other, comm=comm)


def test_other_errors_of_readout(comm: qc.Communicator) -> None:
    program, wrong = qd.compile(ansatz(), comm=comm), 0.1 * (1 + odd(comm))
    state = program.run(theta())
    for ask in (
        lambda: program.sample(8, seed=1, readout_error=wrong),
        lambda: program.expectation("Z0", shots=8, seed=1, readout_error=(0.1, wrong)),
        lambda: program.shadow(8, seed=1, readout_error=[(wrong, 0.1)] * QUBITS),
        lambda: state.expectation("Z0", shots=8, seed=1, readout_error=wrong),
        lambda: state.shadow(8, seed=1, readout_error=wrong),
    ):
        with pytest.raises(StateError, match=f"rank {comm.size - 1} has other errors of readout than rank 0"):
            ask()


def test_inputs_and_weights_of_a_layer(comm: qc.Communicator) -> None:
    circuit = qd.Circuit(QUBITS)
    for qubit in range(QUBITS):
        circuit.ry(x[qubit % 2], qubit).rx(w[qubit % 3], qubit)
    circuit.cx(0, QUBITS - 1)
    layer = qd.nn.QuantumLayer(circuit, ["Z0", "Z7"], inputs=x, weights=w, comm=comm)
    assert layer.weights is not None
    assert len({tuple(weights) for weights in comm.all_gather_object(layer.weights.data.tolist())}) == 1
    rows = np.random.default_rng(0).normal(size=(3, 2)).astype(np.float32)
    assert layer(qd.Tensor(rows)).shape == (3, 2)
    with pytest.raises(StateError, match="has other input and weight values than rank 0"):
        layer(qd.Tensor(rows + odd(comm)))
    with pytest.raises(StateError, match="has input and weight values of shape"):
        layer(qd.Tensor(rows[: 2 + odd(comm)]))
    layer.weights.data[1] += 0.5 * odd(comm)
    with pytest.raises(StateError, match=f"rank {comm.size - 1} of 'world' has other input and weight values"):
        layer(qd.Tensor(rows))


def test_one_digest_a_rank_is_all_that_travels(comm: qc.Communicator) -> None:
    program = qd.compile(ansatz(), comm=comm)
    with comm.recording() as messages:
        program.bind(theta())
    assert [(m.op, m.bytes) for m in messages] == [("all_gather", 8)]
