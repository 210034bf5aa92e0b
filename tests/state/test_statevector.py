"""StateVector: making one, its amplitudes, norms and inner products."""

import copy
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from states import DTYPES, TOLERANCE, address, random_ket, random_layout

import qdist as qd
from qdist.backends import on_host
from qdist.backends.errors import StateError
from qdist.comm import counting_communicator
from qdist.plan import Layout
from qdist.state.statevector import StateVector

SIZES = [1, 2, 3, 4, 7, 11, 14]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", SIZES)
def test_starts_in_all_zeros(n: int, dtype: str) -> None:
    sv = StateVector(n, dtype)
    assert (sv.num_qubits, sv.dtype, sv.layout, sv.comm.size) == (n, dtype, Layout.identity(n), 1)
    assert sv.local.shape == (1 << n,)
    assert address(sv.local) % 64 == 0
    assert sv.local[0] == 1
    assert np.count_nonzero(on_host(sv.local)) == 1
    assert StateVector(n).dtype == np.complex64


def test_local_is_the_memory_itself() -> None:
    sv = StateVector(3)
    sv.local[:] = 0
    sv.local[5] = 1j
    assert sv.amplitude(5) == 1j
    assert address(sv.local) == address(sv.local[:1])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", SIZES)
def test_amplitudes_come_back_in_logical_order_whatever_the_layout(n: int, dtype: str) -> None:
    ket = random_ket(n).astype(dtype)
    for layout in (Layout.identity(n), random_layout(n)):
        sv = StateVector.from_amplitudes(ket, layout=layout)
        assert sv.amplitudes().dtype == dtype
        assert np.array_equal(sv.amplitudes(), ket)
        assert sv.local[layout.to_physical(1)] == ket[1]
        chosen = np.array([[0, (1 << n) - 1], [1, 1]])
        assert sv.amplitudes(chosen).dtype == dtype
        assert np.array_equal(sv.amplitudes(chosen), ket[chosen])
        assert sv.amplitude(1) == ket[1] == sv.amplitude("1".zfill(n))
    assert sv.amplitudes([]).shape == (0,)
    sv.amplitudes()[:] = 0
    assert np.array_equal(sv.amplitudes(), ket)


@pytest.mark.parametrize(
    ("given_dtype", "dtype"),
    [
        (np.complex64, "complex64"),
        (np.float32, "complex64"),
        (np.complex128, "complex128"),
        (np.float64, "complex128"),
        (np.int64, "complex128"),
    ],
)
def test_from_amplitudes_keeps_the_precision_it_is_given(given_dtype: type, dtype: str) -> None:
    assert StateVector.from_amplitudes(np.array([1, 0], given_dtype)).dtype == dtype
    for asked in DTYPES:
        assert StateVector.from_amplitudes(np.array([1, 0], given_dtype), asked).dtype == asked


@given(st.integers(1, 9).flatmap(lambda n: st.tuples(st.integers(0, 2**n - 1), st.permutations(range(n)))))
def test_basis_states_by_index_and_by_bit_string(case: tuple[int, list[int]]) -> None:
    index, positions = case
    n = len(positions)
    expected = np.eye(1 << n)[index]
    for name in (index, f"{index:0{n}b}"):
        assert np.array_equal(StateVector.basis(n, name, layout=Layout(positions)).amplitudes(), expected)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", [1, 2, 5, 9])
def test_product_is_the_kronecker_product_with_qubit_0_lowest(n: int, dtype: str) -> None:
    rng = np.random.default_rng(n)
    factors = rng.normal(size=(n, 2)) + 1j * rng.normal(size=(n, 2))
    expected = np.ones(1)
    for factor in factors:
        expected = np.kron(factor, expected)
    for layout in (None, random_layout(n)):
        sv = StateVector.product(factors, dtype, layout=layout)
        assert sv.dtype == dtype
        np.testing.assert_allclose(sv.amplitudes(), expected, rtol=1e-5 if dtype == "complex64" else 1e-13)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", SIZES)
def test_norms_and_inner_products(n: int, dtype: str, threads: int) -> None:
    tolerance = TOLERANCE[dtype]
    a, b = 3 * random_ket(n, 1), random_ket(n, 2)
    ket, bra = random_layout(n, 3), random_layout(n, 4)
    expected = np.vdot(a, b)
    for left, right in [(None, None), (ket, ket), (ket, bra), (None, bra)]:
        x, y = StateVector.from_amplitudes(a, dtype, layout=left), StateVector.from_amplitudes(b, dtype, layout=right)
        assert abs(x.inner(y) - expected) < tolerance
        assert abs(x.fidelity(y) - abs(expected) ** 2) < tolerance
        assert abs(x.norm() - 3) < tolerance
        assert x.normalize() is x
        assert abs(x.norm() - 1) < tolerance
        assert x.dtype == dtype
        np.testing.assert_allclose(x.amplitudes(), a / 3, atol=tolerance)


def test_a_copy_is_a_state_of_its_own() -> None:
    sv = StateVector.from_amplitudes(random_ket(4), layout=random_layout(4))
    again = sv.copy()
    assert np.array_equal(again.amplitudes(), sv.amplitudes())
    again.collapse(0, 1)
    assert abs(sv.norm() - 1) < 1e-12
    assert abs(sv.amplitude(0)) > 0 == again.amplitude(0)


def test_copies_and_pickles_keep_device_and_classical_bits() -> None:
    circuit = qd.Circuit(3, 2).x(2).x(0).measure(2, 0).cx(0, 1)
    states = [qd.simulate(circuit.measure(1, 1)), StateVector(2, "complex128", device="cpu"), StateVector(2).like()]
    for state in states:
        for again in (state.copy(), copy.deepcopy(state), pickle.loads(pickle.dumps(state))):
            assert (again.device, again.dtype, again.readout) == (state.device, state.dtype, state.readout)
            np.testing.assert_array_equal(again.amplitudes(), state.amplitudes())
    assert pickle.loads(pickle.dumps(states[0])).counts(5) == {"11": 5}


def test_the_layout_can_be_told_after_amplitudes_were_moved() -> None:
    sv = StateVector.basis(3, "001")
    sv.layout = Layout([2, 1, 0])
    assert sv.amplitude("100") == 1
    with pytest.raises(StateError, match="layout is one of 2 qubits; the state has 3"):
        sv.layout = Layout.identity(2)


def test_repr() -> None:
    assert repr(StateVector(3)) == f"<StateVector of 3 qubits, complex64, {StateVector(3).device}, 64 B>"
    assert repr(StateVector(1)) == f"<StateVector of 1 qubit, complex64, {StateVector(1).device}, 16 B>"
    state = StateVector(2, "complex128", layout=Layout([1, 0]))
    assert repr(state) == f"<StateVector of 2 qubits, complex128, {state.device}, 64 B, Layout([1, 0])>"
    assert repr(StateVector(5, comm=counting_communicator(4))).startswith(
        "<StateVector of 5 qubits, complex64, on 4 ranks, "
    )


@pytest.mark.parametrize(("ranks", "lengths"), [(1, [32]), (2, [16, 16]), (3, [8, 8, 16]), (8, [4] * 8)])
def test_ranks_hold_contiguous_runs_of_shards(ranks: int, lengths: list[int]) -> None:
    first = 0
    for rank, length in enumerate(lengths):
        sv = StateVector(5, comm=counting_communicator(ranks, rank))
        assert len(sv.local) == length
        assert [place for place, _ in sv.shards()] == list(range(first, first + length, 1 << sv.shard_bits))
        assert sv.local.any() == (rank == 0)
        first += length


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: StateVector(0), "must be an int from 1 to 62; got 0"),
        (lambda: StateVector(63), "got 63"),
        (lambda: StateVector(2.5), "got 2.5"),  # type: ignore[arg-type]
        (lambda: StateVector(2, "float32"), "'complex64' or 'complex128'; got 'float32'"),
        (lambda: StateVector(2, "spam"), "got 'spam'"),
        (lambda: StateVector(2, layout=Layout.identity(3)), "layout is one of 3 qubits; the state has 2"),
        (lambda: StateVector(1, comm=counting_communicator(4)), "too few for 4 ranks: ranks 2 to 3 would hold nothing"),
        (lambda: StateVector.from_amplitudes([1, 0, 0]), "power of two of at least 2; got 3"),
        (lambda: StateVector.from_amplitudes([1]), "got 1"),
        (lambda: StateVector.from_amplitudes([[1, 0]]), r"shape \(1, 2\)"),
        (lambda: StateVector.from_amplitudes(["1", "0"]), "must be numbers"),
        (lambda: StateVector.from_amplitudes([1, np.nan]), "must be finite: amplitude 1 is nan"),
        (lambda: StateVector.from_amplitudes([np.inf, 0]), "must be finite: amplitude 0 is inf"),
        (lambda: StateVector.from_amplitudes([1e200, 0]), "must be finite: their squares overflow"),
        (lambda: StateVector.from_amplitudes([0, 0]), "must not all be zero"),
        (lambda: StateVector.basis(2, 4), "index from 0 to 3 or a bit string; got 4"),
        (lambda: StateVector.basis(2, "012"), "2 characters 0 or 1; got '012'"),
        (lambda: StateVector.basis(2, "0x"), "got '0x'"),
        (lambda: StateVector.product([1, 0]), r"shape \(n, 2\); got shape \(2,\)"),
        (lambda: StateVector.product([[1, 0], [0, 0]]), "that of qubit 1 is"),
        (lambda: StateVector(2).amplitude(4), "got 4"),
        (lambda: StateVector(2).amplitudes([0, -1]), "index -1 is out of range"),
        (lambda: StateVector(2).amplitudes([0.5]), "must be integers"),
        (lambda: StateVector(2).inner(StateVector(3)), "needs two states of one size and dtype"),
        (lambda: StateVector(2).inner(StateVector(2, "complex128")), "needs two states of one size and dtype"),
    ],
)
def test_refuses_what_cannot_be_right(make, message: str) -> None:
    with pytest.raises(StateError, match=message):
        make()


def test_a_zero_vector_cannot_be_normalised() -> None:
    sv = StateVector(2)
    sv.local[:] = 0
    with pytest.raises(StateError, match="norm 0 cannot be normalised"):
        sv.normalize()
