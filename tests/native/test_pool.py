"""The kernels' threads: as many as were asked for, and they are no part of the answer."""

import os
import subprocess
import sys
from threading import Thread

import numpy as np
import pytest

import qdist as qd
from qdist.native import kernels


@pytest.fixture(autouse=True)
def _threads_as_before():
    before = kernels.max_threads()
    yield
    kernels.set_threads(before)


def layers(num_qubits: int) -> qd.Circuit:
    circuit = qd.library.hardware_efficient(num_qubits, 2)
    return circuit.bind(np.linspace(-1, 2, circuit.num_parameters))


def test_states_and_values_are_the_same_on_any_number_of_threads() -> None:
    circuit = layers(17)
    found = []
    for threads in (1, 2, 3, 8):
        kernels.set_threads(threads)
        state = qd.compile(circuit, device="cpu").run()
        found.append((state.amplitudes(), state.expectation({"X0 Z16": 1.0, "Z3 Y4": 0.5}), state.sample(50, seed=3)))
    for other in found[1:]:
        for a, b in zip(other, found[0]):
            np.testing.assert_array_equal(a, b)


def test_calls_from_several_threads_at_once_do_not_disturb_each_other() -> None:
    program = qd.compile(layers(16), device="cpu")
    want = program.run().amplitudes()
    found = []

    def work() -> None:
        kernels.set_threads(2)
        found.extend(program.run().amplitudes() for _ in range(5))

    workers = [Thread(target=work) for _ in range(3)]
    for one in workers:
        one.start()
    for one in workers:
        one.join()
    assert len(found) == 15
    for amplitudes in found:
        np.testing.assert_array_equal(amplitudes, want)


@pytest.mark.parametrize(
    ("given", "threads"), [("3", 3), ("2,1", 2), ("", None), ("0", None), ("many", None), ("9999", 1024)]
)
def test_threads_at_the_start_are_those_of_omp_num_threads_or_the_cores(given: str, threads: int | None) -> None:
    code = "from qdist.native import kernels; import os; print(kernels.max_threads(), len(os.sched_getaffinity(0)))"
    environ = {**os.environ, "OMP_NUM_THREADS": given}
    done = subprocess.run([sys.executable, "-c", code], env=environ, capture_output=True, text=True, check=True)
    found, cores = map(int, done.stdout.split())
    assert found == (threads or cores)
