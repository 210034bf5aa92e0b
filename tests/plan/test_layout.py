"""Layout: a permutation of bits, there and back."""

import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from qdist.plan import Layout

permutations = st.integers(0, 12).flatmap(lambda n: st.permutations(range(n)))


@given(permutations)
def test_positions_and_qubits_are_inverse(positions: list[int]) -> None:
    layout = Layout(positions)
    assert layout.num_qubits == len(positions)
    assert [layout.positions[q] for q in layout.qubits] == list(range(len(positions)))
    assert layout.inverse().inverse() == layout
    assert layout.inverse().positions == layout.qubits


@given(permutations.filter(len), st.data())
def test_bit_q_goes_to_its_position_and_back(positions: list[int], data: st.DataObject) -> None:
    layout = Layout(positions)
    index = data.draw(st.integers(0, 2 ** len(positions) - 1))
    physical = layout.to_physical(index)
    assert all(physical >> position & 1 == index >> qubit & 1 for qubit, position in enumerate(positions))
    assert layout.to_logical(physical) == index


@pytest.mark.parametrize("dtype", [np.int64, np.uint64])
def test_arrays_move_as_their_elements_and_keep_their_dtype(dtype: type) -> None:
    layout = Layout([2, 0, 3, 1])
    index = np.arange(16, dtype=dtype)
    physical = layout.to_physical(index)
    assert physical.dtype == dtype
    assert physical.tolist() == [layout.to_physical(i) for i in range(16)]
    assert np.array_equal(layout.to_logical(physical), index)
    assert np.array_equal(index, np.arange(16))


def test_swap_exchanges_what_stands_at_two_positions() -> None:
    layout = Layout([2, 0, 1])
    swapped = layout.swap(0, 2)
    assert swapped.qubits == (0, 2, 1)
    assert layout.positions == (2, 0, 1)
    assert swapped.swap(2, 0) == layout
    with pytest.raises(ValueError, match="position 3 is out of range"):
        layout.swap(0, 3)


def test_identity_equality_hash_and_text() -> None:
    identity = Layout.identity(3)
    assert identity.is_identity
    assert not Layout([1, 0]).is_identity
    assert identity == Layout([0, 1, 2]) != Layout([0, 2, 1])
    assert identity != (0, 1, 2)
    assert len({identity, Layout([0, 1, 2]), Layout([1, 0])}) == 2
    assert (repr(identity), repr(Layout([1, 0]))) == ("Layout.identity(3)", "Layout([1, 0])")
    assert pickle.loads(pickle.dumps(Layout([1, 0]))) == Layout([1, 0])


@pytest.mark.parametrize("positions", [[0, 0], [1, 2], [-1, 0]])
def test_refuses_what_is_no_permutation(positions: list[int]) -> None:
    with pytest.raises(ValueError, match="each of 0 to 1 once"):
        Layout(positions)
