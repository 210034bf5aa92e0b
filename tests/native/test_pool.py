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
    ("given", "threads"),
    [
        ("3", 3),
        ("1,3", 1),
        (" +3 ", 3),
        ("", None),
        ("0", None),
        ("-3", None),
        ("many", None),
        ("²", None),
        ("9999", 1024),
    ],
)
def test_threads_at_the_start_are_those_of_omp_num_threads_or_the_cores(given: str, threads: int | None) -> None:
    code = (
        "import os, qdist as qd; "
        "print(qd.native.kernels.max_threads(), qd.tensor.num_threads(), len(os.sched_getaffinity(0)))"
    )
    environ = {**os.environ, "OMP_NUM_THREADS": given}
    done = subprocess.run([sys.executable, "-c", code], env=environ, capture_output=True, text=True, check=True)
    of_kernels, of_tensors, cores = map(int, done.stdout.split())
    assert of_kernels == of_tensors == (threads or cores)


WAKES = """
import os, sys, time
import numpy as np
import qdist as qd
from qdist.native import kernels

def core_of(thread):
    with open(f"/proc/self/task/{thread}/stat") as stat:
        return int(stat.read().rpartition(")")[2].split()[36])

own, other = sorted(os.sched_getaffinity(0))[:2]
kernels.set_threads(2)
circuit = qd.library.hardware_efficient(16, 2)
program = qd.compile(circuit.bind(np.linspace(-1, 2, circuit.num_parameters)), device="cpu")
before = set(os.listdir("/proc/self/task"))
program.run()
(helper,) = set(os.listdir("/proc/self/task")) - before
os.sched_setaffinity(0, {own})
for _ in range(10):
    # Here for a run, where it has no choice, and then it may go.
    os.sched_setaffinity(int(helper), {own})
    program.run()
    time.sleep(0.005)
    os.sched_setaffinity(int(helper), {own, other})
    program.run()
    end = time.monotonic() + 10
    while core_of(helper) == own and time.monotonic() < end:
        time.sleep(0.005)
    assert core_of(helper) == other, "a helper stays on the core of the thread that it helps"
assert os.sched_getaffinity(int(helper)) <= {own, other}
"""


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere no thread can choose its core")
def test_a_helper_leaves_the_core_of_the_thread_that_it_helps() -> None:
    if len(os.sched_getaffinity(0)) < 2:
        pytest.skip("there is no other core")
    done = subprocess.run([sys.executable, "-c", WAKES], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
