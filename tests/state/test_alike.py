"""States are used together only where their amplitudes are split alike: anything else is refused, and both named."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from qdist import Circuit, PauliString, PauliSum, compile
from qdist.backends.errors import StateError
from qdist.comm import counting_communicator
from qdist.state import Overlap
from qdist.state.checking.alike import same_ranks
from qdist.state.moves.exchange import swap_bits
from qdist.state.moves.relayout import relayout
from qdist.state.statevector import StateVector

QUBITS = 8


@pytest.fixture(autouse=True)
def _on_the_cpu(device: str) -> None:
    if device != "cpu":
        pytest.skip("counting communicators carry no GPU arrays")


def whole(dtype: str = "complex64") -> StateVector:
    return StateVector(QUBITS, dtype)


def split(ranks: int = 2, rank: int = 0) -> StateVector:
    return StateVector(QUBITS, comm=counting_communicator(ranks, rank))


def program(**options: Any) -> Any:
    return compile(Circuit(QUBITS).h(0).ry(0.3, 1), **options)


CALLS: dict[str, Callable[[StateVector, StateVector], Any]] = {
    "inner": lambda a, b: a.inner(b),
    "fidelity": lambda a, b: a.fidelity(b),
    "apply_pauli_sum": lambda a, b: a.apply_pauli_sum("X0 Z1", out=b),
    "swap_bits": lambda a, b: swap_bits([a, b], []),
    "relayout": lambda a, b: relayout([a, b], a.layout),
    "Overlap": lambda a, b: Overlap(a).value(b),
    "Overlap, pulled back": lambda a, b: Overlap(a).pull_back(b, 1.0, b.copy()),
}


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize(
    "pair",
    [
        (whole, split),
        (split, whole),
        (split, lambda: split(4)),
        (lambda: split(3), lambda: split(4)),
        (whole, lambda: whole("complex128")),
    ],
    ids=["one and two ranks", "two ranks and one", "two and four ranks", "three and four ranks", "dtypes"],
)
def test_states_that_are_split_differently_are_refused(name: str, pair: tuple[Any, Any]) -> None:
    a, b = pair[0](), pair[1]()
    with pytest.raises(
        StateError, match="needs two states of one size and dtype, on one device and the same ranks"
    ) as e:
        CALLS[name](a, b)
    assert repr(a) in str(e.value)
    assert repr(b) in str(e.value)
    assert str(list(a.comm.group)) in str(e.value)


@pytest.mark.parametrize("where", ["initial", "out"])
def test_a_program_refuses_states_over_other_ranks(where: str) -> None:
    with pytest.raises(
        StateError, match=rf"{where} is split over group 'world', world ranks \[0, 1\]; the program runs"
    ):
        program().run(**{where: split()})
    with pytest.raises(StateError, match=rf"{where} is split over group 'alone', world ranks \[0\]; the program runs"):
        program(comm=counting_communicator(2)).run(**{where: whole()})
    both = {where: split(), "out" if where == "initial" else "initial": whole()}
    with pytest.raises(StateError, match="the same communicator"):
        program().run(**both)


def test_programs_refuse_an_overlap_over_other_ranks() -> None:
    with pytest.raises(StateError, match="an overlap needs two states"):
        compile(Circuit(QUBITS).ry(0.3, 1)).vjp([Overlap(split())], None, [1.0])


def test_which_communicators_are_the_same() -> None:
    two, again, four = counting_communicator(2), counting_communicator(2), counting_communicator(4)
    assert same_ranks(two, two)
    assert same_ranks(two, again)
    assert not same_ranks(two, four)
    one = counting_communicator(1)
    assert same_ranks(one, whole().comm)
    one.group = (5,)  # The same process by another number.
    assert same_ranks(one, whole().comm)
    again.group = (1, 0)
    assert not same_ranks(two, again)


def test_states_over_equal_groups_go_together() -> None:
    a, b = split(), split()
    assert a.inner(b) == 1
    assert program(comm=a.comm).run(out=b) is b


class TestAsAnArray:
    def test_is_a_copy_of_the_amplitudes(self) -> None:
        state = program().run()
        for array in (np.asarray(state), np.array(state), np.array(state, copy=True)):
            assert array.dtype == np.complex64
            assert np.array_equal(array, state.amplitudes())
        np.asarray(state)[:] = 0
        assert state.norm() == pytest.approx(1)

    def test_takes_a_dtype(self) -> None:
        assert np.asarray(whole(), dtype=np.complex128).dtype == np.complex128
        for real in (np.float64, np.int64, bool, object):
            with pytest.raises(TypeError, match=r"amplitudes are complex.*\.real"):
                np.asarray(whole(), dtype=real)

    def test_numpy_computes_with_it(self) -> None:
        state = program().run()
        assert np.allclose(state, state.amplitudes())
        assert np.vdot(state, state) == pytest.approx(1)
        assert np.allclose(np.abs(state) ** 2, state.probabilities())

    def test_is_never_a_view(self) -> None:
        with pytest.raises(ValueError, match=r"state\.local"):
            np.array(whole(), copy=False)

    def test_is_refused_where_it_would_be_a_collective(self) -> None:
        state = split()
        before = len(state.comm.messages)
        with pytest.raises(StateError, match=r"split over 2 ranks.*state\.amplitudes\(\)"):
            np.asarray(state)
        assert len(state.comm.messages) == before


class TestComparing:
    def test_states_with_the_same_amplitudes_are_equal(self) -> None:
        a, b = whole(), whole()
        other = compile(Circuit(a.num_qubits).x(0)).run()
        assert a == b
        assert a in [b]
        assert a != other
        assert a != 0

    def test_states_can_be_keys_by_identity(self) -> None:
        a, b = whole(), whole()
        assert {a: 1, b: 2}[a] == 1
        assert hash(a) != hash(b)

    def test_states_have_no_length_and_no_elements(self) -> None:
        state = whole()
        for use in (len, iter, list, float, int):
            with pytest.raises(TypeError):
                use(state)
        assert state  # An object, as anything that is not None.

    def test_a_sum_of_one_string_equals_the_string(self) -> None:
        assert PauliSum("Z0 X1") == PauliString("Z0 X1")
        assert PauliString("Z0 X1") == PauliSum("Z0 X1")
        assert PauliSum({"Z0 X1": 2.0}) != PauliString("Z0 X1")
        assert PauliSum("Z0") != PauliString("X0")
