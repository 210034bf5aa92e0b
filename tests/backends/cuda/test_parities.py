"""Two-qubit matrices that keep parities, with the phases beside them: their tables against the reference, and what they
cost. No GPU needed."""

from collections import Counter
from dataclasses import replace
from itertools import permutations

import numpy as np
import pytest
from test_back_tables import check as check_gradient
from test_tables import TOLERANCE, check, tables_of

import qdist as qd
from qdist.backends.cuda.lowering.back_tables import BackTables
from qdist.backends.cuda.lowering.lean import is_lean
from qdist.backends.cuda.lowering.patterns import multiples
from qdist.backends.cuda.lowering.records.tiles import OPS
from qdist.backends.cuda.lowering.tables import Tables
from qdist.backends.cuda.lowering.tile import Shape, shape_of
from qdist.backends.cuda.target import target_of
from qdist.circuit import GATES, unitary_gate
from qdist.circuit.gate import Gate
from qdist.plan.fuse import fuse
from qdist.plan.operations import operations
from qdist.plan.planner import make_plan

N = 7
both = pytest.mark.parametrize("dtype", ["complex64", "complex128"])
LARGE = Shape(8, tile=7, registers=5, contiguous=1)
GIVENS = np.eye(4, dtype=complex)
GIVENS[1:3, 1:3] = [[0.6, -0.8], [0.8, 0.6]]


def random_layers(n: int, num_gates: int, seed: int) -> qd.Circuit:
    """Turns, phases before and behind them, and now and then a gate of another kind, at random places."""
    rng = np.random.default_rng(seed)
    names = ["rxx", "ryy", "rxx", "ryy", "rzz", "rz", "p", "cp", "crz", "cz", "s", "iswap", "fsim", "xx_plus_yy", "ry"]
    chosen: list[Gate] = [GATES[str(name)] for name in rng.choice(names, num_gates)]
    chosen[::9] = [unitary_gate(GIVENS)] * len(chosen[::9])
    theta = iter(qd.ParameterVector("t", sum(gate.num_params for gate in chosen)))
    circuit = qd.Circuit(n).h(range(n))
    for gate in chosen:
        angles = [next(theta) for _ in range(gate.num_params)]
        # Neighbours of a pair follow each other, so that there is something to join.
        first = int(rng.integers(n))
        qubits = rng.permutation([first, (first + 1) % n])[: gate.num_qubits].tolist()
        circuit.append(gate, qubits, angles)
    return circuit


@both
@pytest.mark.parametrize("seed", range(6))
def test_random_layers(seed: int, dtype: str) -> None:
    circuit = random_layers(N, 40, seed)
    params = np.random.default_rng(seed).uniform(-6, 6, circuit.num_parameters)
    check(circuit, dtype, params=params)
    check(circuit, dtype, Shape(np.dtype(dtype).itemsize, tile=6, registers=4, contiguous=2), params)
    if dtype == "complex64":
        check(circuit, dtype, LARGE, params)


@both
@pytest.mark.parametrize("seed", range(3))
def test_gradients_of_random_layers(seed: int, dtype: str) -> None:
    check_gradient(random_layers(6, 30, 10 + seed), dtype)


@both
def test_angles_at_which_an_entry_vanishes(dtype: str) -> None:
    for x, y, z in permutations((0.0, np.pi, -np.pi / 2), 3):
        circuit = qd.Circuit(4).h(range(4))
        for a, b in ((0, 1), (2, 3), (1, 2), (0, 1)):
            circuit.rxx(x, a, b).ryy(y, a, b).rzz(z, a, b).rz(z, a).rz(x, b)
        check(circuit, dtype)


def heisenberg(n: int, steps: int) -> qd.Circuit:
    theta = iter(qd.ParameterVector("t", 4 * steps))
    circuit = qd.Circuit(n)
    for x, y, z, field in zip(theta, theta, theta, theta):
        for q in [*range(0, n - 1, 2), *range(1, n - 1, 2)]:
            circuit.rzz(z, q, q + 1).rxx(x, q, q + 1).ryy(y, q, q + 1)
        circuit.rz(field, range(n))
    return circuit


def test_a_trotter_step_is_one_matrix_a_pair() -> None:
    (tables,) = tables_of(heisenberg(8, 3), "complex64", shape_of(np.dtype("complex64")))
    kinds = Counter(tables.arrays()["ops"]["kind"].tolist())
    # All pairs, and no phases beside them: RZZ comes before the turns here, and commutes with them.
    assert kinds.total() == 3 * 7
    assert set(kinds) == {OPS["core"], OPS["lean"]}
    assert kinds[OPS["lean"]] >= 2 * 7 - 1
    # Chains of pairs share phases: a matrix that needs its two bits side by side would have two a phase at most.
    assert sum(stage.num_phases for stage in tables.stages) <= 9


@both
def test_the_last_matrix_hands_on_nothing(dtype: str) -> None:
    """Of matrices alone, also of one: the phase of all amplitudes is right."""
    for count in (1, 2, 3):
        circuit = qd.Circuit(4).h(range(4))
        for k in range(count):
            circuit.rxx(0.3, k, k + 1).rzz(1.1 + k, k, k + 1)
        check(circuit, dtype)
    assert TOLERANCE[dtype] < 1e-5


@both
def test_matrices_are_lean_when_they_are_undone(dtype: str) -> None:
    circuit = heisenberg(N, 3)
    shape = Shape(np.dtype(dtype).itemsize, tile=6, registers=4, contiguous=2)
    plan = make_plan(circuit, np.dtype(dtype), target=target_of(np.dtype(dtype), shape))
    (segment,) = plan.segments
    tables = BackTables(N, np.dtype(dtype), segment.stages, replace(shape, states=2), multiples(circuit.affine()))
    kinds = Counter(int(kind) & ~7 for kind in tables.arrays()["ops"]["kind"])
    assert (kinds[OPS["lean"]], kinds[OPS["core"]]) == (3 * (N - 1) - 1, 1)
    # Eight sums each at most, what derivatives of unitary matrices depend on; an RZ that joins none has its own.
    assert kinds[OPS["core_transition"]] == 3 * (N - 1)
    assert 6 * kinds[OPS["core_transition"]] < tables.num_sums <= 8 * kinds[OPS["core_transition"]] + 2


def test_which_matrices_are_lean() -> None:
    def found(circuit: qd.Circuit) -> bool:
        (block,) = fuse(operations(circuit), joins_phases=True)
        assert block.keeps_parity
        return is_lean(block)

    a, b = qd.Parameter("a"), qd.Parameter("b")
    assert found(qd.Circuit(2).rxx(a, 0, 1).ryy(b, 1, 0).rz(a, 0).cp(b, 0, 1))
    assert found(qd.Circuit(2).rzz(b, 0, 1).rxx(a, 0, 1))
    assert found(qd.Circuit(2).fsim(a, b, 0, 1))
    assert found(qd.Circuit(2).iswap(0, 1))
    # Phases before a turn that do not commute with it, and a real turn.
    assert not found(qd.Circuit(2).rz(a, 0).rxx(b, 0, 1))
    assert not found(qd.Circuit(2).xx_plus_yy(a, b, 0, 1))
    assert not found(qd.Circuit(2).unitary(GIVENS, [0, 1]))


def test_fixed_angles_make_constants() -> None:
    """A layer of fSim and one-qubit gates has as few multiplications as one of SU(4)."""
    shape = shape_of(np.dtype("complex64"))
    circuit = qd.Circuit(8)
    for layer in range(6):
        for q in range(8):
            circuit.unitary(qd.library.random_circuits.random_su(2, seed=8 * layer + q), [q])
        for q in range(layer % 2, 8, 2):
            circuit.fsim(0.5, 0.2, q, (q + 1) % 8)
    kind = np.dtype("complex64")
    (segment,) = make_plan(circuit, kind, target=target_of(kind, shape)).segments
    counts = []
    for fixed in (None, circuit.affine()(np.zeros(0))):
        tables = Tables(8, kind, segment.stages, shape, True, fixed)
        counts.append(np.count_nonzero(tables.arrays()["ops"]["kind"] & ~7 == OPS["pair"]))
    assert counts[0] == 0 < counts[1]
