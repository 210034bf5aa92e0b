"""A process that ran kernels on threads may fork: parent and child both go on, on as many threads."""

import multiprocessing
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from qdist import Circuit, compile
from qdist.native import kernels
from qdist.tensor import Tensor

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
