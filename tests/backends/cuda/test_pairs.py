"""Two-qubit matrices taken apart: against products of matrices, also where eigenvalues meet."""

import numpy as np
import pytest
from interpreter import exchange_matrix, pair_matrix

import qdist as qd
from qdist.backends.cartan import cartan, zyz
from qdist.backends.cuda.lowering.records.tiles import OPS
from qdist.backends.cuda.lowering.tables import Tables
from qdist.backends.cuda.lowering.tile import shape_of, tile_level
from qdist.backends.pairs import Form, Pairs
from qdist.plan.planner import make_plan
from qdist.state import reference

su = qd.library.random_circuits.random_su
SPECIAL = {
    "identity": np.eye(4),
    "cx": np.eye(4)[[0, 3, 2, 1]],
    "swap": np.eye(4)[[0, 2, 1, 3]],
    "cz": np.diag([1, 1, 1, -1]),
    "product": np.kron(su(2, seed=1), su(2, seed=2)),
    "phase": np.exp(0.7j) * np.eye(4),
}


def near(matrix: np.ndarray, distance: float) -> np.ndarray:
    """A unitary close to another."""
    values, vectors = np.linalg.eigh(su(4, seed=9) + su(4, seed=9).conj().T)
    return matrix @ (vectors * np.exp(1j * distance * values)) @ vectors.conj().T


def unitaries() -> np.ndarray:
    special = list(SPECIAL.values())
    close = [near(m, d) for m in special for d in (1e-15, 1e-12, 1e-9, 1e-6, 1e-3)]
    local = [np.kron(su(2, seed=3), su(2, seed=4)) @ m @ np.kron(su(2, seed=5), su(2, seed=6)) for m in special]
    return np.array([*special, *close, *local, *(su(4, seed=k) for k in range(50))], complex)


def test_the_decomposition_gives_the_matrix_back() -> None:
    given = unitaries()
    high, low, core, first_high, first_low = cartan(given)
    for k, u in enumerate(given):
        back = np.kron(high[k], low[k]) @ core[k] @ np.kron(first_high[k], first_low[k])
        np.testing.assert_allclose(back, u, atol=1e-13)
        outer = np.where(np.isin(np.arange(4), [0, 3]), 1, 0)
        np.testing.assert_allclose(core[k][outer[:, None] != outer], 0, atol=1e-15)
        for one in (high[k], low[k], first_high[k], first_low[k]):
            np.testing.assert_allclose(one @ one.conj().T, np.eye(2), atol=1e-13)


@pytest.mark.parametrize("unitary", [su(2, seed=1), np.eye(2), np.diag([1, 1j]), np.array([[0, 1j], [1, 0]])])
def test_a_turn_between_phases(unitary: np.ndarray) -> None:
    p, cosine, sine, q = zyz(np.asarray(unitary, complex))
    assert cosine >= 0
    assert sine >= 0
    np.testing.assert_allclose(np.diag(p) @ [[cosine, -sine], [sine, cosine]] @ np.diag(q), unitary, atol=1e-14)
    np.testing.assert_allclose(np.abs([*p, *q]), 1, atol=1e-14)


def applied(ket: np.ndarray, qubits: tuple[int, int], matrix: np.ndarray) -> np.ndarray:
    n = ket.size.bit_length() - 1
    axes = [n - 1 - qubits[1], n - 1 - qubits[0]]
    front = np.moveaxis(ket.reshape((2,) * n), axes, [0, 1])
    return np.moveaxis((matrix @ front.reshape(4, -1)).reshape(front.shape), [0, 1], axes).ravel()


def as_matrix(form: Form, numbers: np.ndarray) -> np.ndarray:
    if form == Form.WHOLE:
        return numbers.view(complex).reshape(4, 4)
    assert np.abs(numbers[:2]).max() <= 1 + 1e-12
    return pair_matrix(numbers) if form == Form.PAIR else exchange_matrix(numbers)


def test_pairs_do_together_what_the_matrices_do() -> None:
    rng = np.random.default_rng(4)
    given = unitaries()
    ket = rng.normal(size=32) + 1j * rng.normal(size=32)
    want, pairs, places = ket, Pairs(), []
    for k, matrix in enumerate(given[rng.permutation(len(given))]):
        first, second = (int(q) for q in rng.permutation(5)[:2])
        places.append((first, second))
        pairs.add((first, second), matrix)
        want = applied(want, (first, second), matrix)
        if k % 9 == 8:
            # What happens in between ends the chain: nothing may be handed across it.
            pairs.touch(1 << first)
    numbers = pairs.numbers()
    assert 20 < sum(is_pair for is_pair, _ in numbers) < len(given) - 10
    got = ket
    for qubits, (is_pair, own) in zip(places, numbers):
        got = applied(got, qubits, as_matrix(is_pair, own))
    np.testing.assert_allclose(got, want, rtol=0, atol=1e-11)


def test_what_is_handed_on_stays_between_touches() -> None:
    rng = np.random.default_rng(5)
    ket = rng.normal(size=8) + 1j * rng.normal(size=8)
    between = np.diag(np.exp(1j * rng.normal(size=4)))
    places = [(0, 1), (1, 2), (0, 2), (0, 1), (1, 2), (2, 0)]
    given = [su(4, seed=k) for k in range(12)]
    pairs, got, want = Pairs(), ket, ket
    for k in (0, 1):
        for qubits, matrix in zip(places, given[6 * k :]):
            pairs.add(qubits, matrix)
        pairs.touch(0b11)
    numbers = iter(pairs.numbers())
    for k in (0, 1):
        for qubits, matrix in zip(places, given[6 * k :]):
            want = applied(want, qubits, matrix)
            got = applied(got, qubits, as_matrix(*next(numbers)))
        want, got = applied(want, (0, 1), between), applied(got, (0, 1), between)
    np.testing.assert_allclose(got, want, atol=1e-13)


def test_a_matrix_that_is_not_quite_unitary_is_left_as_it_is() -> None:
    rough = su(4, seed=1).astype(np.complex64).astype(complex)
    given, pairs = [su(4, seed=0), rough, su(4, seed=2), su(4, seed=3)], Pairs()
    for matrix in given:
        pairs.add((0, 1), matrix)
    numbers = pairs.numbers()
    assert [is_pair for is_pair, _ in numbers] == [False, False, True, False]
    got = np.linalg.multi_dot([as_matrix(*own) for own in numbers[::-1]])
    np.testing.assert_allclose(got, np.linalg.multi_dot(given[::-1]), atol=1e-14)


def exchanging(seed: int) -> np.ndarray:
    """A Swap with phases, between matrices on its qubits: of the class of iSwap."""
    phases = np.exp(1j * np.random.default_rng(seed).normal(size=4))
    local = [np.kron(su(2, seed=9 * seed + k), su(2, seed=9 * seed + k + 1)) for k in (1, 3)]
    return local[0] @ np.diag(phases)[[0, 2, 1, 3]] @ local[1]


def test_exchanges_do_together_with_pairs_what_the_matrices_do() -> None:
    """Flips that rotations leave behind go out on the other qubit."""
    rng = np.random.default_rng(6)
    named = [qd.circuit.GATES["iswap"].matrix(), qd.circuit.GATES["swap"].matrix()]
    named.append(qd.circuit.GATES["fsim"].matrix(np.pi / 2, np.pi / 6))
    given = [exchanging(k) for k in range(40)] + [su(4, seed=k) for k in range(10)]
    given += [m @ np.kron(su(2, seed=k), su(2, seed=k + 50)) for k, m in enumerate(4 * named)] + named
    ket = rng.normal(size=16) + 1j * rng.normal(size=16)
    want, pairs, places = ket, Pairs(), []
    for k in rng.permutation(len(given)):
        places.append(tuple(rng.permutation(4)[:2].tolist()))
        pairs.add(places[-1], given[k].astype(complex))
        want = applied(want, places[-1], given[k])
    for exchanges, of_them in ((True, 45), (False, 0)):
        numbers, got = pairs.numbers(exchanges), ket
        assert sum(form == Form.EXCHANGE for form, _ in numbers) >= of_them
        assert sum(form == Form.WHOLE for form, _ in numbers) < 10
        for qubits, own in zip(places, numbers):
            got = applied(got, qubits, as_matrix(*own))
        np.testing.assert_allclose(got, want, atol=1e-12)


def test_what_is_handed_on_follows_qubits_that_change_places() -> None:
    """The qubits of three positions move on; matrices find the ones before them where their qubits were."""
    given = [exchanging(k) if k % 2 else su(4, seed=k) for k in range(12)]
    # As it is, and with qubits at other positions after the sixth.
    at = [2, 0, 1, 3]
    numbers = []
    for moves in (False, True):
        pairs, order = Pairs(), np.random.default_rng(9)
        for k, matrix in enumerate(given):
            if moves and k == 6:
                pairs.move({at[q]: q for q in range(3)})
            qubits = order.permutation(4)[:2].tolist()
            first, second = [at[q] for q in qubits] if moves and k >= 6 else qubits
            pairs.add((first, second), matrix)
        numbers.append(pairs.numbers(exchanges=True))
    assert sum(form != Form.WHOLE for form, _ in numbers[0]) >= 6
    for still, moved in zip(*numbers):
        assert still[0] == moved[0]
        np.testing.assert_array_equal(still[1], moved[1])


def test_most_matrices_of_a_volume_are_pairs() -> None:
    n, dtype = 16, np.dtype(np.complex64)
    circuit = qd.library.quantum_volume(n, 6, seed=3)
    (segment,) = make_plan(circuit, dtype, [tile_level(n, shape_of(dtype))]).segments
    kinds = {}
    for pairs in (False, True):
        ops = Tables(n, dtype, segment.stages, shape_of(dtype), pairs=pairs).arrays()["ops"]["kind"] & ~7
        kinds[pairs] = {name: int(np.sum(ops == OPS[name])) for name in ("dense2", "pair")}
    assert kinds[False]["pair"] == 0
    assert kinds[True]["pair"] + kinds[True]["dense2"] == kinds[False]["dense2"]
    # Those of the first and of the last layer have a side without a neighbour.
    assert kinds[True]["pair"] >= kinds[False]["dense2"] - n


def test_matrices_that_are_no_unitaries_stay_as_they_are() -> None:
    """Channels on density matrices are such, some of them singular."""
    rng = np.random.default_rng(7)
    ket = rng.normal(size=8) + 1j * rng.normal(size=8)
    reset = np.zeros((4, 4))
    reset[0, [0, 3]] = 1
    given = [su(4, seed=1), su(4, seed=2), reset, np.zeros((4, 4)), su(4, seed=3), reset + 1e-300, su(4, seed=4)]
    places = [(0, 1), (1, 2), (0, 1), (2, 0), (1, 0), (1, 2), (0, 1)]
    pairs, got, want = Pairs(), ket, ket
    for qubits, matrix in zip(places, given):
        pairs.add(qubits, matrix.astype(complex))
        want = applied(want, qubits, matrix)
    for qubits, (is_pair, own) in zip(places, pairs.numbers()):
        got = applied(got, qubits, as_matrix(is_pair, own))
    np.testing.assert_allclose(got, want, atol=1e-12)


def test_gates_near_special_ones_keep_their_digits() -> None:
    """Their rotations by less than 1e-8 were left out."""
    rng = np.random.default_rng(7)
    circuit = qd.Circuit(5)
    for k, name in enumerate([*SPECIAL, *SPECIAL]):
        for _ in range(6):
            for matrix in (su(4, seed=k), near(SPECIAL[name], 10.0 ** -rng.uniform(2, 13))):
                circuit.unitary(np.asarray(matrix, complex), rng.permutation(5)[:2].tolist())
    found = qd.simulate(circuit, device="cpu", dtype="complex128").amplitudes()
    np.testing.assert_allclose(found, reference.state(circuit), rtol=0, atol=1e-13)
