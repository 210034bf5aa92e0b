"""Programs, layers and what they share, used from several threads at once: the results are those of one thread."""

import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Any

import numpy as np
import pytest

import qdist as qd
from qdist.program.workspace import Workspaces
from qdist.state import alone
from qdist.state.measuring import expectation

THREADS, CALLS, N = 4, 30, 9


@pytest.fixture(autouse=True)
def _switch_often() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(before)


def at_once(work: Callable[[int], Any], count: int = THREADS * CALLS) -> list[Any]:
    """work(0), work(1), ... from several threads, which begin together."""
    start = Barrier(THREADS)

    def share(first: int) -> list[Any]:
        start.wait()
        return [work(k) for k in range(first, count, THREADS)]

    with ThreadPoolExecutor(THREADS) as pool:
        parts = list(pool.map(share, range(THREADS)))
    return [parts[k % THREADS][k // THREADS] for k in range(count)]


def check(work: Callable[[int], Any], count: int = THREADS * CALLS) -> None:
    """What comes from several threads is what comes from one, to the last bit."""
    want = [work(k) for k in range(count)]
    for got, one in zip(at_once(work, count), want):
        np.testing.assert_equal(got, one)


@pytest.fixture(scope="module")
def parameters() -> np.ndarray:
    return np.random.default_rng(0).normal(size=(THREADS * CALLS, qd.library.hardware_efficient(N, 2).num_parameters))


@pytest.fixture
def program() -> qd.Program:
    return qd.compile(qd.library.hardware_efficient(N, 2), dtype="complex128")


OBSERVABLE = qd.library.heisenberg_xxz(N)


@pytest.mark.parametrize("method", ["adjoint", "finite-difference"])
def test_gradients(program: qd.Program, parameters: np.ndarray, method: str) -> None:
    count = THREADS * CALLS if method == "adjoint" else THREADS
    check(lambda k: program.value_and_grad(OBSERVABLE, parameters[k], method=method), count)


def test_no_two_threads_have_one_workspace() -> None:
    free = Workspaces()
    taken: set[int] = set()

    def work(k: int) -> None:
        mine = free.take()
        if mine.bra is None:
            mine.bra = qd.StateVector(2, device="cpu")  # A GPU's memory has a pool of its own.
        assert id(mine) not in taken
        taken.add(id(mine))
        mine.bra.local[:] = k
        assert (mine.bra.local == k).all()
        taken.remove(id(mine))
        free.put_back(mine)

    at_once(work, THREADS * 200)
    kept = free.take()
    assert kept.bra is not None
    assert free.take().bra is None  # One is kept, however many threads there were.


def test_states_values_and_shots(program: qd.Program, parameters: np.ndarray) -> None:
    measured = qd.compile(program.circuit.copy().measure_all(), dtype="complex128")

    def work(k: int) -> list[Any]:
        bound = program.bind(parameters[k]).run()
        counts = measured.counts(50, parameters[k], seed=k)
        measured.run(parameters[k], seed=k)
        values = [program.expectation(OBSERVABLE), program.expectation(OBSERVABLE, parameters[k])]
        return [bound.amplitudes(), counts, measured.bits, *values]

    check(work, THREADS * 6)


def test_batches_beside_single_runs(program: qd.Program, parameters: np.ndarray) -> None:
    def work(k: int) -> Any:
        rows = parameters[[k, -1 - k]]
        if k % 2:
            return program.run(rows[0]).amplitudes()
        states = program.run_batch(rows)
        return [states, program.jacobian(["Z0", OBSERVABLE], rows), program.expectation(OBSERVABLE, rows)]

    check(work, THREADS * 6)


def test_other_outputs_and_given_starts(program: qd.Program, parameters: np.ndarray) -> None:
    start = qd.compile(qd.library.qft(N), dtype="complex128").run()

    def work(k: int) -> list[Any]:
        values, gradient = program.vjp([qd.Probabilities([0, 3]), "Z1"], parameters[k], [np.arange(4.0), 0.5])
        return [*values, gradient, program.run(parameters[k], initial=start).amplitudes()]

    check(work, THREADS * 4)


def test_random_circuits(parameters: np.ndarray) -> None:
    circuit = qd.Circuit(4, 4).ry(qd.Parameter("a"), 0).cx(0, 1).measure(0, 0)
    with circuit.if_(0, 1):
        circuit.h(2)
    program = qd.compile(circuit.measure([1, 2], [1, 2]), dtype="complex128")

    def work(k: int) -> list[Any]:
        state = program.run(parameters[k, :1], seed=k)
        bits = program.bits
        return [state.amplitudes(), bits, program.counts(5, parameters[k, :1], seed=k)]

    check(work, THREADS * 6)


def test_a_thread_runs_what_it_has_bound_last() -> None:
    a = qd.Parameter("a")
    program = qd.compile(qd.Circuit(1, 1).rx(a, 0).measure(0, 0), dtype="complex128")

    def bind(value: float) -> None:
        program.bind([value])

    def one() -> float:
        return float(program.run().probabilities()[1])

    with ThreadPoolExecutor(1) as first, ThreadPoolExecutor(1) as second, ThreadPoolExecutor(1) as third:
        bind(0.0)
        assert first.submit(one).result() == 0  # Has bound nothing: what was bound last.
        first.submit(bind, np.pi).result()
        second.submit(bind, np.pi / 2).result()
        assert [round(x, 12) for x in (one(), first.submit(one).result(), second.submit(one).result())] == [0, 1, 0.5]
        assert (program.bits, first.submit(lambda: program.bits).result()) == ((0,), (1,))
        assert round(third.submit(one).result(), 12) == 0.5
        # A value that cannot be leaves what was bound.
        with pytest.raises(ValueError, match="finite"):
            first.submit(bind, np.nan).result()
        assert round(first.submit(one).result(), 12) == 1


def test_two_programs_share_an_observable(parameters: np.ndarray) -> None:
    programs = [qd.compile(qd.library.hardware_efficient(N, 2), dtype=d) for d in ("complex64", "complex128")]
    weights = np.random.default_rng(1).normal(size=(THREADS * CALLS, 2))
    both = [OBSERVABLE, qd.PauliSum({"X0 X8": 1.0, "Z3": 2.0})]
    check(lambda k: programs[k // THREADS % 2].vjp(both, parameters[k], weights[k]))


def test_more_observables_than_plans_are_kept() -> None:
    state = qd.simulate(qd.library.hardware_efficient(4, 1), np.arange(8.0), dtype="complex128")
    observables = [qd.PauliSum({"Z0": 1.0, "X1": k}) for k in range(2 * expectation.MOST_PLANS)]
    check(lambda k: state.expectation(observables[k % len(observables)]), 8 * len(observables))


def test_layers(parameters: np.ndarray) -> None:
    circuit = qd.library.hardware_efficient(N, 2)
    columns = circuit.parameters
    layer = qd.nn.QuantumLayer(circuit, [OBSERVABLE, "Z0"], columns[:3], columns[3:], dtype="complex128", seed=1)

    def outputs(rows: Sequence[int]) -> Callable[[int], Any]:
        return lambda k: layer(parameters[np.add(k, rows) % len(parameters), :3]).numpy()

    check(outputs([0]), THREADS * 4)
    check(outputs([0, 5, 9]), THREADS * 4)

    def backward(k: int) -> np.ndarray:
        x = qd.tensor.Tensor(parameters[[k] if k % 2 else [k, k + 1], :3], requires_grad=True)
        layer(x).sum().backward()
        return x.grad.numpy()

    check(backward, THREADS * 4)
    # The weights' gradients of all passes add up: those of one thread and of several are the same.
    total = layer.weights.grad.numpy()
    layer.weights.grad = None
    for k in range(THREADS * 4):
        backward(k)
    np.testing.assert_allclose(total, 2 * layer.weights.grad.numpy(), rtol=1e-9, atol=1e-9)


def test_there_is_one_group_of_this_process_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(alone, "_comm", None)
    assert len({id(comm) for comm in at_once(lambda _: qd.StateVector(1).comm, THREADS)}) == 1


DAEMON = """
import threading, time
import numpy as np
import qdist as qd

circuit = qd.Circuit(16)
for q in range(16):
    circuit.ry(0.1, q).cx(q, (q + 1) % 16)
program = qd.compile(circuit, device="cpu")

def work():
    while True:
        program.run()

for _ in range(3):
    threading.Thread(target=work, daemon=True).start()
time.sleep(0.2)
raise SystemExit({code})
"""


@pytest.mark.parametrize("code", [0, 3])
def test_daemon_threads_in_kernels_do_not_abort_the_end(code: int) -> None:
    """The interpreter unwinds such threads when they come back to it: nothing of ours may stop it on the way."""
    for _ in range(3):
        ended = subprocess.run(
            [sys.executable, "-c", DAEMON.format(code=code)], capture_output=True, text=True, timeout=60
        )
        assert (ended.returncode, ended.stderr) == (code, "")
