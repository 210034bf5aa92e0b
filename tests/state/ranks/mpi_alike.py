"""Which states go together on real ranks, and memory on which all ranks agree: run by test_states_on_ranks.py."""

import os

import numpy as np
import pytest

import qdist as qd
from qdist.backends import memory
from qdist.backends.errors import StateError
from qdist.native import memory as native_memory
from qdist.state import Overlap, StateVector

COMM = qd.comm.init(os.environ.get("QDIST_TEST_BACKEND", "auto"), timeout=120)
N = 10
several = pytest.mark.skipif(COMM.size == 1, reason="needs several ranks")


def spread(comm: qd.comm.Communicator, seed: int = 1) -> StateVector:
    rng = np.random.default_rng(seed)
    ket = rng.normal(size=1 << N) + 1j * rng.normal(size=1 << N)
    return StateVector.from_amplitudes(ket / np.linalg.norm(ket), comm=comm)


def test_another_communicator_of_the_same_ranks_is_as_good() -> None:
    again = COMM.split([list(range(COMM.size))])
    a, b = spread(COMM), spread(again, 2)
    want = np.vdot(a.amplitudes(), b.amplitudes())
    assert a.inner(b) == pytest.approx(want, abs=1e-12)
    program = qd.compile(qd.Circuit(N).ry(0.3, N - 1), comm=COMM, dtype="complex128")
    assert program.run(initial=b).norm() == pytest.approx(1)
    again.close()


@several
def test_the_same_ranks_in_another_order_are_refused() -> None:
    turned = COMM.split([list(range(COMM.size))[::-1]])
    a, b = spread(COMM), spread(turned)
    program = qd.compile(qd.Circuit(N).ry(qd.Parameter("t"), N - 1), comm=COMM, dtype="complex128")
    for use in (
        lambda: a.inner(b),
        lambda: b.fidelity(a),
        lambda: a.apply_pauli_sum("X0", out=b),
        lambda: program.run([0.1], out=b),
        lambda: program.run([0.1], initial=b),
        lambda: program.vjp([Overlap(b)], [0.1], [1.0]),
    ):
        with pytest.raises(StateError, match=r"world ranks \[0, 1.*"):
            use()
    COMM.barrier()
    turned.close()


@several
def test_a_state_of_this_process_alone_is_refused() -> None:
    with pytest.raises(StateError, match="the same ranks"):
        spread(COMM).inner(spread(None))
    with pytest.raises(StateError, match=r"state\.amplitudes\(\)"):
        np.asarray(spread(COMM))


def test_an_overlap_with_a_state_in_another_layout() -> None:
    shared, alone = spread(COMM, 3), spread(None, 3)
    t = qd.ParameterVector("t", N)
    circuit = qd.Circuit(N)
    for q in range(N):
        circuit.ry(t[q], q)
    for q in range(N - 1):
        circuit.cx(q, q + 1)
    shared.relayout(qd.plan.Layout(range(N)[::-1]))
    theta = np.linspace(0, 2, N)
    found = qd.compile(circuit, comm=COMM, dtype="complex128").vjp([Overlap(shared)], theta, [0.3 - 0.7j])
    want = qd.compile(circuit, dtype="complex128").vjp([Overlap(alone)], theta, [0.3 - 0.7j])
    assert found[0][0] == pytest.approx(want[0][0], abs=1e-12)
    np.testing.assert_allclose(found[1], want[1], atol=1e-12)


@several
def test_all_ranks_raise_where_memory_is_short_on_one(monkeypatch: pytest.MonkeyPatch) -> None:
    state = spread(COMM)
    for module in (native_memory, memory):
        monkeypatch.setattr(module, "SMALL", 0)
        monkeypatch.setattr(module, "free_memory", lambda: 1 << 10 if COMM.rank == COMM.size - 1 else 1 << 40)
    for use in (
        state.amplitudes,
        state.probabilities,
        lambda: state.sample(1000),
        lambda: state.gather(COMM.size - 1),
        lambda: qd.compile(qd.Circuit(N).h(0), comm=COMM).run_batch(np.zeros((2, 0))),
    ):
        with pytest.raises(MemoryError, match="are free"):
            use()
    assert (state.gather(0) is None) == (COMM.rank != 0)


def test_batches_of_no_rows() -> None:
    t = qd.Parameter("t")
    program = qd.compile(qd.Circuit(N).ry(t, N - 1), comm=COMM)
    none = np.zeros((0, 1))
    states = program.run_batch(none)
    assert (states.shape, states.dtype) == ((0, 1 << N), np.complex64)
    assert program.expectation("Z0", none).shape == (0,)
    value, gradient = program.value_and_grad("Z0", none)
    assert (value.shape, gradient.shape) == ((0,), (0, 1))
    assert program.jacobian(["Z0", "X1"], none).shape == (0, 2, 1)
