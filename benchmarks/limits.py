"""What this machine's memory and arithmetic allow, measured with NumPy alone: the ceiling that rows are held against.

Bandwidth is that of copying an array much larger than the caches, with all threads; bytes read and bytes written
both count. Flops are those of a BLAS matrix product, which is a lower bound of the peak.
Run as a program (`limits.py THREADS`, with the threads of BLAS set) it prints both as JSON.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

_BYTES = 1 << 28
_ROUNDS = 7


def measure(threads: int) -> dict[str, float]:
    """bandwidth (bytes a second), flops_single and flops_double (a second), from a process with that many threads."""
    environment = os.environ | dict.fromkeys(
        ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), str(threads)
    )
    command = [sys.executable, str(Path(__file__)), str(threads)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def bandwidth(threads: int) -> float:
    """Bytes a second of a copy; NumPy copies with one thread, so each gets a part of the array."""
    source, target = np.ones(_BYTES // 8), np.zeros(_BYTES // 8)
    parts = list(zip(np.array_split(target, threads), np.array_split(source, threads)))

    def copy(part: tuple[np.ndarray, np.ndarray]) -> None:
        np.copyto(*part)

    best = 0.0
    with ThreadPoolExecutor(threads) as pool:
        for _ in range(_ROUNDS):
            started = time.perf_counter()
            list(pool.map(copy, parts))
            best = max(best, 2 * _BYTES / (time.perf_counter() - started))
    return best


def flops(dtype: str) -> float:
    """Operations a second of a matrix product."""
    size = 2048
    matrix = np.random.default_rng(1).normal(size=(size, size)).astype(dtype)
    best = 0.0
    for _ in range(_ROUNDS):
        started = time.perf_counter()
        matrix @ matrix
        best = max(best, 2.0 * size**3 / (time.perf_counter() - started))
    return best


if __name__ == "__main__":
    found = {
        "bandwidth": bandwidth(int(sys.argv[1])),
        "flops_single": flops("float32"),
        "flops_double": flops("float64"),
    }
    print(json.dumps(found))
