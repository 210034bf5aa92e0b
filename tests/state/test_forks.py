"""A process that ran kernels on threads may fork: parent and child both go on, on as many threads."""

import copy
import multiprocessing
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread
from typing import Any

import numpy as np
import pytest

from qdist import Circuit, Parameter, compile
from qdist.native import kernels
from qdist.state.recent import Recent
from qdist.tensor import Tensor, random
from qdist.tensor import tensor as tensor_module

LIMIT = 60
"""Seconds after which a child that hangs is ended; it needs a fraction of one."""

QUBITS = 16


@pytest.fixture(autouse=True)
def _two_threads(device: str) -> Any:
    if device != "cpu":
        pytest.skip("a GPU cannot be used in a forked child")
    before = kernels.max_threads()
    kernels.set_threads(2)
    yield
    kernels.set_threads(before)


def layers() -> Circuit:
    circuit = Circuit(QUBITS)
    for q in range(QUBITS):
        circuit.ry(0.1 * (q + 1), q)
    for q in range(QUBITS - 1):
        circuit.cx(q, q + 1)
    return circuit


def numbers() -> list[float]:
    """Of kernels that run on threads: a state, its values, a sum of tensors."""
    state = compile(layers(), dtype="complex128").run()
    big = Tensor(np.linspace(0, 1, 200_000, dtype=np.float32)).exp().sum()
    return [state.expectation("Z3 Z5"), state.probabilities([2])[0], float(big.data)]


def answer(queue: Any) -> None:
    queue.put((numbers(), kernels.max_threads()))


def test_a_forked_child_computes_what_its_parent_does() -> None:
    want = numbers()
    context = multiprocessing.get_context("fork")
    for _ in range(2):
        queue = context.Queue()
        child = context.Process(target=answer, args=(queue,), daemon=True)
        child.start()
        try:
            found, threads = queue.get(timeout=LIMIT)
        finally:
            child.kill()
        assert found == want
        assert threads == 2
        assert numbers() == want  # The parent has threads again.


def in_child(work: Callable[[], object]) -> int:
    """The exit code of a forked child that does this: 0 if it ends well, -14 if it waits for ever."""
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            signal.alarm(5)
            work()
            code = 0
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


@contextmanager
def held_elsewhere(lock: Any) -> Iterator[None]:
    """Another thread holds the lock, as in the middle of its work."""
    taken, leave = Event(), Event()

    def hold() -> None:
        with lock:
            taken.set()
            leave.wait(LIMIT)

    thread = Thread(target=hold)
    thread.start()
    taken.wait(LIMIT)
    try:
        yield
    finally:
        leave.set()
        thread.join()


@pytest.mark.parametrize("what", ["program", "gradient", "copy", "cache", "gradients of tensors", "draws"])
def test_a_process_may_fork_while_another_of_its_threads_computes(what: str) -> None:
    program = compile(Circuit(3).ry(Parameter("a"), 0).cx(0, 1), dtype="complex128")
    wide = compile(layers().rx(Parameter("a"), 0))
    weight = Tensor(np.ones(2), requires_grad=True)
    cached: Recent[int] = Recent(2)
    copied = copy.deepcopy(program)
    lock, work = {
        "program": (program.lock, lambda: program.run([0.3]).amplitudes()),
        "gradient": (wide.lock, lambda: wide.value_and_grad("Z0", [0.3])),
        "copy": (copied.lock, lambda: copied.run([0.3])),
        "cache": (cached._lock, lambda: cached.put(1, 1)),
        "gradients of tensors": (tensor_module._accumulating, lambda: (weight * 2.0).sum().backward()),
        "draws": (random._tickets, lambda: random.default_generator().ticket()),
    }[what]
    with held_elsewhere(lock):
        assert in_child(work) == 0
    work()


def test_a_lock_of_the_thread_that_forks_stays_its_own() -> None:
    program = compile(Circuit(1).h(0))

    def goes_on() -> None:
        program.lock.release()
        with ThreadPoolExecutor(1) as pool:
            pool.submit(program.run).result()

    program.lock.acquire()
    try:
        assert in_child(goes_on) == 0
    finally:
        program.lock.release()


def test_a_forked_child_starts_threads_of_its_own() -> None:
    numbers()
    pid = os.fork()
    if pid == 0:
        alone = len(os.listdir("/proc/self/task"))
        numbers()
        os._exit(10 * alone + len(os.listdir("/proc/self/task")))
    _, status = os.waitpid(pid, 0)
    assert os.waitstatus_to_exitcode(status) == 12


LOADER = """
import numpy as np, torch
from qdist import Circuit, compile
from qdist.native import kernels

kernels.set_threads(2)
circuit = Circuit(15)
for q in range(15):
    circuit.h(q).ry(0.2 * q, q)
program = compile(circuit, dtype="complex128")
want = program.run().expectation("Z3")

class States(torch.utils.data.Dataset):
    def __len__(self):
        return 4
    def __getitem__(self, i):
        return program.run().expectation("Z3")

loader = torch.utils.data.DataLoader(States(), num_workers=2, multiprocessing_context="fork", timeout=60)
found = torch.cat(list(loader)).tolist()
assert found == [want] * 4, (found, want)
print("loaded")
"""


def test_workers_of_a_torch_data_loader_run_circuits(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    (tmp_path / "loader.py").write_text(LOADER)
    done = subprocess.run(
        [sys.executable, str(tmp_path / "loader.py")], capture_output=True, text=True, timeout=3 * LIMIT
    )
    assert done.stdout.strip() == "loaded", done.stderr[-3000:]
