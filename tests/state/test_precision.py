"""Long circuits in complex64: norms, energies, gradients, samples. Large angles in complex128."""

import itertools
from fractions import Fraction

import numpy as np
import pytest

import qdist as qd
from qdist.circuit import library
from qdist.circuit.library import lih, uccsd
from qdist.native import kernels
from qdist.plan.levels import Level
from qdist.plan.planner import make_plan
from qdist.plan.precision import computes_in_double, roundings
from qdist.state import reference

BOUND = 1e-6
"""Relative error that long circuits may have in complex64."""
ANGLES = [1e-3, 2e-2, 0.3]
"""Of a UCCSD ansatz, from those where single steps are lost in rounding to those of random states."""


def on_gpu() -> bool:
    return qd.Program.__init__.__kwdefaults__["device"] == "cuda"


def small_tiles(dtype: str = "complex64") -> list[Level] | None:
    """Tiles of one vector and one bit: short stages. A GPU has the tiles of its kernel."""
    if on_gpu():
        return None
    lanes = kernels.lane_bits[dtype == "complex128"]
    return [Level("cache", lanes + 1, lanes)]


def molecule() -> tuple[qd.Circuit, qd.PauliSum]:
    """LiH and its UCCSD ansatz: 640 rotations."""
    found = lih()
    return uccsd(found.num_electrons, found.num_qubits), found.hamiltonian()


def trotter(n: int, steps: int) -> qd.Circuit:
    """The transverse Ising chain in short steps: the same few gates again and again."""
    circuit = qd.Circuit(n)
    for _ in range(steps):
        for q in range(n - 1):
            circuit.rzz(0.0123, q, q + 1)
        for q in range(n):
            circuit.rx(0.0234, q)
    return circuit


def alternating(n: int, layers: int, seed: int) -> qd.Circuit:
    rng = np.random.default_rng(seed)
    circuit = qd.Circuit(n)
    for _ in range(layers):
        for q in range(n):
            circuit.ry(rng.uniform(-3, 3), q).rz(rng.uniform(-3, 3), q)
        for q in range(n - 1):
            circuit.cx(q, q + 1)
    return circuit


@pytest.fixture(scope="module")
def ansatz() -> tuple[qd.Circuit, qd.PauliSum]:
    return molecule()


@pytest.mark.parametrize("size", ANGLES)
def test_energies_gradients_and_probabilities_of_640_rotations(ansatz, size: float) -> None:
    circuit, energy = ansatz
    theta = np.random.default_rng(1).normal(0, size, circuit.num_parameters)
    single, double = qd.compile(circuit), qd.compile(circuit, dtype="complex128")
    state = single.run(theta)
    assert state.norm() ** 2 == pytest.approx(1, abs=BOUND)
    assert state.probabilities().sum() == pytest.approx(1, abs=BOUND)
    value, gradient = single.value_and_grad(energy, theta)
    wanted, by_double = double.value_and_grad(energy, theta)
    assert value == pytest.approx(wanted, rel=BOUND)
    assert state.expectation(energy) == pytest.approx(wanted, rel=BOUND)
    assert np.linalg.norm(gradient - by_double) <= BOUND * np.linalg.norm(by_double)


def layers(n: int, gates: int, parameters: int) -> qd.Circuit:
    """Layers of RY, RZ and CX in which each parameter turns many gates."""
    theta, circuit = itertools.cycle(qd.ParameterVector("t", parameters)), qd.Circuit(n)
    while len(circuit) < gates:
        for q in range(n):
            circuit.ry(next(theta), q).rz(next(theta), q)
        for q in range(n - 1):
            circuit.cx(q, q + 1)
    return circuit


def trained_trotter(n: int, steps: int) -> qd.Circuit:
    theta, circuit = qd.ParameterVector("t", 2 * steps), qd.Circuit(n)
    for k in range(steps):
        for q in range(n - 1):
            circuit.rzz(theta[2 * k], q, q + 1)
        for q in range(n):
            circuit.rx(theta[2 * k + 1], q)
    return circuit


def second_order(n: int, steps: int) -> qd.Circuit:
    """Half of the field, the bonds, half of the field: between steps are two turns about X on each qubit."""
    theta, circuit = qd.ParameterVector("t", 2 * steps), qd.Circuit(n)
    for k in range(steps):
        circuit.rx(theta[2 * k], range(n))
        for q in range(n):
            circuit.rzz(theta[2 * k + 1], q, (q + 1) % n)
        circuit.rx(theta[2 * k], range(n))
    return circuit


def excitations(n: int, count: int, seed: int) -> qd.Circuit:
    """Pauli rotations as of double excitations, in an order that needs many stages."""
    rng, theta = np.random.default_rng(seed), qd.ParameterVector("t", count)
    circuit = qd.Circuit(n).x(range(n // 2))
    for k in range(count):
        circuit.pauli_rotation(theta[k], "".join(rng.permutation(list("XXXY"))), rng.permutation(n)[:4].tolist())
    return circuit


def qaoa(n: int, depth: int) -> qd.Circuit:
    theta, circuit = qd.ParameterVector("t", 2 * depth), qd.Circuit(n).h(range(n))
    for k in range(depth):
        for q in range(n):
            circuit.rzz(theta[2 * k], q, (q + 1) % n).rzz(theta[2 * k], q, (q + 5) % n)
        for q in range(n):
            circuit.rx(theta[2 * k + 1], q)
    return circuit


def scrambling(n: int, depth: int) -> qd.Circuit:
    """General one-qubit gates, and CX that reach ever further: where rounding errors of gradients are largest."""
    theta, circuit = iter(qd.ParameterVector("t", 3 * n * depth)), qd.Circuit(n)
    for k in range(depth):
        for q in range(n):
            circuit.u(next(theta), next(theta), next(theta), q)
        for q in range(n):
            circuit.cx(q, (q + k % (n - 1) + 1) % n)
    return circuit


LONG = {
    "excitations": (excitations(13, 600, 1), 0.5),
    "Trotter steps": (trained_trotter(11, 200), 0.03),
    "second-order Trotter steps in single precision": (second_order(12, 12), 1.0),
    "second-order Trotter steps": (second_order(12, 40), 1.0),
    "QAOA": (qaoa(13, 20), 1.0),
    "10,000 gates": (layers(5, 10_000, 200), 3.0),
    "layers": (layers(12, 2000, 100), 3.0),
    "few scrambling layers": (scrambling(12, 4), 3.0),
    "scrambling layers in single precision": (scrambling(12, 7), 3.0),
    "scrambling layers": (scrambling(12, 16), 3.0),
    "single precision": (layers(12, 270, 100), 3.0),
}
"""Circuits, and the size of their angles."""


@pytest.mark.parametrize("name", LONG)
def test_energies_and_gradients_of_long_circuits(name: str) -> None:
    circuit, size = LONG[name]
    n, rng = circuit.num_qubits, np.random.default_rng(4)
    terms = {f"Z{q} Z{q + 1}": rng.normal() for q in range(n - 1)}
    terms |= {f"X{q} Y{n - 1 - q}": rng.normal() for q in range(2)}
    theta = rng.uniform(-size, size, circuit.num_parameters)
    value, gradient = qd.compile(circuit).value_and_grad(terms, theta)
    wanted, by_double = qd.compile(circuit, dtype="complex128").value_and_grad(terms, theta)
    # An energy may be near 0 by chance, and a gradient at an optimum: those are measured by the observable's scale.
    scale = np.linalg.norm(list(terms.values()))
    assert abs(value - wanted) <= BOUND * max(abs(wanted), scale)
    assert np.linalg.norm(gradient - by_double) <= BOUND * max(np.linalg.norm(by_double), 0.1 * scale)


@pytest.mark.parametrize("size", ANGLES[:2])
def test_no_energy_is_below_the_ground_state(size: float) -> None:
    """An ansatz and its inverse lead back to where all spins are down, the ground state of -sum Z."""
    n, rng = 10, np.random.default_rng(3)
    circuit = qd.Circuit(n)
    for _ in range(600):
        qubits = rng.permutation(n)[:4].tolist()
        circuit.pauli_rotation(rng.normal(0, size), "".join(rng.choice(list("XY"), 4)), qubits)
    circuit.compose(circuit.inverse(), inplace=True)
    energy = qd.simulate(circuit).expectation({f"Z{q}": -1.0 for q in range(n)})
    assert energy >= -n * (1 + BOUND)
    assert energy == pytest.approx(-n, rel=BOUND)


@pytest.mark.parametrize("short", [False, True], ids=["long stages", "short stages"])
@pytest.mark.parametrize(
    "circuit",
    [trotter(9, 400), alternating(9, 200, 1), trotter(9, 100).h(range(9)).compose(trotter(9, 300))],
    ids=["trotter", "alternating", "trotter from a uniform state"],
)
def test_rounding_errors_of_matrices_do_not_add_up_in_the_norm(circuit: qd.Circuit, short: bool) -> None:
    program = qd.Program(circuit, levels=small_tiles() if short else None)
    assert program.run().norm() == pytest.approx(1, abs=3e-7)


def test_repeated_pauli_rotations_keep_the_norm_in_short_stages_too() -> None:
    circuit = qd.Circuit(9)
    for k in range(2000):
        a = k % 6
        circuit.pauli_rotation(0.37, "XZY", [a, a + 1, a + 2]).rx(0.19, a)
    assert qd.Program(circuit, levels=small_tiles()).run().norm() == pytest.approx(1, abs=BOUND / 2)


@pytest.mark.parametrize("norm", [0.5, 3.0])
def test_a_norm_that_was_given_is_kept(norm: float) -> None:
    rng = np.random.default_rng(5)
    amplitudes = rng.normal(size=512) + 1j * rng.normal(size=512)
    start = qd.StateVector.from_amplitudes(norm * amplitudes / np.linalg.norm(amplitudes), "complex64")
    state = qd.compile(alternating(9, 60, 2)).run(initial=start)
    assert state.norm() == pytest.approx(norm, rel=3e-7)
    assert state.expectation("I") == pytest.approx(norm**2, rel=6e-7)


def test_batches_are_as_exact_as_single_runs() -> None:
    circuit, energy = molecule()
    theta = np.random.default_rng(2).normal(0, 0.02, (2, circuit.num_parameters))
    values, gradients = qd.compile(circuit).value_and_grad(energy, theta)
    wanted, by_double = qd.compile(circuit, dtype="complex128").value_and_grad(energy, theta)
    np.testing.assert_allclose(values, wanted, rtol=BOUND)
    assert np.linalg.norm(gradients - by_double) <= BOUND * np.linalg.norm(by_double)
    states = qd.compile(circuit).run_batch(theta)
    np.testing.assert_allclose(np.linalg.norm(states.astype(np.complex128), axis=1), 1, atol=3e-7)


def test_short_circuits_are_computed_in_single_precision_and_long_ones_in_double() -> None:
    """The benchmarks' ansatz stays in single precision at every size; weights count, not gates."""

    def in_double(circuit: qd.Circuit, dtype: str = "complex64") -> bool:
        plan = make_plan(circuit, np.dtype(dtype))
        return computes_in_double(plan, circuit.num_parameters > 0)

    for n in (4, 20, 30):
        assert not in_double(library.hardware_efficient(n, 8)), n
        assert not in_double(scrambling(n, 7 if n < 18 else 8)), n
    assert in_double(library.hardware_efficient(12, 8), "complex128")
    for circuit in (layers(6, 1000, 10), qaoa(13, 20)):
        assert in_double(circuit)
    # On a CPU strings with equal flips are one block, and round once; in row programs each rounds by itself.
    plan = make_plan(molecule()[0], np.dtype("complex64"))
    assert not plan.in_double
    assert plan.rows_in_double
    fixed = layers(6, 1000, 10).bind(np.ones(10))
    assert not in_double(fixed)
    assert in_double(fixed.power(16))
    # Permutations round nothing.
    moves = qd.Circuit(6).ry(qd.Parameter("a"), 0)
    for k in range(3000):
        moves.cx(k % 6, (k + 1) % 6).swap(k % 6, (k + 2) % 6)
    assert not in_double(moves)


def test_turns_about_the_same_axis_round_as_one() -> None:
    for circuit, in_double in ((second_order(12, 12), False), (second_order(12, 40), True)):
        plan = make_plan(circuit, np.dtype("complex64"))
        assert any(block.kind == "dense" and len(block.operations) == 2 for block in plan.blocks)
        assert computes_in_double(plan, has_parameters=True) is in_double
    a, b = qd.Parameter("a"), qd.Parameter("b")
    for circuit, wanted in (
        (qd.Circuit(1).rx(a, 0).rx(b, 0), 1),
        (qd.Circuit(1).ry(a, 0).ry(b, 0), 1),
        (qd.Circuit(1).rx(a, 0).ry(b, 0), 4),
    ):
        assert roundings(make_plan(circuit, np.dtype("complex64"))) == wanted, circuit


def test_values_of_circuits_of_medium_length_are_computed_in_single_precision_and_their_gradients_in_double() -> None:
    circuit, observable = layers(12, 1200, 20), "Z0 Z3"
    theta = np.random.default_rng(3).uniform(-3, 3, 20)
    program, double = qd.compile(circuit), qd.compile(circuit, dtype="complex128")
    assert (program.plan.in_double, program.plan.gradients_in_double) == (False, True)
    assert "gradients computed in double" in program.plan.summary()
    value, gradient = program.value_and_grad(observable, theta)
    wanted, exact = double.value_and_grad(observable, theta)
    assert program.for_gradients.plan.in_double
    assert program.for_gradients.for_gradients is program.for_gradients
    assert abs(value - wanted) < 1e-7
    assert np.linalg.norm(gradient - exact) <= BOUND / 5 * np.linalg.norm(exact)
    assert abs(program.expectation(observable, theta) - wanted) < BOUND
    start = program.run(theta[::-1])
    from_start = qd.compile(circuit).vjp([observable], theta, [1.0], initial=start)[1]
    again = qd.StateVector.from_amplitudes(start.amplitudes().astype(np.complex128), "complex128")
    by_double = double.vjp([observable], theta, [1.0], initial=again)[1]
    assert np.linalg.norm(from_start - by_double) <= BOUND / 5 * np.linalg.norm(by_double)


def test_states_in_complex64_of_programs_in_double_are_rounded_states() -> None:
    """Small tiles, whole states, batches, and states that are given: all are rounded once a stage at most."""
    circuit = layers(6, 3000, 20)
    theta = np.random.default_rng(6).uniform(-3, 3, (3, 20))
    program, double = qd.compile(circuit), qd.compile(circuit, dtype="complex128")
    assert program.plan.in_double
    for row in theta:
        state = program.run(row)
        assert state.dtype == np.complex64
        np.testing.assert_allclose(state.amplitudes(), double.run(row).amplitudes(), atol=6e-8)
    np.testing.assert_allclose(program.run_batch(theta), double.run_batch(theta), atol=6e-8)
    for n in range(1, 6):
        few = layers(n, 800, 20)
        short = qd.Program(few, levels=small_tiles())
        np.testing.assert_allclose(
            short.run(theta[0]).amplitudes(), qd.simulate(few, theta[0], dtype="complex128").amplitudes(), atol=1e-6
        )
    start = qd.StateVector.from_amplitudes(double.run(theta[1]).amplitudes(), "complex64")
    again = qd.StateVector.from_amplitudes(start.amplitudes().astype(np.complex128), "complex128")
    np.testing.assert_allclose(
        program.run(theta[0], initial=start).amplitudes(), double.run(theta[0], initial=again).amplitudes(), atol=6e-8
    )


# Large angles -------------------------------------------------------------------------------------------------------


TURN = 4 * Fraction("3.1415926535897932384626433832795028841971693993751058209749445923078164062862089986280348")


def exactly_reduced(*terms: tuple[float, float]) -> float:
    """The sum of the products of doubles, modulo 4 pi, in rational arithmetic."""
    total = sum((Fraction(a) * Fraction(b) for a, b in terms), Fraction(0))
    return float(total - TURN * round(total / TURN))


def all_kinds(angles: list[object]) -> qd.Circuit:
    """Every formula and every kind of block that angles meet in; 24 of them."""
    a = iter(angles)
    circuit = qd.Circuit(7).h(range(7))
    for q in range(3):
        circuit.rz(next(a), q).p(next(a), q).rz(next(a), q)
    circuit.rzz(next(a), 0, 1).cp(next(a), 0, 1).crz(next(a), 1, 2).rzz(next(a), 5, 6)
    circuit.u(next(a), next(a), next(a), 3).rx(next(a), 4).ry(next(a), 5).fsim(next(a), next(a), 2, 3)
    circuit.pauli_rotation(next(a), "XZYZ", [0, 2, 4, 6]).xx_plus_yy(next(a), next(a), 1, 4)
    circuit.crx(next(a), 2, 5)
    return circuit.h(range(7))


SIZES = [3.0, 1e3, 1e9, 1e15, 1e22]


@pytest.mark.parametrize("size", SIZES)
def test_angles_of_any_size_are_exact_in_complex128(size: float) -> None:
    angles = (np.random.default_rng(7).uniform(-1, 1, 24) * size).tolist()
    wanted = reference.state(all_kinds([exactly_reduced((a, 1.0)) for a in angles]))
    np.testing.assert_allclose(qd.simulate(all_kinds(angles), dtype="complex128").amplitudes(), wanted, atol=1e-12)
    np.testing.assert_allclose(reference.state(all_kinds(angles)), wanted, atol=1e-12)


@pytest.mark.parametrize("size", SIZES)
def test_parameters_of_any_size_are_exact_in_complex128(size: float) -> None:
    """States, gradients and batches; coefficients, sums of parameters, and constants. Products of doubles are reduced
    with twice their digits."""
    tolerance = 1e-12 + 1e-32 * size
    rng = np.random.default_rng(8)
    theta, values = qd.ParameterVector("t", 4), rng.uniform(-1, 1, 4) * size
    rows = [(float(c), float(d), float(e)) for c, d, e in rng.normal(size=(24, 3)) * (1, 1, size)]
    circuit = all_kinds([c * theta[k % 4] + d * theta[(k + 1) % 4] + e for k, (c, d, e) in enumerate(rows)])
    reduced = [
        exactly_reduced((c, values[k % 4]), (d, values[(k + 1) % 4]), (e, 1.0)) for k, (c, d, e) in enumerate(rows)
    ]
    wanted = reference.state(all_kinds(reduced))
    program = qd.compile(circuit, dtype="complex128")
    np.testing.assert_allclose(program.run(values).amplitudes(), wanted, atol=tolerance)
    np.testing.assert_allclose(program.run_batch(values[None])[0], wanted, atol=tolerance)
    # The same derivatives as at the reduced angles.
    again = all_kinds(list(qd.ParameterVector("a", 24)))
    by_angle = reference.gradient(again, qd.PauliSum("X0 Z2 Y4 Z6") + qd.PauliSum("Z1 X3"), reduced)
    by_theta = np.zeros(4)
    for k, (c, d, _) in enumerate(rows):
        by_theta[k % 4] += c * by_angle[k]
        by_theta[(k + 1) % 4] += d * by_angle[k]
    observable = qd.PauliSum("X0 Z2 Y4 Z6") + qd.PauliSum("Z1 X3")
    np.testing.assert_allclose(program.value_and_grad(observable, values)[1], by_theta, atol=10 * tolerance)
    np.testing.assert_allclose(program.value_and_grad(observable, values[None])[1][0], by_theta, atol=10 * tolerance)


def test_many_large_angles_of_one_qubit_add_up_exactly() -> None:
    angles = np.random.default_rng(9).uniform(-1e9, 1e9, 300).tolist()
    circuit = qd.Circuit(5).h(range(5))
    for a in angles:
        circuit.rz(a, 1)
    state = qd.simulate(circuit.h(1), dtype="complex128")
    total = exactly_reduced(*((a, 1.0) for a in angles))
    assert state.expectation("Z1") == pytest.approx(np.cos(total), abs=1e-12)


def test_angles_within_two_turns_stay_as_they_are() -> None:
    theta = qd.ParameterVector("t", 2)
    circuit = qd.Circuit(1).rx(theta[0], 0).rz(theta[1] + 0.5, 0)
    values = [4 * np.pi, -12.25]
    np.testing.assert_array_equal(circuit.affine()(values), [4 * np.pi, -12.25 + 0.5])


# Subnormal numbers ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_subnormal_amplitudes_become_zero_and_only_while_a_circuit_runs(dtype: str, device: str) -> None:
    """Each operation on them would take a hundred cycles. The caller's own arithmetic is what it was."""
    if device != "cpu":
        pytest.skip("GPUs compute with subnormal numbers at full speed")
    tiny = np.finfo(dtype).tiny
    amplitudes = np.full(1 << 15, tiny / 8, dtype)
    amplitudes[0] = 1
    start = qd.StateVector.from_amplitudes(amplitudes, dtype)
    for circuit in (
        qd.Circuit(15).ry(0.3, 14),
        qd.Circuit(15).h(range(15)).ry(0.2, range(15)),
        qd.Circuit(15).u(1, 2, 3, 0),
    ):
        numbers = qd.compile(circuit, dtype=dtype).run(initial=start).amplitudes().view(tiny.dtype)
        assert not ((numbers != 0) & (np.abs(numbers) < tiny)).any()
        assert np.multiply(tiny, tiny.dtype.type(0.125)) > 0
    theta = qd.ParameterVector("t", 15)
    circuit = qd.Circuit(15)
    for q in range(15):
        circuit.ry(theta[q], q)
    program = qd.compile(circuit, dtype=dtype)
    value, gradient = program.value_and_grad("Z0 Z14", np.full(15, 0.4))
    assert value == pytest.approx(np.cos(0.4) ** 2, rel=1e-6)
    np.testing.assert_allclose(
        gradient[[0, 7, 14]], [-np.sin(0.4) * np.cos(0.4), 0, -np.sin(0.4) * np.cos(0.4)], atol=1e-6
    )
    assert np.multiply(tiny, tiny.dtype.type(0.125)) > 0


@pytest.mark.parametrize("draw", range(4))
def test_rotations_of_several_strings_keep_the_norm(draw: int) -> None:
    """A Trotter step has no matrix that could take what rounded rotations change the norm by: phases do."""
    n = 14
    theta = qd.ParameterVector("t", 8)
    circuit = qd.Circuit(n).x(range(0, n, 2))
    for step in range(8):
        for q in [*range(0, n - 1, 2), *range(1, n - 1, 2)]:
            x, y = theta[2 * (step % 2)], theta[2 * (step % 2) + 1]
            circuit.rxx(x, q, q + 1).ryy(y, q, q + 1).rzz(theta[4 + step % 2], q, q + 1)
        circuit.rz(theta[6 + step % 2], range(n))
    values = np.random.default_rng(draw).uniform(-np.pi, np.pi, 8)
    single, double = (qd.compile(circuit, device="cpu", dtype=dtype) for dtype in ("complex64", "complex128"))
    assert not single.plan.in_double
    assert single.run(values).norm() == pytest.approx(1, abs=4e-7)
    hamiltonian = qd.library.heisenberg_xxz(n)
    gradient, expected = (program.value_and_grad(hamiltonian, values)[1] for program in (single, double))
    # Rounding errors of an angle that many gates share are alike.
    assert np.linalg.norm(gradient - expected) <= 1.5 * BOUND * np.linalg.norm(expected)
