"""Numbers of lean matrices in single precision: chosen such that their errors do not add up. No GPU needed."""

import numpy as np
import pytest
import single

import qdist as qd
from qdist.backends.cuda.lowering.binding import Binding
from qdist.backends.cuda.target import cuda_target
from qdist.backends.in_tile import dense_targets, factors_of
from qdist.backends.spread import Spread
from qdist.plan.fuse import fuse
from qdist.plan.operations import operations
from qdist.plan.planner import make_plan
from qdist.plan.precision import most_of_one_path

C64, C128 = np.dtype("complex64"), np.dtype("complex128")
ULP = 2.0**-23


def heisenberg(n: int, steps: int) -> qd.Circuit:
    theta = iter(qd.ParameterVector("t", 4 * steps))
    circuit = qd.Circuit(n).x(range(0, n, 2))
    for x, y, z, field in zip(theta, theta, theta, theta):
        for q in [*range(0, n - 1, 2), *range(1, n - 1, 2)]:
            circuit.rxx(x, q, q + 1).ryy(y, q, q + 1).rzz(z, q, q + 1)
        circuit.rz(field, range(n))
    return circuit


def numbers(angles: tuple[float, ...], dtype: np.dtype, adjoint: bool, count: int = 200) -> np.ndarray:
    """Of lean matrices one after the other: rows of two entries and a tangent, shape (matrix, row, 3)."""
    a = qd.ParameterVector("a", 4)
    (block,) = fuse(operations(qd.Circuit(2).rxx(a[0], 0, 1).ryy(a[1], 0, 1).rzz(a[2], 0, 1).rz(a[3], 0)), 0, True)
    targets = dense_targets(block)
    binding = Binding(dtype, 3)
    for k in range(count + 1):
        at = binding.place(16)
        binding.matrix(2, factors_of(block, targets), (0, 1), at, "parity", adjoint=adjoint, everywhere=True)
        if k < count:
            binding.lean(k)
    binding.freeze()
    reals = binding.values(np.array(angles)[None])[0][0].astype(np.float64).reshape(-1, 16)[:count]
    return np.concatenate([reals[:, :8].reshape(-1, 4, 2), reals[:, 8:12, None]], axis=2)


ANGLES = [(0.31, 0.17, 0.43, 0.05), (1.3, -0.4, 2.9, 1.1), (0.01, 0.02, 0.03, 0.04), (0.7, 0.7, np.pi / 2, 0.0)]


@pytest.mark.parametrize("adjoint", [False, True], ids=["forward", "undone"])
@pytest.mark.parametrize("angles", ANGLES)
def test_rows_have_the_right_angle_and_no_error_adds_up(angles: tuple[float, ...], adjoint: bool) -> None:
    found, exact = (numbers(angles, dtype, adjoint) for dtype in (C64, C128))
    turns = np.arctan2(found[..., 1], found[..., 0]) - np.arctan2(exact[..., 1], exact[..., 0])
    assert np.abs(turns).max() < ULP / 2
    # Scales and phases of all matrices so far, row by row; of the nearest numbers up to 5e-6.
    scales = np.log(np.hypot(found[..., 0], found[..., 1]) * np.hypot(1, found[..., 2])).cumsum(axis=0)
    phases = (np.arctan(found[..., 2]) - np.arctan(exact[..., 2])).cumsum(axis=0)
    assert np.abs(scales).max() < ULP
    assert np.abs(phases).max() < ULP / 2


def test_double_precision_keeps_its_numbers() -> None:
    found = numbers(ANGLES[0], C128, False)
    np.testing.assert_array_equal(found, np.broadcast_to(found[0], found.shape))
    scales = np.hypot(found[0, :, 0], found[0, :, 1]) * np.hypot(1, found[0, :, 2])
    np.testing.assert_allclose(scales, 1, atol=1e-15)


def test_an_angle_that_is_no_number_stays_none() -> None:
    assert np.isnan(numbers((np.nan, 0.1, 0.2, 0.3), C64, False)[:, :, :2]).all()


@pytest.mark.parametrize("size", [1.0, np.pi])
def test_gradients_in_single_precision(size: float) -> None:
    """The largest is 1.0e-6; with the nearest numbers it was 1.6e-6."""
    n = 10
    circuit, energy = heisenberg(n, 13), qd.library.heisenberg_xxz(n)
    plan = make_plan(circuit, C64, target=cuda_target(C64), gradients=True)
    assert not plan.in_double
    double = qd.compile(circuit, dtype="complex128", device="cpu")
    for draw in range(4):
        theta = np.random.default_rng(draw).uniform(-size, size, circuit.num_parameters)
        expected = double.value_and_grad(energy, theta)[1]
        found = single.gradient(circuit, plan, energy, theta)
        assert np.linalg.norm(found - expected) <= 1.2e-6 * np.linalg.norm(expected)


def test_gradients_in_single_precision_where_angles_spread_the_state() -> None:
    """And in double where they do not, which is right to far more: in single it is up to 4.1e-6 of the gradient's
    length where angles are within 0.01, and 1.5e-6 within 0.2."""
    n = 10
    circuit, energy = heisenberg(n, 10), qd.library.heisenberg_xxz(n)
    plan = make_plan(circuit, C64, target=cuda_target(C64))
    spread, double = Spread(plan), qd.compile(circuit, dtype="complex128", device="cpu")
    for size, in_single in ((0.01, 0), (0.2, 0), (1.0, 4), (np.pi, 4)):
        found = []
        for draw in range(4):
            theta = np.random.default_rng(draw).uniform(-size, size, circuit.num_parameters)
            if spread.probability(circuit.affine()(theta)) < most_of_one_path(n):
                expected = double.value_and_grad(energy, theta)[1]
                error = single.gradient(circuit, plan, energy, theta) - expected
                found.append(np.linalg.norm(error) / np.linalg.norm(expected))
        assert max(found, default=0) <= 1.2e-6
        assert len(found) == in_single
