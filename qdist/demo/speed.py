"""How fast a circuit runs here, beside what the machine's memory can do."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numpy as np

from qdist import library
from qdist.comm.place import cores
from qdist.program import compile

__all__ = ["Speed", "measured"]

_REPEATS = 5


class Speed(NamedTuple):
    """Bandwidths in GB/s, reads and writes counted; gate_by_gate: seconds of as many passes as there are gates."""

    gates: int
    sweeps: int
    state_mib: float
    seconds: float
    bandwidth: float
    gflops: float
    copy_bandwidth: float
    gate_by_gate: float


def measured(num_qubits: int) -> Speed:
    """Of a circuit with 8 layers of rotations and CX, the median of some runs."""
    circuit = library.hardware_efficient(num_qubits, 8)
    program = compile(circuit)
    angles = np.random.default_rng(0).uniform(0, 2 * np.pi, len(circuit.parameters))
    state = program.run(angles)
    seconds = _median(lambda: program.run(angles, out=state))
    plan, size = program.plan, program.plan.state_bytes
    copying = _copy_bandwidth(max(size, 1 << 26))
    moved = 2 * size
    return Speed(
        circuit.size,
        plan.sweeps,
        size / 2**20,
        seconds,
        plan.sweeps * moved / seconds / 1e9,
        plan.flops / seconds / 1e9,
        copying,
        circuit.size * moved / (copying * 1e9),
    )


def _copy_bandwidth(size: int) -> float:
    """All cores copy memory that no cache holds."""
    parts = cores()
    source, target = np.ones((2, parts, size // 8 // parts))
    with ThreadPoolExecutor(parts) as pool:
        seconds = _median(lambda: list(pool.map(lambda k: np.copyto(target[k], source[k]), range(parts))))
    return 2 * source.nbytes / seconds / 1e9


def _median(run: Callable[[], object]) -> float:
    seconds = []
    for _ in range(_REPEATS):
        start = time.perf_counter()
        run()
        seconds.append(time.perf_counter() - start)
    return statistics.median(seconds)
