"""Gradients of states whose shards are on several ranks equal those of the reference; run on every rank at once."""

import numpy as np
import pytest

import qdist as qd
from qdist.native import kernels
from qdist.plan.levels import Level
from qdist.state import reference
from qdist.state.adjoint import sweep_back

DTYPES = ["complex64", "complex128"]


@pytest.fixture(scope="session")
def comm() -> qd.comm.Communicator:
    return qd.comm.init(timeout=120)


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
                circuit.pauli_rotation(angle, "XZZY", [a, b, c, d])
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


def z_sum(n: int, seed: int) -> qd.PauliSum:
    rng = np.random.default_rng(seed)
    z = rng.integers(0, 1 << n, 6, dtype=np.uint64)
    return qd.PauliSum.from_masks(np.zeros(6, np.uint64), z, rng.normal(size=6))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("seed", range(4))
def test_random_circuits(comm: qd.comm.Communicator, seed: int, dtype: str) -> None:
    n = 9 + seed % 2
    circuit, observable = random_parametric(n, seed), z_sum(n, seed)
    params = np.random.default_rng(seed).uniform(-3, 3, circuit.num_parameters)
    want = reference.gradient(circuit, observable, params)
    lanes = kernels.lane_bits[dtype == "complex128"]
    for levels in (None, [Level("cache", lanes + 1, lanes)]):
        program = qd.Program(circuit, comm=comm, dtype=dtype, levels=levels)
        value, gradient = program.value_and_grad(observable, params)
        tolerance = 2e-5 if dtype == "complex64" else 1e-12
        assert value == pytest.approx(reference.expectation(circuit, observable, params), abs=tolerance)
        np.testing.assert_allclose(gradient, want, atol=tolerance)
        ket = program.run(params)
        sweep_back(program, ket, ket.apply_pauli_sum(observable), recover=True)
        assert ket.layout == program.plan.layout
        np.testing.assert_allclose(ket.amplitudes(), np.eye(1, 1 << n)[0], atol=tolerance)


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
        outputs = ["Z0 Z8", {"Z3": 0.5}, qd.Variance("Z1 Z7"), qd.Probabilities([8, 0, 3]), qd.Overlap(phi), qd.State()]
        cotangents = [0.3, -1.0, 0.7, np.arange(8.0), 0.2 - 0.5j, amplitudes]
        return program.vjp(outputs, params, cotangents)

    (values, gradient), (want_values, want) = vjp(shared), vjp(alone)
    np.testing.assert_allclose(gradient, want, atol=1e-12)
    for value, one in zip(values, want_values):
        np.testing.assert_allclose(value, one, atol=1e-12)  # type: ignore[arg-type]
