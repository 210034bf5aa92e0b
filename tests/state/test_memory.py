"""Memory is counted before it is taken, and the message says what would do."""

from pathlib import Path

import numpy as np
import pytest

from qdist.backends.memory import aligned_zeros, check_memory, free_memory
from qdist.state.statevector import StateVector

GIB = 1 << 30
MORE = " times as many machines or GPUs (ranks of one share its memory)"
C64, C128 = np.dtype(np.complex64), np.dtype(np.complex128)


@pytest.mark.parametrize(
    ("num_qubits", "dtype", "ranks", "free", "message"),
    [
        (
            34,
            C64,
            8,
            11 * GIB,
            f"34 qubits need 16 GiB on each of 8 ranks; 11 GiB are free; 16 ranks would do, on 2{MORE}",
        ),
        (34, C64, 1, 11 * GIB, f"34 qubits need 128 GiB on 1 rank; 11 GiB are free; 16 ranks would do, on 16{MORE}"),
        (
            32,
            C64,
            3,
            10 * GIB,
            f"32 qubits need 16 GiB on each of 3 ranks; 10 GiB are free; 4 ranks would do, on 2{MORE}",
        ),
        (
            31,
            C128,
            1,
            20 * GIB,
            f"31 qubits need 32 GiB on 1 rank; 20 GiB are free; 2 ranks would do, on 2{MORE}"
            ', so would dtype="complex64"',
        ),
        (
            50,
            C64,
            1,
            GIB,
            f"50 qubits need 8388608 GiB on 1 rank; 1 GiB are free; 8388608 ranks would do, on 8388608{MORE}",
        ),
    ],
)
def test_message(num_qubits: int, dtype: np.dtype, ranks: int, free: int, message: str) -> None:
    with pytest.raises(MemoryError) as error:
        check_memory(num_qubits, dtype, ranks, free)
    assert str(error.value) == message


@pytest.mark.parametrize(("num_qubits", "dtype", "ranks"), [(31, C64, 1), (30, C128, 1), (33, C64, 4), (32, C64, 3)])
def test_what_fits_exactly_passes(num_qubits: int, dtype: np.dtype, ranks: int) -> None:
    check_memory(num_qubits, dtype, ranks, 16 * GIB)
    with pytest.raises(MemoryError):
        check_memory(num_qubits, dtype, ranks, 16 * GIB - 1)


def test_several_states_are_counted_together() -> None:
    check_memory(33, C64, 1, 128 * GIB, states=2)
    with pytest.raises(MemoryError) as error:
        check_memory(34, C64, 1, 139 * GIB, states=2)
    wanted = "34 qubits need 256 GiB for 2 states on 1 rank; 139 GiB are free; 2 ranks would do, on 2"
    assert str(error.value) == wanted + MORE


def test_a_state_that_cannot_fit_is_refused_at_once() -> None:
    with pytest.raises(MemoryError, match=r"60 qubits need 8589934592 GiB on 1 rank; .* ranks would do"):
        StateVector(60)


@pytest.mark.parametrize("dtype", [C64, C128])
@pytest.mark.parametrize("size", [1, 3, 1 << 10])
def test_arrays_are_aligned_and_zero(size: int, dtype: np.dtype) -> None:
    arrays = [aligned_zeros(size, dtype) for _ in range(20)]
    for array in arrays:
        assert array.shape == (size,)
        assert array.dtype == dtype
        assert array.ctypes.data % 64 == 0
        assert not array.any()


def write(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


MEMINFO = {"proc/meminfo": "MemTotal: 9000 kB\nMemFree: 10 kB\nMemAvailable:    5000 kB\n"}


def test_free_memory_is_the_machines_where_nothing_limits_it(tmp_path: Path) -> None:
    assert free_memory(write(tmp_path, MEMINFO)) == 5000 * 1024


def test_free_memory_of_cgroup_2_is_the_least_of_the_group_and_those_above_it(tmp_path: Path) -> None:
    files = {
        **MEMINFO,
        "proc/self/cgroup": "0::/job/step\n",
        "sys/fs/cgroup/job/memory.max": "3000000\n",
        "sys/fs/cgroup/job/memory.current": "1500000\n",
        "sys/fs/cgroup/job/memory.stat": "anon 1\ninactive_file 500000\n",
        "sys/fs/cgroup/job/step/memory.max": "max\n",
        "sys/fs/cgroup/job/step/memory.current": "1400000\n",
    }
    assert free_memory(write(tmp_path, files)) == 2_000_000


def test_free_memory_of_cgroup_1(tmp_path: Path) -> None:
    files = {
        **MEMINFO,
        "proc/self/cgroup": "5:cpu:/x\n4:memory:/job\n",
        "sys/fs/cgroup/memory/job/memory.limit_in_bytes": "4000000\n",
        "sys/fs/cgroup/memory/job/memory.usage_in_bytes": "3000000\n",
        "sys/fs/cgroup/memory/job/memory.stat": "total_inactive_file 1000\n",
    }
    assert free_memory(write(tmp_path, files)) == 1_001_000


def test_free_memory_here_is_something() -> None:
    assert 1 << 20 < free_memory() < 1 << 60
