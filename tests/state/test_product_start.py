"""The folded start: first amplitudes against the reference, derivatives against differences."""

import numpy as np
import pytest

import qdist as qd
from qdist.plan.planner import make_plan
from qdist.program.product_start import ProductStart
from qdist.state import reference

N, FAR = 8, 3


def example() -> tuple[qd.Circuit, qd.Circuit]:
    """A circuit whose first gates differ from qubit to qubit, and those first gates alone."""
    theta = qd.ParameterVector("theta", 6)
    first = qd.Circuit(N)
    for q in range(N):
        first.h(q).rx(theta[q % 6], q).u(0.3, 2 * theta[(q + 1) % 6] + 0.1, -theta[q % 6], q).rz(theta[5], q).p(0.4, q)
    whole = first.copy()
    # All qubits in a row, the far ones too, and every one mixed: two stages, so that some must begin far.
    for q in range(N - 1):
        whole.cx(q, q + 1)
    whole.h(range(N))
    return whole, first


@pytest.fixture
def angles() -> np.ndarray:
    return np.random.default_rng(3).uniform(-3, 3, 6)


def test_each_shard_starts_with_its_amplitude_of_the_product(angles: np.ndarray) -> None:
    whole, first = example()
    plan = make_plan(whole, np.dtype("complex128"), far=FAR)
    far = plan.layout.qubits[N - FAR :]
    assert set(plan.folded) == set(far)
    start = ProductStart(plan)
    start.bind(whole.affine()(angles))
    state = reference.state(first, angles).reshape((2,) * N)
    for shard in range(1 << FAR):
        # The amplitudes with these values of the far qubits are a factor times the state of the others.
        index = tuple(shard >> far.index(q) & 1 if q in far else slice(None) for q in reversed(range(N)))
        rest = state[index]
        assert abs(start.value(shard)) == pytest.approx(np.linalg.norm(rest), abs=1e-14)
        if shard == 0:
            base = rest / start.value(0)
        np.testing.assert_allclose(rest, start.value(shard) * base, atol=1e-14)


def test_gradients_are_those_of_differences(angles: np.ndarray) -> None:
    whole, _ = example()
    plan = make_plan(whole, np.dtype("complex128"), far=FAR)
    start = ProductStart(plan)
    rng = np.random.default_rng(0)
    weights = [(s, complex(rng.normal(), rng.normal())) for s in range(1 << FAR)]
    slots = whole.affine()(angles)

    def value(at: np.ndarray) -> float:
        start.bind(at)
        return sum((w * start.value(s)).real for s, w in weights)

    h = 1e-6
    steps = np.eye(len(slots)) * h
    want = [(value(slots + step) - value(slots - step)) / (2 * h) for step in steps]
    start.bind(slots)
    got = start.gradient(weights)
    assert got.shape == slots.shape
    np.testing.assert_allclose(got, want, atol=1e-8)
    # Only folded gates have derivatives here.
    folded = {slot + p for gates in plan.folded.values() for gate, slot in gates for p in range(gate.num_params)}
    assert set(np.flatnonzero(np.abs(got) > 1e-12)) <= folded
    assert len(folded) == FAR * 6


def test_without_folded_gates_only_the_first_shard_starts() -> None:
    plan = make_plan(qd.Circuit(N).cx(0, 1).cx(1, 2), np.dtype("complex128"), far=FAR)
    start = ProductStart(plan)
    assert not plan.folded
    assert [start.value(s) for s in range(1 << FAR)] == [1] + [0] * 7


def test_phases_of_all_amplitudes_are_of_no_far_qubit() -> None:
    theta = qd.Parameter("theta")
    for q in range(N):
        circuit = qd.Circuit(N).pauli_rotation(theta, "I", q).diagonal([1j, 1j], q).rx(theta, q).cx(0, 1)
        plan = make_plan(circuit, np.dtype("complex128"), far=FAR)
        assert set(plan.folded) <= {q}
        assert "pauli_rotation" not in [gate.name for gates in plan.folded.values() for gate, _ in gates]
