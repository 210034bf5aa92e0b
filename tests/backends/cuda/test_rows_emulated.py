"""Row programs on a GPU's kernels, compiled for the host's processor, against those of the CPU."""

from itertools import combinations
from typing import Any

import numpy as np
import pytest
from emulated import compiled_rows, cupy  # noqa: F401
from repeated_turns import repeated_turns
from row_circuits import PARAMETERS, random_circuit, random_sum, row_records

import qdist as qd
from qdist.backends.cpu.rows import CpuRows
from qdist.backends.cuda.rows import CudaRows, kernel
from qdist.plan.observables.row_outputs import lowered_outputs


def check(n: int, seed: int, in_double: bool, xp: Any = None, dtype: str = "float64") -> CudaRows:
    """Values, derivatives and states of a random circuit. xp: whose arrays are given."""
    rng = np.random.default_rng(100 * n + seed)
    of_rows = sorted(rng.permutation(PARAMETERS)[: rng.integers(PARAMETERS + 1)].tolist())
    records = row_records(random_circuit(n, 100 * n + seed), of_rows)
    # Many strings of the same flips are summed in another way than few.
    signs = [[q for q in range(1, n) if k >> q & 1] for k in range(0, min(12, 1 << n), 2)]
    many = {" ".join(["Y0", *(f"Z{q}" for q in own)]): 0.3 * k - 1 for k, own in enumerate(signs)}
    sums = [random_sum(n, seed, 3) + qd.PauliSum(many), qd.PauliSum({f"Z{n - 1}": 1.0})]
    chosen = lowered_outputs(records.frame, [sums[0], tuple(rng.permutation(n)[:2].tolist()), sums[1]])
    batch = int(rng.integers(1, 4))
    rows, shared, cotangents = (
        rng.normal(size=size).astype(dtype).astype(float)
        for size in ((batch, len(of_rows)), PARAMETERS - len(of_rows), (batch, chosen.num_outputs))
    )
    cpu, gpu = CpuRows(records, True), CudaRows(records, in_double, 0)
    readings = cpu.outputs(chosen), gpu.outputs(chosen)
    bound = 1e-11 if in_double and dtype == "float64" else 3e-5
    given = [x if xp is None else xp.asarray(x.astype(dtype)) for x in (rows, shared, cotangents)]
    wanted, found = cpu.forward(rows, shared, readings[0], False), gpu.forward(*given[:2], readings[1], True)
    assert wanted is not None
    assert found is not None
    np.testing.assert_allclose(found[0], wanted[0], atol=bound)
    for which in ((True, True), (True, False), (False, True)):
        expected = cpu.backward(rows, shared, readings[0], cotangents, *which)
        assert expected is not None
        for kets in (None, found[1]):
            results = gpu.backward(*given[:2], readings[1], given[2], *which, kets, found[0])
            assert results is not None
            for a, b in zip(expected, results):
                assert (a is None) == (b is None)
                if a is not None:
                    assert b.shape == a.shape
                    np.testing.assert_allclose(b, a, atol=bound, rtol=1e-7 if bound < 1e-6 else 1e-5)
    states = np.empty((batch, 1 << n), complex)
    assert cpu.states(rows, shared, states)
    own = np.empty((batch, 1 << n), np.complex128 if in_double else np.complex64)
    assert gpu.states(rows, shared, own)
    np.testing.assert_allclose(own, states, atol=bound if in_double else 3e-5)
    return gpu


@pytest.mark.parametrize("n", [1, 2, 4, 7, 9])
@pytest.mark.parametrize("in_double", [True, False])
def test_values_derivatives_and_states(cupy: Any, n: int, in_double: bool, thorough: bool) -> None:  # noqa: F811
    for seed in range(3 if thorough else 2 if n < 9 else 1):
        check(n, seed, in_double)


@pytest.mark.parametrize(("n", "room"), [(1, 1 << 10), (3, 1 << 10), (7, 1 << 10), (9, 8 << 10)])
def test_states_in_global_memory(cupy: Any, n: int, room: int, thorough: bool) -> None:  # noqa: F811
    """Rows that shared memory has no room for, in turn on fewer blocks; the smaller ones not even for their angles."""
    cupy.card["sharedMemPerBlockOptin"] = room
    cupy.card["multiProcessorCount"], cupy.card["l2CacheSize"] = 2, 0
    for seed in range(2):
        for in_double in (True, False) if thorough else (seed == 0,):
            check(n, seed, in_double)
    assert {"prepare_far_rows", "far_rows_forward", "far_rows_backward"} <= set(cupy.launches)
    assert "rows_forward" not in cupy.launches


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("in_double", [True, False])
def test_arrays_on_the_device_are_read_as_they_are(cupy: Any, dtype: str, in_double: bool) -> None:  # noqa: F811
    gpu = check(4, 1, in_double, cupy, dtype)
    rows, shared = cupy.zeros((2, gpu._per_row), dtype), cupy.zeros(gpu._num_shared, dtype)
    cupy.launches.clear()
    found = gpu.forward(rows, shared, gpu._nothing, True)
    assert found is not None
    assert found[0].dtype == dtype
    assert cupy.launches == ["prepare_rows", "rows_forward"]
    cupy.launches.clear()
    results = gpu.backward(rows, shared, gpu._nothing, cupy.zeros((2, 0), dtype), True, True, found[1], found[0])
    assert results is not None
    assert results[0] is found[0]
    assert results[1].dtype == results[2].dtype == dtype
    # What all rows share is known from the forward run.
    wanted = ["shared_gradients"] * bool(gpu._num_shared) + ["row_gradients"] * bool(gpu._per_row)
    assert cupy.launches == ["rows_backward", *wanted]


def test_a_run_takes_one_piece_of_memory_and_leaves_its_states(
    cupy: Any,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    records = row_records(random_circuit(5, 7), [0, 1])
    gpu = CudaRows(records, True, 0)
    reading = gpu.outputs(lowered_outputs(records.frame, [qd.PauliSum({"Z0": 1.0, "X1 Y2": 0.5})]))
    rng = np.random.default_rng(7)
    rows, shared, cotangents = (cupy.asarray(rng.normal(size=size)) for size in ((3, 2), records.num_shared, (3, 1)))
    taken: list[int] = []
    alloc, empty = cupy.cuda.alloc, cupy.empty

    def counted(take: Any, nbytes: int, *given: Any) -> Any:
        taken.append(nbytes)
        return take(*given)

    monkeypatch.setattr(cupy.cuda, "alloc", lambda nbytes: counted(alloc, nbytes, nbytes))
    monkeypatch.setattr(cupy, "empty", lambda *given: counted(empty, 0, *given))
    results = []
    for most, states in ((1 << 20, 3 * 2 * 8 << 5), (0, 0)):
        monkeypatch.setattr(kernel, "_KEPT_BYTES", most)
        taken.clear()
        found = gpu.forward(rows, shared, reading, True)
        assert found is not None
        # The outputs, and all that the backward run takes over.
        assert (len(taken), taken.count(0)) == (2, 1)
        assert bool(found[1].kets) == bool(states)
        assert max(taken) >= states
        before = len(cupy.launches)
        taken.clear()
        results.append(gpu.backward(rows, shared, reading, cotangents, True, True, found[1], found[0]))
        assert (len(taken), taken.count(0)) == (2, 1)
        assert cupy.launches[before:] == ["rows_backward", "shared_gradients", "row_gradients"]
    for one, other in zip(*results):
        np.testing.assert_allclose(one, other, atol=1e-13)


@pytest.mark.parametrize("threads", [32, 512])
@pytest.mark.parametrize("in_double", [True, False])
def test_tables_of_phases_and_the_value_of_one_sum(
    cupy: Any,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
    in_double: bool,
    threads: int,
) -> None:
    """Of one row and one sum the value comes with the bra; with few threads each has many amplitudes, and a diagonal
    more terms than warps sum up one by one."""
    monkeypatch.setattr(kernel, "_MOST_THREADS", threads)
    for n, pairs in ((2, 1), (9, 3), (9, 36)):
        theta = qd.ParameterVector("p", PARAMETERS)
        circuit = qd.Circuit(n).h(range(n))
        couplings = list(combinations(range(n), 2))[:pairs]
        for layer in range(2):
            for k, (a, b) in enumerate(couplings):
                circuit.rzz((0.1 + k) * theta[(k + layer) % 4], a, b)
            circuit.rx(theta[4 + layer], range(n))
        records = row_records(circuit, [])
        # X and Y alone, of which few strings flip the same bits, and many that do.
        chain = {f"X{q}": 0.5 - q for q in range(n)} | {f"Y{q} Z{(q + 1) % n}": 0.2 for q in range(n)}
        many = {" ".join(["X0", *(f"Z{q}" for q in range(1, n) if k >> q & 1)]): 0.1 * k for k in range(2, 16, 2)}
        chosen = lowered_outputs(records.frame, [qd.PauliSum(chain) + qd.PauliSum(many) + random_sum(n, n, 3)])
        cpu, gpu = CpuRows(records, True), CudaRows(records, in_double, 0)
        rng = np.random.default_rng(n)
        given = np.zeros((1, 0)), rng.normal(size=records.num_shared)
        readings, cotangents = (cpu.outputs(chosen), gpu.outputs(chosen)), np.array([[1.7]])
        wanted = cpu.backward(*given, readings[0], cotangents, False, True)
        found = gpu.backward(*given, readings[1], cotangents, False, True)
        assert wanted is not None
        assert found is not None
        bound = 1e-11 if in_double else 3e-5
        np.testing.assert_allclose(found[0], wanted[0], atol=bound)
        np.testing.assert_allclose(found[2], wanted[2], atol=bound * pairs)


def test_repeated_turns_do_not_change_the_norm(cupy: Any) -> None:  # noqa: F811
    records = row_records(repeated_turns(), [0, 1, 2, 3])
    gpu, exact = CudaRows(records, False, 0), CpuRows(records, True)
    chosen = lowered_outputs(records.frame, [qd.PauliSum({"": 3.0, "Z0": 0.5, "X1 Z2": 0.25})])
    rows, shared = np.random.default_rng(1).uniform(-3, 3, (5, 4)), np.zeros(0)
    states = np.empty((5, 16), np.complex64)
    assert gpu.states(rows, shared, states)
    np.testing.assert_allclose(np.linalg.norm(states, axis=1), 1.0, atol=3e-7)
    found = gpu.backward(rows, shared, gpu.outputs(chosen), np.ones((5, 1)), True, False)
    wanted = exact.backward(rows, shared, exact.outputs(chosen), np.ones((5, 1)), True, False)
    assert found is not None
    assert wanted is not None
    for a, b in zip(found[:2], wanted[:2]):
        np.testing.assert_allclose(a, b, atol=1e-6)


def test_runs_with_the_same_addresses_are_replayed_on_what_is_there(
    cupy: Any,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As steps of a training are: values change in place, and memory is where the step before has left it."""
    records = row_records(random_circuit(4, 3), [0, 1])
    gpu, fresh = CudaRows(records, True, 0), CudaRows(records, True, 0)
    sums = [qd.PauliSum({"Z0": 1.0, "X1 Y2": 0.5}), qd.PauliSum({"Z3": 1.0})]
    readings = [k.outputs(lowered_outputs(records.frame, sums)) for k in (gpu, fresh)]
    rng = np.random.default_rng(4)
    rows, shared, cotangents = (cupy.asarray(rng.normal(size=size)) for size in ((3, 2), records.num_shared, (3, 2)))
    pieces: dict[Any, Any] = {}
    alloc, empty = cupy.cuda.alloc, cupy.empty

    def step(kernel: CudaRows, reading: Any) -> list[Any]:
        found = kernel.forward(rows, shared, reading, True)
        assert found is not None
        back = kernel.backward(rows, shared, reading, cotangents, True, True, found[1], found[0])
        assert back is not None
        return [np.array(part) for part in back]

    recorded = []
    for _ in range(4):
        wanted = step(fresh, readings[1])
        with monkeypatch.context() as patch:
            patch.setattr(cupy.cuda, "alloc", lambda n: pieces.setdefault(n, alloc(n)))
            patch.setattr(cupy, "empty", lambda *given: pieces.setdefault(given, empty(*given)))
            found = step(gpu, readings[0])
        for a, b in zip(found, wanted):
            np.testing.assert_array_equal(a, b)
        recorded.append([graph for call in readings[0].calls.values() for graph in call.graphs._kept.values()])
        for array in (rows, shared, cotangents):
            array += 0.25
    # Both ways: launched, recorded, replayed.
    assert recorded[0] == [None, None]
    assert None not in recorded[1]
    assert recorded[1] == recorded[2] == recorded[3]
