"""Programs whose shards are on several ranks give what one process gives; run on every rank at once."""

import numpy as np
import pytest

import qdist as qd
from qdist.native import kernels
from qdist.plan.layout import Layout
from qdist.plan.levels import Level
from qdist.state import reference
from qdist.state.errors import StateError


@pytest.fixture(scope="session")
def comm() -> qd.comm.Communicator:
    return qd.comm.init(timeout=120)


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
@pytest.mark.parametrize("seed", range(12))
def test_random_circuits(comm: qd.comm.Communicator, seed: int, dtype: str) -> None:
    n = 9 + seed % 3
    circuit = qd.library.random_circuit(n, 6, seed=seed)
    want = reference.state(circuit)
    lanes = kernels.lane_bits[dtype == "complex128"]
    for levels in (None, [Level("cache", lanes + 1, lanes)]):
        program = qd.Program(circuit, comm=comm, dtype=dtype, levels=levels)
        state = program.run()
        np.testing.assert_allclose(state.amplitudes(), want, atol=2e-6 if dtype == "complex64" else 1e-13)
        # Again in the same memory: nothing is left over from the first run.
        np.testing.assert_array_equal(program.run(out=state).amplitudes(), program.run().amplitudes())


def test_numbers_read_through_any_layout(comm: qd.comm.Communicator) -> None:
    circuit = qd.library.hardware_efficient(10, 3)
    params = np.random.default_rng(0).normal(size=circuit.num_parameters)
    alone = qd.simulate(circuit, params, dtype="complex128")
    state = qd.simulate(circuit, params, comm=comm, dtype="complex128")
    assert state.norm() == pytest.approx(1, abs=1e-12)
    np.testing.assert_allclose(state.probabilities([9, 0, 4]), alone.probabilities([9, 0, 4]), atol=1e-14)
    np.testing.assert_array_equal(state.sample(500, seed=3), alone.sample(500, seed=3))
    for observable in ("Z0 Z9", {"Z4": 0.5, "Z1 Z2 Z3": -1.0}):
        assert state.expectation(observable) == pytest.approx(alone.expectation(observable), abs=1e-12)


def test_all_ranks_measure_the_same_and_go_on_from_it(comm: qd.comm.Communicator) -> None:
    circuit = qd.Circuit(9, 2).h(0).cx(0, 8).ry(0.7, 4).measure(8, 0).measure(4, 1)
    with circuit.if_(0, 1):
        circuit.x(3)
    with circuit.if_(1, 1) as otherwise:
        circuit.cx(3, 7)
    with otherwise:
        circuit.h(7)
    program = qd.compile(circuit, comm=comm, dtype="complex128")
    alone = qd.compile(circuit, dtype="complex128")
    for seed in range(8):
        state, want = program.run(seed=seed), alone.run(seed=seed)
        assert program.bits == alone.bits
        np.testing.assert_allclose(state.amplitudes(), want.amplitudes(), atol=1e-13)


@pytest.mark.parametrize("schedule", ["lazy", "in-order", "paper"])
@pytest.mark.parametrize("seed", range(3))
def test_all_schedules_give_the_same(comm: qd.comm.Communicator, schedule: str, seed: int) -> None:
    circuit = qd.library.random_circuit(9, 6, seed=seed)
    state = qd.simulate(circuit, comm=comm, dtype="complex128", schedule=schedule)
    np.testing.assert_allclose(state.amplitudes(), reference.state(circuit), atol=1e-13)


def test_first_gates_with_parameters_are_bound_anew(comm: qd.comm.Communicator) -> None:
    circuit = qd.library.hardware_efficient(9, 2)
    program = qd.compile(circuit, comm=comm, dtype="complex128")
    assert bool(program.plan.folded) == (comm.size > 1)
    state = None
    for seed in range(3):
        params = np.random.default_rng(seed).normal(size=circuit.num_parameters)
        state = program.run(params, out=state)
        np.testing.assert_allclose(state.amplitudes(), reference.state(circuit, params), atol=1e-13)


def test_a_given_start_may_have_any_layout(comm: qd.comm.Communicator) -> None:
    circuit = qd.library.hardware_efficient(9, 2)
    program = qd.compile(circuit, comm=comm, dtype="complex128")
    rng = np.random.default_rng(4)
    start = rng.normal(size=512) + 1j * rng.normal(size=512)
    start /= np.linalg.norm(start)
    for layout in (
        program.plan.layout,
        Layout.identity(9),
        Layout(range(9)[::-1]),
        Layout(rng.permutation(9).tolist()),
    ):
        initial = qd.StateVector.from_amplitudes(start, comm=comm, layout=layout)
        # The second run binds other values to a plan that is there already.
        for _ in range(2):
            params = rng.normal(size=circuit.num_parameters)
            got = program.run(params, initial=initial).amplitudes()
            np.testing.assert_allclose(got, reference.state(circuit, params, initial=start), atol=1e-13)
        np.testing.assert_allclose(initial.amplitudes(), start, atol=1e-15)


def test_every_rank_holds_its_share_and_no_more(comm: qd.comm.Communicator) -> None:
    state = qd.simulate(qd.library.qft(12), comm=comm)
    sizes = comm.all_gather_object(len(state.local))
    assert sum(sizes) == 1 << 12
    assert max(sizes) <= 2 * min(sizes)


def test_more_ranks_than_shards_can_be_made_are_refused(comm: qd.comm.Communicator) -> None:
    if comm.size > 1:
        with pytest.raises(StateError, match=f"4 qubits on {comm.size} ranks"):
            qd.simulate(qd.Circuit(4).h(0), comm=comm)
