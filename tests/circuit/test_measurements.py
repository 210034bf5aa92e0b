"""Which measurements are at the end, and which resets and measurements a state depends on."""

import pytest

from qdist.circuit import Circuit, CircuitError, Parameter
from qdist.circuit.measurements import is_random, split_final_measurements, without_idle_resets


def final(circuit: Circuit) -> dict[int, int]:
    return split_final_measurements(circuit.instructions)[1]


def conditional(circuit: Circuit, clbit: int, what: str, *arguments: int) -> Circuit:
    with circuit.if_(clbit, 1):
        getattr(circuit, what)(*arguments)
    return circuit


@pytest.mark.parametrize(
    ("circuit", "kept", "sources"),
    [
        (Circuit(2, 2).h(0).measure(0, 1).measure(1, 0), 1, {1: 0, 0: 1}),
        # A gate on another qubit, and barriers, come after it.
        (Circuit(2, 1).h(0).measure(0, 0).barrier(0, 1).h(1), 3, {0: 0}),
        (Circuit(2, 1).h(0).barrier().measure(0, 0).barrier(), 1, {0: 0}),
        # A gate, a reset on its own qubit does.
        (Circuit(1, 1).measure(0, 0).h(0), 2, {}),
        (Circuit(1, 1).h(0).measure(0, 0).reset(0), 3, {}),
        # Twice: into two bits, and into one, where the last of them counts.
        (Circuit(1, 2).h(0).measure(0, 0).measure(0, 1), 1, {0: 0, 1: 0}),
        (Circuit(2, 1).h(0).measure(0, 0).measure(1, 0), 1, {0: 1}),
        # What is written over on the way for certain is not read at the end.
        (Circuit(2, 1).h(0).measure(0, 0).measure(1, 0).x(1), 3, {}),
        # A test of the bit, also where it is written again after that.
        (conditional(Circuit(2, 1).h(0).measure(0, 0), 0, "x", 1), 3, {}),
        (conditional(Circuit(3, 1).h(0).measure(0, 0), 0, "x", 1).measure(2, 0), 3, {0: 2}),
        (conditional(Circuit(3, 1).h(0).measure(0, 0).measure(1, 0), 0, "x", 2), 3, {}),
        # A measurement under a condition stays, and so does one whose outcome it may replace.
        (conditional(Circuit(3, 2).measure(0, 0), 0, "measure", 1, 1), 2, {}),
        (conditional(Circuit(3, 2).h(0).measure(2, 1).measure(0, 0), 0, "measure", 1, 1), 4, {}),
    ],
)
def test_measurements_at_the_end(circuit: Circuit, kept: int, sources: dict[int, int]) -> None:
    assert final(circuit) == sources
    assert len(circuit.remove_final_measurements()) == kept


def test_resets_of_qubits_that_are_still_zero_do_nothing() -> None:
    circuit = Circuit(3).reset([0, 1, 2]).h(0).barrier().reset(1).cx(0, 1).reset(1).reset(2)
    assert without_idle_resets(circuit) == list(Circuit(3).h(0).barrier().cx(0, 1).reset(1))


@pytest.mark.parametrize(
    ("circuit", "zero", "given"),
    [
        (Circuit(2).h(0).cx(0, 1), False, False),
        (Circuit(2, 1).h(0).measure(0, 0), True, True),
        (Circuit(2).h(0).reset(0), True, True),
        (Circuit(2).reset(0).h(0), False, True),
        (Circuit(2).h(0).initialize(1, [1]), False, True),
        (Circuit(2).h(0).initialize(1, [0]), True, True),
        (Circuit(2).h(0).initialize(1), False, False),
    ],
)
def test_what_makes_a_state_random(circuit: Circuit, zero: bool, given: bool) -> None:
    assert is_random(circuit, circuit.num_qubits, from_zero=True) == zero
    assert is_random(circuit, circuit.num_qubits, from_zero=False) == given


def test_a_frozen_circuit_refuses_all_additions_and_is_otherwise_the_same() -> None:
    a = Parameter("a")
    circuit = Circuit(2, 1).h(0).ry(a, 1)
    frozen, before = circuit.frozen(), circuit.copy()
    for add in (
        lambda: frozen.x(0),
        lambda: frozen.rx(Parameter("b"), 0),
        lambda: frozen.measure_all(),
        lambda: frozen.append(before[0].gate, 0),
        lambda: frozen.compose(Circuit(2).rx(Parameter("c"), 0), inplace=True),
    ):
        with pytest.raises(CircuitError, match=r"change a copy\(\)"):
            add()
        assert frozen == before
        assert (frozen.parameters, frozen.num_clbits) == ((a,), 1)
    assert frozen.copy().x(0) == circuit.x(0)
    assert frozen.inverse() == before.inverse()
