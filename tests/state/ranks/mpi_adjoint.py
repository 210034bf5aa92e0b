"""Gradients of states whose shards are on several ranks equal those of the reference; run on every rank at once."""

import os
from functools import cache
from typing import NamedTuple

import numpy as np
import pytest

import qdist as qd
from qdist.native import kernels
from qdist.plan.levels import Level
from qdist.program.adjoint import sweep_back
from qdist.state import reference

DTYPES = ["complex64", "complex128"]


@pytest.fixture(scope="session")
def comm() -> qd.comm.Communicator:
    return qd.comm.init(os.environ.get("QDIST_TEST_BACKEND", "auto"), timeout=120)


def random_parametric(n: int, seed: int) -> qd.Circuit:
    """Every kind of block, with its qubits anywhere: far controls, far diagonals and far parities among them."""
    rng = np.random.default_rng(seed)
    theta = qd.ParameterVector("t", 30)
    circuit = qd.Circuit(n)
    for q in range(n):
        circuit.ry(rng.uniform(-2, 2), q)
    for k in range(30):
        a, b, c, d = (int(q) for q in rng.permutation(n)[:4])
        angle = float(rng.choice([1.0, -0.5])) * theta[k] + 0.1
        match k % 10:
            case 0:
                circuit.ry(angle, a).cx(a, b)
            case 1:
                circuit.rz(angle, a).h(b)
            case 2:
                circuit.rzz(angle, a, b).rx(0.4, c)
            case 3:
                circuit.pauli_rotation(angle, "XZZY", [a, b, c, d]).pauli_rotation(-angle, "YZIX", [a, b, c, d])
            case 4:
                circuit.crx(angle, a, b)
            case 5:
                circuit.append(qd.circuit.GATES["p"].controlled(2, 1), [a, b, c], [angle])
            case 6:
                circuit.fsim(angle, 2 * theta[0], a, b)
            case 7:
                circuit.rxx(angle, a, b).cz(c, d)
            case 8:
                circuit.u(angle, theta[1], -theta[k], a).swap(b, c)
            case _:
                circuit.append(qd.circuit.GATES["ry"].controlled(2, 2), [a, b, c], [angle]).ccx(b, c, d)
    return circuit


def any_sum(n: int, seed: int) -> qd.PauliSum:
    """Strings that flip far qubits too."""
    rng = np.random.default_rng(seed)
    x, z = rng.integers(0, 1 << n, (2, 6), dtype=np.uint64)
    return qd.PauliSum.from_masks(x, z, rng.normal(size=6))


class Case(NamedTuple):
    circuit: qd.Circuit
    observable: qd.PauliSum
    params: np.ndarray
    value: float
    gradient: np.ndarray


@cache
def case(seed: int) -> Case:
    n = 9 + seed % 2
    circuit, observable = random_parametric(n, seed), any_sum(n, seed)
    params = np.random.default_rng(seed).uniform(-3, 3, circuit.num_parameters)
    value = reference.expectation(circuit, observable, params)
    return Case(circuit, observable, params, value, reference.gradient(circuit, observable, params))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("seed", range(2))
def test_random_circuits(comm: qd.comm.Communicator, device: str, seed: int, dtype: str) -> None:
    circuit, observable, params, want_value, want = case(seed)
    n = circuit.num_qubits
    lanes = kernels.lane_bits[dtype == "complex128"]
    # A GPU has the tiles of its kernel.
    for levels in (None, [Level("cache", lanes + 1, lanes)]) if device == "cpu" else (None,):
        program = qd.Program(circuit, comm=comm, dtype=dtype, levels=levels)
        value, gradient = program.value_and_grad(observable, params)
        tolerance = 2e-5 if dtype == "complex64" else 1e-12
        assert value == pytest.approx(want_value, abs=tolerance)
        np.testing.assert_allclose(gradient, want, atol=tolerance)
        ket = program.run(params)
        sweep_back(program, ket, ket.apply_pauli_sum(observable), recover=True)
        assert ket.layout == program.plan.layout
        # Folded gates are part of the start: one amplitude a shard.
        start = np.zeros(1 << n, np.complex128)
        for shard in range(1 << n - ket.shard_bits):
            start[ket.layout.to_logical(shard << ket.shard_bits)] = program.start.value(shard)
        np.testing.assert_allclose(ket.amplitudes(), start, atol=tolerance)


def test_every_output(comm: qd.comm.Communicator) -> None:
    circuit = qd.library.hardware_efficient(9, 3)
    params = np.random.default_rng(1).uniform(-3, 3, circuit.num_parameters)
    rng = np.random.default_rng(2)
    amplitudes = rng.normal(size=512) + 1j * rng.normal(size=512)
    alone, shared = (qd.compile(circuit, comm=c, dtype="complex128") for c in (None, comm))

    def vjp(program: qd.Program) -> tuple[list[object], np.ndarray]:
        phi = qd.StateVector.from_amplitudes(
            amplitudes, comm=program.comm, layout=program.plan.segments[-1].layout
        ).normalize()
        outputs = [
            "X0 Y8",
            {"Z3": 0.5},
            qd.Variance({"X1 Z7": 1.0, "Y8": 0.5}),
            qd.Probabilities([8, 0, 3]),
            qd.Overlap(phi),
            qd.State(),
        ]
        cotangents = [0.3, -1.0, 0.7, np.arange(8.0), 0.2 - 0.5j, amplitudes]
        return program.vjp(outputs, params, cotangents)

    (values, gradient), (want_values, want) = vjp(shared), vjp(alone)
    np.testing.assert_allclose(gradient, want, atol=1e-12)
    for value, one in zip(values, want_values):
        np.testing.assert_allclose(value, one, atol=1e-12)  # type: ignore[arg-type]


def test_folded_gates_have_derivatives_where_they_leave_shards_zero(comm: qd.comm.Communicator) -> None:
    """All angles zero: rotations of far qubits that begin the circuit do nothing, but would."""
    circuit = qd.library.hardware_efficient(9, 2, rotations=("rx", "ry"))
    observable = any_sum(9, 3) + qd.PauliSum({f"Y{q}": 0.3 + q for q in range(9)})
    params = np.zeros(circuit.num_parameters)
    _, gradient = qd.compile(circuit, comm=comm, dtype="complex128").value_and_grad(observable, params)
    np.testing.assert_allclose(gradient, reference.gradient(circuit, observable, params), atol=1e-12)


def test_one_sum_over_the_ranks_serves_the_whole_gradient(
    comm: qd.comm.Communicator, monkeypatch: pytest.MonkeyPatch
) -> None:
    circuit = qd.library.hardware_efficient(10, 4)
    program = qd.compile(circuit, comm=comm)
    params = np.random.default_rng(0).uniform(-3, 3, circuit.num_parameters)
    observable = qd.library.heisenberg_xxz(10)
    ket = program.run(params)
    forward = ket.traffic.exchanges
    bra = ket.apply_pauli_sum(observable)
    sizes = []
    original = qd.comm.Communicator.all_reduce

    def counted(self: qd.comm.Communicator, x: np.ndarray, *args: object, **kwargs: object) -> object:
        sizes.append(np.size(x))
        return original(self, x, *args, **kwargs)  # type: ignore[arg-type]

    monkeypatch.setattr(qd.comm.Communicator, "all_reduce", counted)
    before = ket.traffic.exchanges
    sweep_back(program, ket, bra)
    assert sizes == []
    # Ket and bra go back the way the ket came, each exchange undone once.
    assert ket.traffic.exchanges - before <= forward
    program.value_and_grad(observable, params)
    # The energy, and the derivatives by all parameters.
    assert sizes == ([1, circuit.num_parameters] if comm.size > 1 else [])


def test_exchanges_for_gates_that_observables_take_over_are_not_made(comm: qd.comm.Communicator) -> None:
    circuit, observable = qd.library.hardware_efficient(10, 1), qd.library.heisenberg_xxz(10)
    program = qd.compile(circuit, comm=comm, dtype="complex128")
    params = np.random.default_rng(0).uniform(-3, 3, circuit.num_parameters)
    short, gates = program.bind_for([qd.Expectation(observable)], params)
    ket = short.evolved()
    assert len(gates) > 0
    assert program.plan.exchanges == (1 if comm.size > 2 else 0)
    assert short.plan.exchanges == ket.traffic.exchanges == 0
    value, gradient = program.value_and_grad(observable, params)
    assert value == pytest.approx(reference.expectation(circuit, observable, params), abs=1e-12)
    np.testing.assert_allclose(gradient, reference.gradient(circuit, observable, params), atol=1e-12)
    assert program.expectation(observable, params) == pytest.approx(value, abs=1e-12)
