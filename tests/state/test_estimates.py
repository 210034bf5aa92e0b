"""Expectation values from shots: error bars, groups, readout errors, shadows."""

import copy
import io
import pickle
import sys

import numpy as np
import pytest

import qdist as qd
from qdist.backends.errors import StateError
from qdist.plan.layout import Layout
from qdist.state.measuring.estimates import Estimate, Estimates, Groups

H = qd.PauliSum({"Z0 Z1": 0.8, "X0": -0.5, "X0 X2": 0.3, "Y1 Y2": 0.6, "Z2": 0.2, "": 1.5})
a = qd.Parameter("a")


def circuit() -> qd.Circuit:
    return qd.Circuit(3).ry(a, 0).cx(0, 1).rx(0.7, 1).cx(1, 2).rz(0.4, 2).ry(1.1, 2)


def test_error_bars_cover_the_exact_value_as_often_as_they_should() -> None:
    program = qd.compile(circuit(), dtype="complex128")
    state = program.run([0.9])
    exact = state.expectation(H)
    groups = Groups([H], 3)
    scores = []
    for seed in range(1000):
        values, errors = groups.measured(state, 200, np.random.default_rng(seed))
        scores.append((values[0] - exact) / errors[0])
    found = np.array(scores)
    # 68.3 and 95.4 in a hundred, within four standard deviations of such a share of 1,000.
    assert abs((np.abs(found) < 1).mean() - 0.683) < 0.059
    assert abs((np.abs(found) < 2).mean() - 0.954) < 0.027
    assert abs(found.mean()) < 0.13


def test_estimates_are_floats_with_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    program = qd.compile(circuit(), dtype="complex128")
    found = program.expectation(H, {"a": 0.9}, shots=4000, seed=3)
    assert isinstance(found, Estimate)
    assert abs(found - program.expectation(H, [0.9])) < 5 * found.standard_error
    assert found.shots == 4000
    assert found == program.run([0.9]).expectation(H, shots=4000, seed=3)
    assert found == program.expectation(H, {"a": 0.9}, shots=4000, seed=3)
    assert found != program.expectation(H, {"a": 0.9}, shots=4000, seed=4)
    again = pickle.loads(pickle.dumps(found))
    assert (again, again.standard_error) == (found, found.standard_error)
    assert "±" in repr(found)
    with monkeypatch.context() as batch_system:
        batch_system.setattr(sys, "stdout", io.TextIOWrapper(io.BytesIO(), encoding="ascii"))
        print(found)
        assert str(found) == f"{float(found):.6g} +- {found.standard_error:.2g}"
    batch = program.expectation(H, [[0.9], [0.1]], shots=500, seed=1)
    assert (batch.shape, batch.standard_error.shape) == ((2,), (2,))


SAME_PLACES = {
    "rows": lambda x: x[1:],
    "backwards": lambda x: x[::-1],
    "a column": lambda x: x[:, 1],
    "a mask": lambda x: x[np.array([True, False, True])],
    "places": lambda x: x[[2, 0, 2]],
    "taken": lambda x: x.take([1, 0], axis=1),
    "taken by numpy": lambda x: np.take(x, [1, 0], axis=1),
    "copied": lambda x: x.copy(),
    "shallow": copy.copy,
    "deep": copy.deepcopy,
    "pickled": lambda x: pickle.loads(pickle.dumps(x)),
    "reshaped": lambda x: x.reshape(2, 3),
    "flat": lambda x: x.flatten(),
    "raveled": np.ravel,
    "T": lambda x: x.T,
    "transposed": lambda x: np.transpose(x, (1, 0)),
    "swapped": lambda x: x.swapaxes(0, 1),
    "squeezed": lambda x: x[:, None].squeeze(),
    "repeated": lambda x: x.repeat(2, 0),
    "flipped": lambda x: np.flip(x, 1),
    "iterated": lambda x: list(x)[1],
}


@pytest.mark.parametrize("name", SAME_PLACES)
def test_parts_of_estimates_keep_the_errors_of_their_places(name: str) -> None:
    numbers = np.array([[1.0, 3.0], [2.0, 5.0], [4.0, -1.0]])
    errors = numbers**2 + 0.5
    given = Estimates.of(numbers, errors, 70)
    found, wanted = SAME_PLACES[name](given), SAME_PLACES[name](numbers)
    assert isinstance(found, Estimates)
    np.testing.assert_array_equal(found, wanted)
    np.testing.assert_array_equal(found.standard_error, wanted**2 + 0.5)
    assert found.shots == 70
    np.testing.assert_array_equal(given.standard_error, errors)


def test_sorted_estimates_keep_the_errors_of_their_numbers() -> None:
    given = Estimates.of([[3.0, 1.0, 2.0], [0.0, -1.0, 5.0]], [[9.5, 1.5, 4.5], [0.5, 1.5, 25.5]], 70)
    for found in (np.sort(given), np.sort(given, axis=0), np.partition(given, 1), np.sort(given, axis=None)):
        np.testing.assert_array_equal(found.standard_error, np.asarray(found) ** 2 + 0.5)
        assert found.shots == 70


def test_numbers_made_of_estimates_are_plain_numbers() -> None:
    given = Estimates.of([[1.0, 3.0], [2.0, 5.0]], [[0.1, 0.2], [0.3, 0.4]], 70)
    for found in (2 * given, given + given, -given, given @ given, np.exp(given), given.sum(0), given.mean(0)):
        assert type(found) is np.ndarray
    for single in (given.sum(), given.mean(), given[0, 1] + given[0, 0], 2 * given[0, 1]):
        assert isinstance(single, float)
        assert not hasattr(single, "standard_error")
    for part in (np.concatenate([given, given]), np.vstack([given, given]), given.astype(np.float32)):
        for move in (*SAME_PLACES.values(), np.sort):
            assert not hasattr(move(np.concatenate([part, part])[:3]), "standard_error")
            np.testing.assert_array_equal(move(part[[0, 1, 0]]), move(np.asarray(part)[[0, 1, 0]]))


def test_one_of_several_estimates_has_its_error() -> None:
    values, errors = np.array([[1.0, 3.0], [2.0, 5.0]]), np.array([[0.1, 0.2], [0.3, 0.4]])
    given = Estimates.of(values, errors, 70)
    row = given[1]
    several = [given[0, 1], given[1][0], row[-1], row.take(0), next(iter(row)), max(row), row[np.int64(1)]]
    for single, place in zip(several, [(0, 1), (1, 0), (1, 1), (1, 0), (1, 0), (1, 1), (1, 1)], strict=True):
        assert isinstance(single, Estimate)
        assert (single, single.standard_error, single.shots) == (values[place], errors[place], 70)
    found = qd.compile(circuit(), dtype="complex128").expectations([H, "Z0"], [0.9], shots=400, seed=3)
    assert [one.standard_error for one in found] == list(found.standard_error)


def test_groups_share_bases_and_shots_follow_weights() -> None:
    groups = Groups([H], 3)
    assert len(groups.groups) == 3  # Z0 Z1 and Z2; X0 and X0 X2; Y1 Y2.
    shares = groups.shares(1000)
    weights = [float(np.abs(g.coefficients).sum()) for g in groups.groups]
    assert sum(shares) == 1000
    np.testing.assert_allclose(shares, np.array(weights) / sum(weights) * 1000, atol=1)
    with pytest.raises(StateError, match="need 3 measurement bases, and each at least 2 shots: give at least 6"):
        groups.shares(5)
    assert Groups([qd.PauliSum({"": 2.0})], 3).shares(5) == []


def test_several_observables_come_from_the_same_shots() -> None:
    program = qd.compile(circuit(), dtype="complex128")
    wanted = ["Z0", "Z1", "Z0 Z1", H]
    exact = program.expectations(wanted, [0.9])
    np.testing.assert_allclose(exact, program.run([0.9]).expectations(wanted), atol=1e-12)
    found = program.expectations(wanted, [0.9], shots=20000, seed=0)
    np.testing.assert_array_less(np.abs(found - exact), 5 * found.standard_error)
    batch = program.expectations(wanted, [[0.9], [0.2]])
    np.testing.assert_allclose(batch[0], exact, atol=1e-12)
    assert program.expectations(wanted, [[0.9], [0.2]], shots=100, seed=0).shape == (2, 4)
    for one in ("Z0", H, {"Z0": 1.0}):
        with pytest.raises(StateError, match=r"takes? a list of observables"):
            program.expectations(one, [0.9])


@pytest.mark.parametrize("option", [{"seed": 3}, {"seed": np.random.default_rng(3)}, {"readout_error": 0.1}])
def test_what_only_shots_have_a_use_for_is_refused_without_them(option) -> None:
    program = qd.compile(qd.Circuit(2).h(0).cx(0, 1))
    state = program.run()
    wanted = rf"{next(iter(option))}= goes with shots="
    for ask in (program.expectation, state.expectation):
        with pytest.raises(StateError, match=wanted):
            ask("Z0", **option)
        assert ask("Z0", shots=10, **option).shots == 10
    for ask in (program.expectations, state.expectations):
        with pytest.raises(StateError, match=wanted):
            ask(["Z0"], **option)
        assert ask(["Z0"], shots=10, **option).shots == 10
    with pytest.raises(StateError, match=wanted):
        program.expectation("Z0", np.zeros((2, 0)), **option)


@pytest.mark.parametrize("given", [None, 3, 1.5, Ellipsis], ids=repr)
def test_what_is_no_list_of_observables_is_refused(given) -> None:
    program = qd.compile(qd.Circuit(1).h(0))
    for ask in (program.expectations, program.run().expectations, program.jacobian):
        with pytest.raises(StateError, match=r"a list of observables, .* is needed; got"):
            ask(given)


def test_readout_errors_shrink_what_is_read() -> None:
    program = qd.compile(qd.Circuit(2).x(0))
    found = program.expectation("Z0 Z1", shots=20000, seed=1, readout_error=[(0.1, 0.2), (0.05, 0.3)])
    assert found == pytest.approx(-(1 - 2 * 0.2) * (1 - 2 * 0.05), abs=5 * found.standard_error)
    flips = program.sample(20000, seed=2, readout_error=0.1)
    assert (flips == 1).mean() == pytest.approx(0.81, abs=0.02)
    assert (program.sample(10, seed=2) == 1).all()
    assert (program.sample(10, seed=2, qubits=[1, 0]) == 2).all()
    with pytest.raises(StateError, match=r"readout_error=1\.5: a probability"):
        program.sample(10, readout_error=1.5)
    with pytest.raises(StateError, match="goes with shots="):
        program.expectation("Z0", readout_error=0.1)


def test_circuits_that_measure_halfway_give_means_over_runs() -> None:
    program = qd.compile(qd.Circuit(1, 1).ry(1.0, 0).measure(0, 0).rx(0.3, 0))
    found = program.expectation("Z0", shots=2000, seed=0)
    assert found == pytest.approx(np.cos(1.0) * np.cos(0.3), abs=5 * found.standard_error)
    assert found.standard_error == pytest.approx(np.sin(1.0) * np.cos(0.3) / 2000**0.5, rel=0.1)
    samples = program.sample(500, seed=0)
    assert samples.mean() == pytest.approx((1 - np.cos(1.0) * np.cos(0.3)) / 2, abs=0.1)


def test_shadows_are_told_apart_and_may_be_keys() -> None:
    program = qd.compile(qd.Circuit(2).h(0))
    first, second = program.shadow(4, seed=5), program.shadow(4, seed=5)
    assert first == first
    assert first != second
    assert first != 3
    assert len({first, second, first}) == 2


def test_shadows_estimate_observables_that_are_chosen_later() -> None:
    program = qd.compile(circuit(), dtype="complex128")
    shadow = program.shadow(20000, [0.9], seed=5)
    assert shadow.bases.shape == shadow.bits.shape == (20000, 3)
    for observable in (H, "Z0", "Y1 Y2", "X0 X2"):
        found = shadow.expectation(observable)
        assert found == pytest.approx(program.expectation(observable, [0.9]), abs=5 * found.standard_error)
        assert found.standard_error < 0.15
        medians = shadow.expectation(observable, groups=11)
        assert medians == pytest.approx(program.expectation(observable, [0.9]), abs=5 * medians.standard_error)
    again = program.run([0.9]).shadow(20000, seed=5)
    np.testing.assert_array_equal(again.bits, shadow.bits)
    with pytest.raises(StateError, match="from 1 to half of the 20000 shots"):
        shadow.expectation("Z0", groups=0)


def test_groups_and_rotations_that_are_kept_are_those_of_what_is_asked() -> None:
    """The same bases on states of other sizes, dtypes and layouts, and observables that change."""
    rng = np.random.default_rng(8)
    given = {"X0": 1.0, "Y1": 0.5}
    for dtype, order in (
        ("complex64", (0, 1)),
        ("complex128", (1, 0)),
        ("complex64", (2, 0, 1)),
        ("complex64", (0, 1)),
    ):
        amplitudes = rng.normal(size=1 << len(order)) + 1j * rng.normal(size=1 << len(order))
        amplitudes /= np.linalg.norm(amplitudes)
        state = qd.StateVector.from_amplitudes(amplitudes, dtype=dtype, layout=Layout(order))
        for _ in range(2):
            found = state.expectation(given, shots=20_000, seed=1)
            assert abs(found - state.expectation(given)) < 6 * found.standard_error
            assert found == state.expectation(given, shots=20_000, seed=1)
            given["Z0"] = given.get("Z0", 0) + 0.25
