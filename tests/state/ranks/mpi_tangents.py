"""Forward mode on several ranks: changes, Hessian-vector products and the metric are those of one process."""

import os

import numpy as np
import pytest
from mpi_adjoint import any_sum, random_parametric

import qdist as qd

N = 9


@pytest.fixture(scope="session")
def comm() -> qd.comm.Communicator:
    return qd.comm.init(os.environ.get("QDIST_TEST_BACKEND", "auto"), timeout=120)


@pytest.mark.parametrize(("dtype", "tolerance"), [("complex64", 2e-4), ("complex128", 1e-9)])
def test_tangents_are_those_of_one_process(comm, device: str, dtype: str, tolerance: float) -> None:
    circuit, observable, rng = random_parametric(N, 3), any_sum(N, 3), np.random.default_rng(4)
    theta, v = rng.uniform(-3, 3, (2, circuit.num_parameters))
    ket = rng.normal(size=1 << N) + 1j * rng.normal(size=1 << N)
    ket /= np.linalg.norm(ket)
    cotangents = [0.7, -0.3, rng.normal(size=8), 0.4 - 1j, rng.normal(size=1 << N) - 0.5j * rng.normal(size=1 << N)]

    def found(program: qd.Program, ranks, where: str) -> list:
        phi = qd.StateVector.from_amplitudes(ket, program.dtype, ranks, device=where)
        outputs = [observable, qd.Variance("Z0 Z8"), qd.Probabilities([8, 0, 4]), qd.Overlap(phi), qd.State()]
        values, changes = program.jvp(outputs, theta, v)
        _, by_theta, by_tangents = program._tangents.second(outputs, theta, cotangents, v)
        more = [program.hvp(observable, theta, v), program.metric_vector(theta, v)]
        return [*values, *changes, by_theta, by_tangents, *more]

    alone = found(qd.compile(circuit, dtype="complex128", device="cpu"), None, "cpu")
    together = found(qd.compile(circuit, comm=comm, dtype=dtype, device=device), comm, device)
    for one, many in zip(alone, together, strict=True):
        np.testing.assert_allclose(many, one, atol=tolerance * max(1.0, np.abs(one).max()))
