"""The same state on the ranks of this job and in this process alone: run under mpirun by test_states_on_ranks.py."""

import os
import shutil
import tempfile
from pathlib import Path

import numpy as np
import pytest

import qdist as qd
from qdist.backends import choice, on_host
from qdist.backends.cpu import CpuBackend
from qdist.backends.cuda.backend import CudaBackend
from qdist.backends.errors import StateError
from qdist.blocks import Checks
from qdist.checkpoint import CheckpointError
from qdist.native import kernels
from qdist.plan import Layout
from qdist.state import StateVector, threads

COMM = qd.comm.init(os.environ.get("QDIST_TEST_BACKEND", "auto"), timeout=120)
N = 6


def random_ket() -> np.ndarray:
    rng = np.random.default_rng(1)
    ket = rng.normal(size=1 << N) + 1j * rng.normal(size=1 << N)
    return ket / np.linalg.norm(ket)


@pytest.fixture(params=["identity", "reversed"])
def pair(request: pytest.FixtureRequest) -> tuple[StateVector, StateVector]:
    """A state on all ranks, and the same alone."""
    layout = Layout(range(N)) if request.param == "identity" else Layout(range(N)[::-1])
    ket = random_ket()
    return StateVector.from_amplitudes(ket, comm=COMM, layout=layout), StateVector.from_amplitudes(ket)


def test_amplitudes_and_norms(pair) -> None:
    shared, alone = pair
    assert sum(COMM.all_gather_object(len(shared.local))) == 1 << N
    assert np.array_equal(shared.amplitudes(), alone.amplitudes())
    assert np.array_equal(shared.amplitudes([3, 60, 3]), alone.amplitudes([3, 60, 3]))
    assert shared.amplitude("101010") == alone.amplitude("101010")
    assert abs(shared.norm() - 1) < 1e-12
    assert abs(shared.inner(shared.copy()) - 1) < 1e-12


def test_basis_and_product_states() -> None:
    layout = Layout([3, 0, 5, 1, 2, 4])
    assert np.array_equal(StateVector.basis(N, 41, comm=COMM, layout=layout).amplitudes(), np.eye(1 << N)[41])
    factors = np.random.default_rng(2).normal(size=(N, 2))
    shared, alone = (StateVector.product(factors, "complex128", c, layout) for c in (COMM, None))
    np.testing.assert_allclose(shared.amplitudes(), alone.amplitudes(), atol=1e-14)


def test_probabilities_and_samples(pair) -> None:
    shared, alone = pair
    for qubits in (None, [0], [5], [4, 1, 5]):
        np.testing.assert_allclose(shared.probabilities(qubits), alone.probabilities(qubits), atol=1e-14)
    assert np.array_equal(shared.sample(2000, seed=3), alone.sample(2000, seed=3))
    unseeded = shared.sample(50)
    assert all(np.array_equal(unseeded, other) for other in COMM.all_gather_object(unseeded))


def test_collapse_and_measurement_agree_on_all_ranks(pair) -> None:
    shared, alone = pair
    assert shared.copy().collapse([5, 0], 2) == pytest.approx(alone.copy().collapse([5, 0], 2))
    assert shared.measure([2, 5], seed=9) == alone.measure([2, 5], seed=9)
    np.testing.assert_allclose(shared.amplitudes(), alone.amplitudes(), atol=1e-13)
    outcome = shared.measure()
    assert set(COMM.all_gather_object(outcome)) == {outcome}
    assert abs(abs(shared.amplitude(outcome)) - 1) < 1e-12


def test_reset_of_any_qubit(pair) -> None:
    shared, alone = pair
    for seed, qubit in enumerate((0, 5, 3, 4)):
        shared.reset_qubit(qubit, seed)
        alone.reset_qubit(qubit, seed)
        np.testing.assert_allclose(shared.amplitudes(), alone.amplitudes(), atol=1e-13)
    assert shared.layout in (Layout(range(N)), Layout(range(N)[::-1]))


def test_gather_to_one_rank(pair) -> None:
    shared, alone = pair
    for root in {0, COMM.size - 1}:
        whole = shared.gather(root)
        assert (whole is not None) == (COMM.rank == root)
        if whole is not None:
            assert np.array_equal(whole, alone.amplitudes())
    with pytest.raises(StateError, match=rf"root=99: the state is on ranks 0 to {COMM.size - 1}"):
        shared.gather(99)


def test_inner_products_of_states_laid_out_differently(pair) -> None:
    shared, alone = pair
    rng = np.random.default_rng(8)
    ket = rng.normal(size=1 << N) + 1j * rng.normal(size=1 << N)
    want = np.vdot(alone.amplitudes(), ket)
    for _ in range(5):
        other = StateVector.from_amplitudes(ket, comm=COMM, layout=Layout(rng.permutation(N)))
        before = on_host(other.local).copy()
        assert shared.inner(other) == pytest.approx(want, abs=1e-12)
        assert shared.fidelity(other) == pytest.approx(abs(want) ** 2, abs=1e-12)
        assert np.array_equal(on_host(other.local), before)


def test_each_rank_may_hold_a_single_amplitude() -> None:
    if COMM.size not in (2, 4, 8):
        return
    n = COMM.size.bit_length() - 1
    ket = random_ket()[: COMM.size]
    shared, alone = StateVector.from_amplitudes(ket, comm=COMM), StateVector.from_amplitudes(ket)
    observable = {"X" * n: 0.3, "Y" + "Z" * (n - 1): 0.7, "Z0": 0.2}
    assert shared.expectation(observable) == pytest.approx(alone.expectation(observable), abs=1e-12)
    product = shared.apply_pauli_sum(observable)
    np.testing.assert_allclose(product.amplitudes(), alone.apply_pauli_sum(observable).amplitudes(), atol=1e-13)
    shared.reset_qubit(0, 1)
    alone.reset_qubit(0, 1)
    np.testing.assert_allclose(shared.amplitudes(), alone.amplitudes(), atol=1e-13)


def test_states_saved_by_any_number_of_ranks_are_loaded_by_any_other(pair) -> None:
    shared, alone = pair
    folder = Path(COMM.broadcast_object(tempfile.mkdtemp() if COMM.rank == 0 else None))
    path = folder / "state"
    shared.save(path)
    for comm in (COMM, None):
        again = StateVector.load(path, comm)
        assert (again.dtype, again.layout, again.comm.size) == (shared.dtype, shared.layout, comm.size if comm else 1)
        assert np.array_equal(again.amplitudes(), alone.amplitudes())
    # What one process writes all read, and what a part of the ranks writes; but nobody while others still read.
    COMM.barrier()
    if COMM.rank == 0:
        alone.save(path)
    COMM.barrier()
    assert np.array_equal(StateVector.load(path, COMM).amplitudes(), alone.amplitudes())
    few = COMM.split([list(range(max(1, COMM.size - 1)))])
    if few is not None:
        StateVector.from_amplitudes(alone.amplitudes(), "complex64", few).save(path)
    COMM.barrier()
    again = StateVector.load(path, COMM)
    assert again.dtype == np.complex64
    np.testing.assert_allclose(again.amplitudes(), alone.amplitudes(), atol=1e-6)
    assert {p.name for p in folder.iterdir()} == {"state"}
    COMM.barrier()
    if COMM.rank == 0:
        shutil.rmtree(folder)
    # A folder that is not there: all ranks say so, not only the one that looked.
    COMM.barrier()
    with pytest.raises(OSError, match=f"No such file or directory: '{path}'$"):
        shared.save(path)
    with pytest.raises(OSError, match="No such file"):
        StateVector.load(path, COMM)


def test_what_one_rank_cannot_load_no_rank_waits_for(monkeypatch: pytest.MonkeyPatch) -> None:
    folder = Path(COMM.broadcast_object(tempfile.mkdtemp() if COMM.rank == 0 else None))
    last = COMM.rank == COMM.size - 1
    StateVector.from_amplitudes(random_ket(), comm=COMM).save(folder / "state")
    if last:
        StateVector.basis(N, 3).save(folder / "other")
        os.mkfifo(folder / "pipe")
    COMM.barrier()
    if COMM.size > 1:
        with pytest.raises(StateError, match="another state file"):
            StateVector.load(folder / ("other" if last else "state"), COMM)
    with pytest.raises(CheckpointError, match="not a regular file"):
        StateVector.load(folder / ("pipe" if last else "state"), COMM)

    def full(*_: object) -> None:
        raise MemoryError("nothing left")

    # When the shards are made, and when the file is read.
    for owner, name in ((CpuBackend, "zeros"), (Checks, "matches")):
        with monkeypatch.context() as patch:
            if last:
                patch.setattr(owner, name, full)
            with pytest.raises(MemoryError, match="nothing left"):
                StateVector.load(folder / "state", COMM, device="cpu")
    np.testing.assert_array_equal(StateVector.load(folder / "state", COMM).amplitudes(), random_ket())
    COMM.barrier()
    if COMM.rank == 0:
        shutil.rmtree(folder)


def test_auto_is_one_kind_of_device_on_all_ranks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choice, "checked_device", lambda device, comm: "cuda:0")
    monkeypatch.setattr(CudaBackend, "free_memory", lambda self, comm: 1 << 40)
    for gpus, chosen in ((lambda: 1, "cuda:0"), (lambda: int(COMM.rank > 0), "cpu")):
        monkeypatch.setattr(choice, "cuda_devices", gpus)
        assert choice.chosen_device("auto", 30, np.dtype("complex64"), COMM) == chosen


def test_ranks_of_a_node_share_its_cores_unless_somebody_decided(monkeypatch: pytest.MonkeyPatch) -> None:
    assert COMM.cores == max(1, qd.comm.cores() // COMM.local_size)
    before = kernels.max_threads()
    assert before == int(os.environ["OMP_NUM_THREADS"])
    monkeypatch.delenv("OMP_NUM_THREADS")
    monkeypatch.setattr(threads, "_at_start", 3)
    for found, kept in ((3, COMM.local_size == 1), (5, True)):
        monkeypatch.delattr(threads._this_thread, "shares", raising=False)
        kernels.set_threads(found)
        StateVector(N, comm=COMM)
        assert kernels.max_threads() == (found if kept else COMM.cores)
    kernels.set_threads(before)
