"""Pauli strings, sums and Hermitian observables, against dense matrices made by Kronecker products."""

import contextlib
import functools
import itertools
import pickle

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from qdist.circuit.errors import CircuitError
from qdist.circuit.pauli import Hermitian, PauliString, PauliSum, grouping

PAULI = {
    "I": np.eye(2),
    "X": np.array([[0, 1], [1, 0]]),
    "Y": np.array([[0, -1j], [1j, 0]]),
    "Z": np.diag([1, -1]),
}

labels = st.text("IXYZ", min_size=3, max_size=3)
coefficients = st.complex_numbers(max_magnitude=10, allow_nan=False).map(
    lambda c: complex(round(c.real, 3), round(c.imag, 3))
)
sums = st.lists(st.tuples(labels, coefficients), max_size=6)


def dense(label):
    """The matrix of a label, highest qubit first: the first factor of the Kronecker product."""
    return functools.reduce(np.kron, [PAULI[letter] for letter in label])


def dense_sum(pairs):
    return sum((c * dense(label) for label, c in pairs), np.zeros((8, 8), dtype=complex))


def random_sum(rng, num_terms, num_qubits):
    letters = rng.integers(0, 4, size=(num_terms, num_qubits))
    return PauliSum(("".join("IXYZ"[k] for k in row), c) for row, c in zip(letters, rng.normal(size=num_terms)))


class TestText:
    def test_factors_and_label_are_the_same_string(self):
        assert PauliString("X0 Y2") == PauliString("YIX") == PauliString("Y2  X0") == PauliString("IYIX")

    def test_masks_of_each_letter(self):
        string = PauliString("X0 Y1 Z2 I3")
        assert (string.x, string.z) == (0b011, 0b110)
        assert [string.letter(q) for q in range(4)] == ["X", "Y", "Z", "I"]
        assert (string.num_qubits, string.weight, string.qubits) == (3, 3, (0, 1, 2))

    @pytest.mark.parametrize("text", ["", "I", "III", "I0 I5"])
    def test_identity(self, text):
        assert PauliString(text) == PauliString()
        assert str(PauliString(text)) == "I"
        assert PauliString(text).num_qubits == 0

    @given(st.text("IXYZ", max_size=90))
    def test_text_round_trips(self, label):
        string = PauliString(label)
        assert string.label(len(label)) == label
        assert PauliString(str(string)) == string
        assert eval(repr(string)) == string

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("X0 Q1", "'Q1' at position 3"),
            ("X0 Y", "'Y' at position 3"),
            ("x0", "'x0' at position 0"),
            ("XX YZ", "'XX' at position 0"),
            ("X0 Y-1", "'Y-1' at position 3"),
            ("Z1 X٣", "at position 3"),
            ("X0 Z1 Y0", "'Y0' at position 6.*qubit 0 appears twice.*@"),
            ("X4096", "below 4096"),
            ("X99999999999999999999", "below 4096"),
            ("X" * 5000, "5000 letters"),
        ],
    )
    def test_malformed_text_is_refused_with_its_position(self, text, message):
        with pytest.raises(CircuitError, match=message):
            PauliString(text)

    @given(st.text(max_size=12))
    def test_any_text_is_read_or_refused(self, text):
        with contextlib.suppress(CircuitError):
            assert PauliString(str(PauliString(text))) == PauliString(text)

    def test_not_text_is_refused(self):
        with pytest.raises(TypeError, match="'X0 Y2'"):
            PauliString(3)

    def test_label_needs_enough_qubits(self):
        with pytest.raises(CircuitError, match="acts on qubit 2"):
            PauliString("Z2").label(2)


class TestConstruction:
    def test_dict_pairs_strings_and_sums_agree(self):
        expected = PauliSum({"Z0 Z1": -1.0, "X3": 0.5})
        assert PauliSum([("IIZZ", -1.0), (PauliString("X3"), 0.5)]) == expected
        assert PauliSum({PauliString("Z0 Z1"): -1, "XIII": 0.5}) == expected
        assert PauliSum(expected) == expected
        assert PauliSum(list(expected)) == expected
        assert PauliSum("X5") == PauliSum({"X5": 1.0}) == PauliSum(PauliString("X5"))

    def test_text_is_a_sum_as_it_is_printed(self):
        wanted = PauliSum([("Z0 Z1", 0.5), ("X2", -1.0), ("", 2.0), ("YII", 1e-3)])
        assert PauliSum("0.5*Z0 Z1 - X2 + 2 + 1e-3 YII") == wanted
        assert PauliSum(str(wanted)) == wanted
        assert PauliSum("-Z0") == PauliSum("- 1.0 * Z0") == PauliSum({"Z0": -1.0})
        assert PauliSum("3") == PauliSum({"": 3.0})
        assert PauliSum("") == PauliSum({"": 1.0})

    @given(
        st.lists(
            st.tuples(
                st.text("IXYZ", min_size=1, max_size=4),
                st.floats(-1e9, 1e9).map(lambda x: float(f"{x:.10g}")).filter(lambda x: abs(x) > 1e-300 or x == 0),
            ),
            min_size=1,
        )
    )
    def test_what_a_sum_prints_is_read_as_that_sum(self, terms):
        assert PauliSum(str(PauliSum(terms))) == PauliSum(terms)

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("0.5*Z0 Z1 -", r"'-' is no term of a sum of Pauli strings; write it as 0\.5\*Z0 Z1 - X2"),
            ("Z0 + Q1", r"'\+ Q1' is no term"),
            ("1j * Z0", r"'j \* Z0' is no term"),
            ("0.5.5*Z0", r"'0\.5\.5' in a sum of Pauli strings is no number"),
            ("1e999*Z0", "finite"),
            ("Z0 * Z1", r"'\* Z1' is no term"),
            ("2 * Z0 Z0", "qubit 0 appears twice"),
        ],
    )
    def test_text_that_is_no_sum_is_refused_with_the_place(self, text, message):
        with pytest.raises(CircuitError, match=message):
            PauliSum(text)

    def test_masks(self):
        expected = PauliSum({"X0 Y1": 2.0, "Z1": -1})
        assert PauliSum.from_masks([0b11, 0], [0b10, 0b10], [2.0, -1]) == expected
        assert PauliSum.from_masks(expected.x, expected.z, expected.coefficients) == expected
        assert PauliSum.from_masks([1 << 80], [0], [1.0]) == PauliSum("X80")

    @given(
        st.lists(st.tuples(*2 * [st.integers(0, 62) | st.integers(62, 65) | st.integers(0, 200)]), max_size=5),
        st.sampled_from([list, tuple, lambda masks: np.array(masks, dtype=object)]),
    )
    @example([(0, 1), (63, 63)], list)
    @example([(63, 63), (63, 63)], list)
    def test_masks_are_integers_of_any_size(self, bits, kind):
        expected = PauliSum([(PauliString.from_masks(1 << x | 1, 1 << z), k + 1.0) for k, (x, z) in enumerate(bits)])
        x, z = kind([1 << x | 1 for x, _ in bits]), kind([1 << z for _, z in bits])
        assert PauliSum.from_masks(x, z, np.arange(1.0, len(bits) + 1)) == expected

    def test_lists_of_words_may_be_large(self):
        expected = PauliSum({"X0 X1 X64": 1.0, "X63 X127": 1.0})
        assert PauliSum.from_masks([[3, 1], [1 << 63, 1 << 63]], [[0, 0], [0, 0]], [1, 1]) == expected

    @pytest.mark.parametrize(
        "masks", [[1.0], [1.0, 1 << 63], [1.5, 1 << 80], ["1"], [[[1]]], 1, np.array([1.0]), [None]]
    )
    def test_masks_that_are_no_integers_are_refused(self, masks):
        with pytest.raises(TypeError, match="masks must be integers"):
            PauliSum.from_masks(masks, [0], [1.0])

    def test_arrays_cannot_be_changed_from_outside(self):
        own = np.array([1.0, 2.0])
        h = PauliSum.from_masks([1, 2], [0, 0], own)
        own[0] = 5
        assert h.coefficients[0] == 1
        for array in (h.x, h.z, h.coefficients, pickle.loads(pickle.dumps(h)).coefficients):
            with pytest.raises(ValueError, match="read-only"):
                array[0] = 0

    def test_empty_sum_is_zero(self):
        zero = PauliSum()
        assert (len(zero), zero.num_qubits, str(zero)) == (0, 0, "0")
        assert zero == PauliSum("X0") - PauliString("X0")
        assert np.array_equal((zero @ PauliSum("X0")).to_matrix(1), np.zeros((2, 2)))
        assert zero.group_qubit_wise_commuting() == zero.group_by_flips() == []
        assert zero.is_hermitian()
        assert zero.simplify() == zero.relabel([]) == zero

    @pytest.mark.parametrize("value", [float("nan"), float("inf"), complex(0, float("nan"))])
    def test_coefficients_must_be_finite(self, value):
        with pytest.raises(CircuitError, match=r"'X0 Z1' is .*finite"):
            PauliSum({"Y0": 1.0, "X0 Z1": value})
        with pytest.raises(CircuitError, match=r"number 1 is .*finite"):
            PauliSum.from_masks([0, 1], [0, 0], [1.0, value])
        with pytest.raises(CircuitError, match="finite"):
            PauliSum("X0") * value

    @pytest.mark.parametrize("terms", [["X0"], [("X0", 1, 2)], [3], {"X0": "1"}, {"X0": None}])
    def test_wrong_types_are_refused(self, terms):
        with pytest.raises(TypeError):
            PauliSum(terms)

    def test_masks_of_different_lengths_are_refused(self):
        with pytest.raises(CircuitError, match="equally long"):
            PauliSum.from_masks([1, 2], [0], [1.0, 2.0])
        for mask in (-1, -1 << 70):
            for others in ([], [1 << 63], [1 << 80]):
                with pytest.raises(CircuitError, match="negative"):
                    PauliSum.from_masks([mask, *others], [0] * (1 + len(others)), [1.0] * (1 + len(others)))
        with pytest.raises(CircuitError, match="64 bits"):
            PauliSum.from_masks([[0, 1 << 64]], [[0, 0]], [1.0])


class TestAlgebra:
    @given(labels, labels)
    def test_string_product_and_commutation(self, a, b):
        p, q = PauliString(a), PauliString(b)
        product = dense(a) @ dense(b)
        assert np.array_equal((p @ q).to_matrix(3), product)
        assert p.commutes_with(q) == np.array_equal(product, dense(b) @ dense(a))
        same_letters = all(x == y or "I" in (x, y) for x, y in zip(a, b))
        assert p.commutes_qubit_wise_with(q) == same_letters
        assert np.array_equal(p.to_matrix(3), dense(a))

    @given(sums, sums, coefficients)
    def test_sums_products_and_multiples(self, a, b, c):
        p, q, m, n = PauliSum(a), PauliSum(b), dense_sum(a), dense_sum(b)
        for ours, expected in [
            (p, m),
            (p + q, m + n),
            (p - q, m - n),
            (-p, -m),
            (c * p, c * m),
            (p * 2, 2 * m),
            (p / 4, m / 4),
            (p + c, m + c * np.eye(8)),
            (1 - p, np.eye(8) - m),
            (p @ q, m @ n),
            (p.adjoint(), m.conj().T),
            (p.commutator(q), m @ n - n @ m),
            (p.simplify(), m),
        ]:
            assert np.allclose(ours.to_matrix(3), expected, rtol=0, atol=1e-9)
        assert p.commutes_with(q) == np.allclose(m @ n, n @ m, rtol=0, atol=1e-9)

    @given(sums)
    def test_simplified_sums_have_distinct_strings_and_no_zeros(self, pairs):
        simple = PauliSum(pairs).simplify()
        strings = [string for string, _ in simple]
        assert len(set(strings)) == len(strings)
        assert np.all(simple.coefficients != 0)
        order = list(dict.fromkeys(PauliString(label) for label, _ in pairs))
        assert [s for s in order if s in strings] == strings

    @given(sums)
    def test_hermitian_exactly_if_the_matrix_is(self, pairs):
        matrix = dense_sum(pairs)
        assert PauliSum(pairs).is_hermitian() == np.allclose(matrix, matrix.conj().T, rtol=0, atol=1e-10)

    def test_simplify_drops_relative_to_the_largest_coefficient(self):
        h = PauliSum({"X0": 1e-20, "Z0": 3e-20, "Y0": 1e-34})
        assert [str(s) for s, _ in h.simplify()] == ["X0", "Z0"]
        assert len(h.simplify(0.5)) == 1

    def test_equality_is_of_operators(self):
        assert PauliSum([("X0", 1), ("Z0", 2), ("X0", 3)]) == PauliSum({"Z0": 2, "X0": 4})
        assert PauliSum("X0") != PauliSum("X1")
        assert PauliSum("X0") != "X0"
        near = PauliSum({"X0": 1 + 1e-12})
        assert near != PauliSum("X0")
        assert near.allclose(PauliSum("X0"))
        assert not near.allclose(PauliSum("X0"), tolerance=1e-13)

    def test_numpy_adds_operators_and_not_their_terms_and_coefficients(self):
        rng = np.random.default_rng(3)
        parts = [random_sum(rng, 2, 3) for _ in range(3)]
        weights = np.array([0.5, -1.0, 2.0])
        matrices = [part.to_matrix(3) for part in parts]
        array = np.array(parts)
        assert array.shape == (3,)
        assert array[1] is parts[1]
        np.testing.assert_allclose(np.sum(parts).to_matrix(3), sum(matrices), atol=1e-12)
        np.testing.assert_allclose((weights @ array).to_matrix(3), np.tensordot(weights, matrices, 1), atol=1e-12)
        assert np.sum([PauliString("X0"), PauliSum("Z1")]) == PauliSum({"X0": 1, "Z1": 1})
        with pytest.raises(TypeError):
            np.asarray(parts[0], dtype=complex)

    def test_arrays_without_axes_count_as_numbers(self):
        half, total = np.array(0.5), PauliSum({"X0": 1, "": 0.5})
        assert half * total == total * half == total / np.array(2.0) == PauliSum({"X0": 0.5, "": 0.25})
        assert half + PauliString("X0") == PauliString("X0") - -half == total
        with pytest.raises(TypeError):
            np.array([0.5, 1]) * total

    def test_numpy_scalars_multiply_from_either_side(self):
        h = PauliSum({"X0": 2.0})
        for scalar in (np.float64(0.5), np.float32(0.5), np.complex128(0.5), 0.5, True * 0.5):
            assert scalar * h == h * scalar == PauliSum("X0")
        assert np.float64(1) + PauliString("X0") == PauliSum({"": 1, "X0": 1})

    def test_sum_builtin(self):
        assert sum(PauliString(f"Z{q}") for q in range(3)) - 0 == PauliSum({"Z0": 1, "Z1": 1, "Z2": 1})

    def test_star_between_operators_points_to_at(self):
        with pytest.raises(TypeError, match="@"):
            PauliSum("X0") * PauliSum("Z0")
        with pytest.raises(TypeError):
            PauliSum("X0") + "Z0"

    def test_indexing_and_iteration(self):
        h = PauliSum({"X0": 1, "Y1": 2, "Z2": 3})
        assert h[1] == (PauliString("Y1"), 2)
        assert h[-1] == (PauliString("Z2"), 3)
        assert h[:2] == PauliSum({"X0": 1, "Y1": 2})
        assert h[h.coefficients.real > 1.5] == PauliSum({"Y1": 2, "Z2": 3})
        assert [c for _, c in h] == [1, 2, 3]
        with pytest.raises(IndexError):
            h[3]

    @given(sums, st.permutations(range(3)))
    def test_relabel_moves_qubits(self, pairs, qubits):
        moved = PauliSum(pairs).relabel(qubits)
        expected = PauliSum(
            (" ".join(f"{letter}{qubits[2 - i]}" for i, letter in enumerate(label)), c) for label, c in pairs
        )
        assert moved == expected

    def test_relabel_refuses_bad_qubits(self):
        with pytest.raises(CircuitError, match="different"):
            PauliSum("X0 Z1").relabel([4, 4])
        with pytest.raises(CircuitError, match="1 qubits were given for a sum on 2"):
            PauliSum("X0 Z1").relabel([4])

    @pytest.mark.parametrize(
        "qubits", [{0: 3, 1: 2}, {3, 2}, [1.9, 0], [1.0, 0], np.array([1.0, 0]), ["1", "0"], "10", 2]
    )
    def test_qubits_are_a_list_of_integers(self, qubits):
        takes = [
            PauliSum("X0 Z1").relabel,
            PauliString("X0 Z1").relabel,
            lambda given: Hermitian(np.eye(4), given),
            lambda given: PauliSum.from_matrix(np.eye(4), given),
        ]
        for take in takes:
            with pytest.raises(TypeError, match="qubits must be a list"):
                take(qubits)

    def test_numpy_integers_are_qubits(self):
        for qubits in (np.array([3, 2]), [np.int8(3), np.uint64(2)], range(3, 1, -1)):
            assert PauliSum("X0 Z1").relabel(qubits) == PauliSum("Z2 X3")
            assert Hermitian(np.eye(4), qubits).qubits == (3, 2)

    def test_text(self):
        h = PauliSum({"Z0 Z1": -1.0, "X3": -0.5, "": 2, "Y1": 1j, "Y2": 1 + 2j})
        assert str(h) == "-1 * Z0 Z1 - 0.5 * X3 + 2 * I + 1j * Y1 + (1+2j) * Y2"
        assert eval(repr(h)) == h
        assert eval(repr(h[:1] + h[:1])) == 2 * h[:1]
        third = PauliSum({"X0": 1 / 3, "Y0": 0.1 + 0.7j})
        assert eval(repr(third)) == third
        assert repr(random_sum(np.random.default_rng(0), 9, 20)) == "<PauliSum of 9 terms on 20 qubits>"

    @given(sums)
    def test_pickle(self, pairs):
        h = PauliSum(pairs)
        assert pickle.loads(pickle.dumps(h)) == h
        for string, _ in h:
            assert pickle.loads(pickle.dumps(string)) == string


class TestManyQubits:
    def test_seventy_qubits(self):
        a = PauliSum({"X0 Y69": 2.0, "Z64": 1.0})
        b = PauliSum({"Z69": 3.0, "X64 X63": 1.0, "Y1": 5})
        assert a.num_qubits == 70
        assert a @ b == PauliSum(
            {
                "X0 X69": 6j,
                "X0 Y69 X64 X63": 2,
                "X0 Y69 Y1": 10,
                "Z64 Z69": 3,
                "Y64 X63": 1j,
                "Z64 Y1": 5,
            }
        )
        assert a.commutator(b) == PauliSum({"X0 X69": 12j, "Y64 X63": 2j})
        assert [string for string, _ in a] == [PauliString("X0 Y69"), PauliString("Z64")]

    def test_one_and_two_words_mix(self):
        mixed = PauliSum("X3") + PauliSum("Z70")
        assert mixed == PauliSum({"Z70": 1, "X3": 1})
        assert mixed.relabel([*range(5, 75), 4]) == PauliSum({"Z4": 1, "X8": 1})
        assert PauliSum("Y3").relabel([0, 1, 2, 130]) == PauliSum("Y130")

    @given(st.lists(st.text("IXYZ", min_size=100, max_size=100), min_size=1, max_size=4))
    def test_wide_products_equal_products_of_halves(self, wide):
        """Letters on different qubits multiply independently, so wide phases are products of narrow ones."""
        for a, b in itertools.product(wide, repeat=2):
            (string, phase), *_ = PauliString(a) @ PauliString(b)
            halves = [(PauliString(a[s]) @ PauliString(b[s]))[0] for s in (slice(50), slice(50, 100))]
            assert phase == halves[0][1] * halves[1][1]
            assert string.label(100) == halves[0][0].label(50) + halves[1][0].label(50)

    def test_groups_of_wide_strings(self):
        h = PauliSum({"X0 Z99": 1, "X0": 2, "Z0 Z99": 3, "Y70": 4})
        groups = h.group_qubit_wise_commuting()
        assert [len(g) for g in groups] == [2, 2]
        assert sum(groups[1:], groups[0]) == h
        assert [len(g) for g in h.group_by_flips()] == [1, 2, 1]


class TestMatrices:
    @given(st.integers(0, 2**32 - 1), st.integers(0, 4))
    def test_from_matrix_inverts_to_matrix(self, seed, num_qubits):
        rng = np.random.default_rng(seed)
        shape = (2**num_qubits, 2**num_qubits)
        matrix = rng.normal(size=shape) + 1j * rng.normal(size=shape)
        assert np.allclose(PauliSum.from_matrix(matrix).to_matrix(num_qubits), matrix, rtol=0, atol=1e-12)
        hermitian = PauliSum.from_matrix(matrix + matrix.conj().T)
        assert not hermitian.coefficients.imag.any()

    def test_from_matrix_finds_the_strings_and_leaves_out_zeros(self):
        h = PauliSum({"XIYZ": 0.25, "ZZII": -2.0, "IIII": 1.0})
        assert PauliSum.from_matrix(h.to_matrix()).allclose(h)
        assert len(PauliSum.from_matrix(h.to_matrix())) == 3
        assert len(PauliSum.from_matrix(np.zeros((4, 4)))) == 0

    def test_from_matrix_on_given_qubits(self):
        matrix = np.kron(PAULI["Z"], PAULI["X"])
        assert PauliSum.from_matrix(matrix, [4, 1]) == PauliSum("X4 Z1")

    @pytest.mark.parametrize("shape", [(3, 3), (2, 4), (4,)])
    def test_from_matrix_refuses_wrong_shapes(self, shape):
        with pytest.raises(CircuitError, match="power of two"):
            PauliSum.from_matrix(np.zeros(shape))

    def test_from_matrix_refuses_nan(self):
        with pytest.raises(CircuitError, match="not finite"):
            PauliSum.from_matrix([[np.nan, 0], [0, 1]])

    def test_dense_matrices_have_a_limit(self):
        with pytest.raises(CircuitError, match="64 GiB"):
            PauliSum("Z15").to_matrix()
        with pytest.raises(CircuitError, match="too few"):
            PauliSum("Z3").to_matrix(2)


class TestGrouping:
    @pytest.mark.parametrize(("num_terms", "num_qubits"), [(300, 4), (3000, 8), (60, 1)])
    def test_qubit_wise_groups_commute_and_cover(self, num_terms, num_qubits):
        h = random_sum(np.random.default_rng(num_terms), num_terms, num_qubits)
        groups = h.group_qubit_wise_commuting()
        assert sum(map(len, groups)) == num_terms
        assert sum(groups, PauliSum()).allclose(h)
        for group in groups:
            basis = group.measurement_basis()
            for string, _ in group:
                assert string.commutes_qubit_wise_with(basis)

    def test_greedy_takes_the_first_group_that_fits(self, monkeypatch):
        """Against the plain quadratic form of first fit, with the short table merged many times."""
        monkeypatch.setattr(grouping, "_BLOCK", 16)
        h = random_sum(np.random.default_rng(5), 1000, 6).simplify()
        order = np.argsort(-np.abs(h.coefficients), kind="stable")
        expected: list[list[PauliString]] = []
        bases: list[PauliString] = []
        for string in (h[int(k)][0] for k in order):
            for k, basis in enumerate(bases):
                if string.commutes_qubit_wise_with(basis):
                    expected[k].append(string)
                    bases[k] = PauliString.from_masks(basis.x | string.x, basis.z | string.z)
                    break
            else:
                expected.append([string])
                bases.append(string)
        assert len(bases) > 64
        assert [[s for s, _ in group] for group in h.group_qubit_wise_commuting()] == expected

    def test_measurement_basis_refuses_mixed_letters(self):
        with pytest.raises(CircuitError, match="group_qubit_wise_commuting"):
            PauliSum({"X0": 1, "Z0": 1}).measurement_basis()

    def test_flip_groups_share_their_mask_and_cover(self):
        h = random_sum(np.random.default_rng(2), 500, 5)
        groups = h.group_by_flips()
        flips = [int(group.x[0, 0]) for group in groups]
        assert flips == sorted(set(h.x[:, 0].tolist()))
        assert all((group.x == group.x[0]).all() for group in groups)
        assert sum(groups, PauliSum()).allclose(h)

    def test_hundred_thousand_terms(self):
        """Not timed, but a quadratic algorithm anywhere here would not come back."""
        rng = np.random.default_rng(0)
        x, z = rng.integers(0, 1 << 40, size=(2, 100_000), dtype=np.uint64)
        keep = rng.integers(0, 1 << 40, size=(3, 100_000), dtype=np.uint64)
        few = keep[0] & keep[1] & keep[2]
        h = PauliSum.from_masks(x & few, z & few, rng.normal(size=100_000))
        assert PauliSum(dict(h.simplify(0))) == h
        assert not len((h - h).simplify())
        assert (h @ PauliSum({"X0": 1, "Z39": 1})).num_qubits == 40
        assert sum(map(len, h.group_by_flips())) == 100_000
        assert sum(map(len, h.group_qubit_wise_commuting())) == 100_000


class TestHermitian:
    def test_decomposes_on_its_qubits(self):
        observable = Hermitian(np.kron(PAULI["Z"], PAULI["X"]), [4, 1])
        assert observable.to_pauli_sum() == PauliSum("X4 Z1")
        assert observable.num_qubits == 5
        assert np.array_equal(observable.to_matrix(5), PauliSum("X4 Z1").to_matrix(5))

    def test_equality_pickle_and_text(self):
        observable = Hermitian([[1, 1j], [-1j, 2]], [0])
        assert pickle.loads(pickle.dumps(observable)) == observable
        assert observable != Hermitian([[1, 1j], [-1j, 2]], [1])
        assert repr(observable).startswith("Hermitian([[")
        with pytest.raises(ValueError, match="read-only"):
            observable.matrix[0, 0] = 3

    @pytest.mark.parametrize(
        ("matrix", "qubits", "message"),
        [
            ([[0, 1], [0, 0]], [0], "must be Hermitian"),
            ([[0, 1j], [1j, 0]], [0], "must be Hermitian"),
            (np.eye(4), [0], "2 by 2"),
            (np.eye(4), [1, 1], "different"),
            (np.eye(2), [-1], "not negative"),
            ([[np.nan, 0], [0, 0]], [0], "finite"),
        ],
    )
    def test_wrong_observables_are_refused(self, matrix, qubits, message):
        with pytest.raises(CircuitError, match=message):
            Hermitian(matrix, qubits)


class QubitOperator:
    """The part of OpenFermion's QubitOperator that the conversion uses."""

    def __init__(self, term=None, coefficient=1.0):
        self.terms = {} if term is None else {term: coefficient}

    def __iadd__(self, other):
        for term, coefficient in other.terms.items():
            self.terms[term] = self.terms.get(term, 0) + coefficient
        return self


class TestConversions:
    def test_openfermion(self):
        operator = QubitOperator()
        operator.terms = {((0, "X"), (2, "Y")): 0.5, (): -1, ((70, "Z"),): 2j}
        h = PauliSum.from_openfermion(operator)
        assert h == PauliSum({"X0 Y2": 0.5, "": -1, "Z70": 2j})
        assert h.to_openfermion(QubitOperator).terms == operator.terms

    @pytest.mark.parametrize("num_qubits", [1, 3, 8, 9, 70])
    def test_qiskit_round_trip(self, num_qubits):
        SparsePauliOp = pytest.importorskip("qiskit.quantum_info").SparsePauliOp
        h = random_sum(np.random.default_rng(num_qubits), 12, num_qubits).simplify()
        operator = h.to_qiskit(SparsePauliOp, num_qubits)
        assert isinstance(operator, SparsePauliOp)
        assert operator.num_qubits == num_qubits
        assert PauliSum.from_qiskit(operator) == h
        if num_qubits < 10:
            assert np.allclose(operator.to_matrix(), h.to_matrix(num_qubits), rtol=0, atol=1e-12)

    def test_qiskit_algebra_agrees(self):
        SparsePauliOp = pytest.importorskip("qiskit.quantum_info").SparsePauliOp
        rng = np.random.default_rng(11)
        a, b = random_sum(rng, 10, 6), random_sum(rng, 10, 6)
        product = a.to_qiskit(SparsePauliOp, 6) @ b.to_qiskit(SparsePauliOp, 6)
        assert PauliSum.from_qiskit(product).allclose(a @ b)

    def test_qiskit_phases_are_kept(self):
        info = pytest.importorskip("qiskit.quantum_info")
        operator = info.SparsePauliOp(info.PauliList(["-iXY", "iZZ"]), [2, 3])
        assert PauliSum.from_qiskit(operator) == PauliSum({"XY": -2j, "ZZ": 3j})

    def test_qiskit_zero_and_identity(self):
        SparsePauliOp = pytest.importorskip("qiskit.quantum_info").SparsePauliOp
        assert np.array_equal(PauliSum({"": 2}).to_qiskit(SparsePauliOp, 2).to_matrix(), 2 * np.eye(4))
        assert not PauliSum.from_qiskit(PauliSum().to_qiskit(SparsePauliOp, 2)).simplify(0).num_qubits


@pytest.mark.parametrize(
    ("make", "error", "text"),
    [
        (lambda: PauliSum(5), TypeError, "not of int$"),
        (lambda: PauliSum(None), TypeError, "not of NoneType$"),
        (lambda: PauliSum({"Z0": None}), TypeError, r"coefficients must be numbers, got \[None\]"),
        (lambda: PauliSum.from_matrix("ZZ"), CircuitError, "an array of numbers; got 'ZZ'"),
        (lambda: PauliSum.from_matrix(np.eye(2), [1, 2]), CircuitError, r"acts on 1 qubits; 2 were given: \[1, 2\]"),
        (lambda: PauliSum.from_matrix(np.diag([1, -1, 1, -1]), [3]), CircuitError, "acts on 2 qubits; 1 were given"),
        (lambda: PauliSum.from_matrix(np.eye(2), []), CircuitError, "acts on 1 qubits; 0 were given"),
        (lambda: Hermitian("Z", [0]), CircuitError, "an array of numbers; got 'Z'"),
        (lambda: PauliSum("Z0").to_matrix("2"), CircuitError, "number of qubits must be an int; got '2'"),
        (lambda: PauliSum("Z0").to_matrix(2.5), CircuitError, "number of qubits must be an int; got 2.5"),
        (lambda: PauliString("Z0").label(2.5), CircuitError, "number of qubits must be an int; got 2.5"),
        (lambda: PauliSum("Z0").allclose("Z0"), TypeError, "is compared with another, .* not with 'Z0'"),
        (lambda: PauliSum("Z0").allclose(np.eye(2)), TypeError, "is compared with another"),
        (lambda: PauliSum.from_qiskit("ZZ"), TypeError, "takes a SparsePauliOp, not str"),
        (lambda: PauliSum("Z0").commutator("X0"), TypeError, "not of 'X0'"),
        (lambda: PauliString("Z0").commutes_with("X0"), TypeError, "not of 'X0'"),
    ],
)
def test_what_is_no_operator_is_named(make, error, text):
    with pytest.raises(error, match=text):
        make()


def test_operators_of_other_libraries_are_refused_with_the_way_to_convert_them():
    info = pytest.importorskip("qiskit.quantum_info")
    with pytest.raises(TypeError, match=r"PauliSum\.from_qiskit\(operator\)"):
        PauliSum(info.SparsePauliOp("ZX"))
    with pytest.raises(TypeError, match="not Pauli; SparsePauliOp"):
        PauliSum.from_qiskit(info.Pauli("ZX"))
    qml = pytest.importorskip("pennylane")
    operator = qml.Z(0) @ qml.X(2) + 0.5 * qml.Y(1)
    with pytest.raises(TypeError, match=r"PauliSum\.from_matrix\(qml\.matrix\(operator\), list\(operator\.wires\)"):
        PauliSum(operator)
    converted = PauliSum.from_matrix(qml.matrix(operator), list(operator.wires)[::-1])
    assert converted.allclose(PauliSum({"Z0 X2": 1.0, "Y1": 0.5}))
