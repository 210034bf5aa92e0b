"""Gradients on a GPU against the reference and against the CPU's adjoint sweep."""

from typing import Any

import numpy as np
import pytest
from test_back_tables import everywhere
from test_lean import heisenberg
from test_tables import odd_gates, wide_matrices
from test_transitions import plaquettes

import qdist as qd
from qdist import nn
from qdist.circuit import GATES, unitary_gate
from qdist.comm import cuda_devices
from qdist.plan.stages import backward
from qdist.program.adjoint import queued_gradient, sweep_back
from qdist.state import reference
from qdist.tensor import Tensor

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(cuda_devices() == 0, reason="no CUDA device")]
both = pytest.mark.parametrize("dtype", ["complex64", "complex128"])
TOLERANCE = {"complex64": 1e-5, "complex128": 1e-12}


def random_sum(n: int, terms: int, seed: int = 0) -> qd.PauliSum:
    rng = np.random.default_rng(seed)
    masks = rng.integers(0, 1 << n, (2, terms), dtype=np.uint64)
    return qd.PauliSum.from_masks(*masks, rng.normal(size=terms))


def values(circuit: qd.Circuit, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).uniform(-3, 3, circuit.num_parameters)


def check(circuit: qd.Circuit, dtype: str) -> None:
    """Value and gradient equal the reference's, or the CPU's where there are many qubits; the ket comes back."""
    n, params = circuit.num_qubits, values(circuit)
    observable = random_sum(n, 6)
    program = qd.Program(circuit, dtype=dtype, device="cuda")
    value, gradient = program.value_and_grad(observable, params)
    if n <= 8:
        want = reference.expectation(circuit, observable, params), reference.gradient(circuit, observable, params)
    else:
        want = qd.Program(circuit, dtype="complex128", device="cpu").value_and_grad(observable, params)
    atol = TOLERANCE[dtype] * np.abs(observable.coefficients).sum()
    assert value == pytest.approx(want[0], abs=atol)
    np.testing.assert_allclose(gradient, want[1], atol=atol)
    ket = program.run(params)
    bra = ket.apply_pauli_sum(observable)
    again = program.affine.transposed(sweep_back(program, ket, bra, recover=True))
    np.testing.assert_allclose(again, gradient, atol=atol)
    np.testing.assert_allclose(ket.amplitudes(), np.eye(1, 1 << n)[0], atol=atol)


@both
@pytest.mark.parametrize("n", [7, 14])
def test_every_gate_with_angles(n: int, dtype: str) -> None:
    rng = np.random.default_rng(3)
    for gate in {g.name: g for g in GATES.values() if g.num_params}.values():
        check(everywhere(gate, [tuple(rng.permutation(n)[: gate.num_qubits].tolist()) for _ in range(8)], n), dtype)


@both
@pytest.mark.parametrize("n", [7, 14])
def test_gates_with_data_controls_and_strings(n: int, dtype: str) -> None:
    rng = np.random.default_rng(6)
    for gate in odd_gates().values():
        circuit = everywhere(gate, [tuple(rng.permutation(n)[: gate.num_qubits].tolist()) for _ in range(3)], n)
        for q in range(n):
            circuit.ry(qd.Parameter(f"y{q}"), q)
        check(circuit, dtype)


@both
@pytest.mark.parametrize("n", [1, 2, 3, 5, 9, 12, 16])
def test_random_circuits(n: int, dtype: str) -> None:
    for depth in (3, 10):
        random = qd.library.random_circuit(n, depth, seed=n)
        circuit = qd.library.hardware_efficient(n, 1).compose(random.bind(values(random)))
        check(circuit.compose(_renamed(qd.library.hardware_efficient(n, 1))), dtype)


def _renamed(circuit: qd.Circuit) -> qd.Circuit:
    return circuit.bind(dict(zip(circuit.parameters, qd.ParameterVector("again", circuit.num_parameters))))


@both
@pytest.mark.parametrize("n", [16, 18])
def test_qubits_that_change_places_between_stages(n: int, dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backward, "_WORTH_ORDERS", n)
    monkeypatch.setattr(backward, "_WORTH_MOVING", 10.0)  # They do, whatever it costs.
    t = qd.ParameterVector("t", 3 * n)
    circuit = qd.Circuit(n).x(range(0, n, 2))
    for k in range(3 * n):
        a, b = k * 5 % n, (k * 5 + 1 + k % 4) % n
        circuit.xx_plus_yy(t[k], 0.3, a, b).rzz(t[k], a, b).ry(t[-k - 1], a)
    check(circuit, dtype)
    # From any state as from |0...0>.
    program, observable, params = qd.Program(circuit, dtype=dtype, device="cuda"), random_sum(n, 6), values(circuit)
    (segment,) = program.plan.segments
    moves = [o.kind == "swap" for stage, _ in program.plan.backward(segment, 0).stages for o in stage.operations]
    assert any(moves)
    states = np.random.default_rng(5).normal(size=(2, 1 << n)).astype(dtype)
    states /= np.linalg.norm(states, axis=1, keepdims=True)
    outputs, weights = [qd.Expectation(observable)], [np.ones(2)]
    got = program.vjp(outputs, np.tile(params, (2, 1)), weights, initial=states)
    want = qd.Program(circuit, dtype="complex128", device="cpu").vjp(
        outputs, np.tile(params, (2, 1)), weights, initial=states.astype(np.complex128)
    )
    atol = TOLERANCE[dtype] * np.abs(observable.coefficients).sum()
    np.testing.assert_allclose(got[0][0], want[0][0], atol=atol)
    np.testing.assert_allclose(got[1], want[1], atol=atol)


@both
@pytest.mark.parametrize(("n", "width"), [(8, 4), (15, 5), (20, 5)])
def test_fsim_between_matrices(n: int, width: int, dtype: str) -> None:
    """Whose derivatives are made of few entries of the transition matrix, before the matrix or after it."""
    check(plaquettes(n, width, 6), dtype)


@both
def test_an_ansatz_of_many_tiles_and_a_gate_wider_than_a_tile(dtype: str) -> None:
    check(qd.library.hardware_efficient(19, 4), dtype)
    wide = unitary_gate(np.roll(np.eye(1 << 10), 3, axis=0))
    circuit = qd.library.hardware_efficient(15, 1).append(wide, range(5, 15))
    check(circuit.compose(_renamed(qd.library.hardware_efficient(15, 1))), dtype)


@pytest.mark.parametrize("n", [14, 20])
def test_small_angles_where_the_bra_is_mostly_a_multiple_of_the_ket(n: int) -> None:
    """Of few stages too, and queued: the rounded bra would be the larger part of the error, up to 6e-6 of the
    gradient's length at 14 qubits and 3e-6 at 20."""
    circuit, energy = qd.library.strongly_entangling_layers(n, 6), qd.library.heisenberg_xxz(n)
    single = qd.compile(circuit, device="cuda")
    double = qd.compile(circuit, dtype="complex128", device="cuda")
    params = np.random.default_rng(n).uniform(-0.2, 0.2, (4, circuit.num_parameters))
    want = np.array([double.value_and_grad(energy, row)[1] for row in params])
    got = np.array([single.value_and_grad(energy, row)[1] for row in params])
    lengths = np.linalg.norm(want, axis=1)
    assert (np.linalg.norm(got - want, axis=1) / lengths).max() < 2e-6
    queued = queued_gradient(single, qd.Expectation(energy), params[0], np.dtype(np.float64))
    assert queued is not None
    assert np.linalg.norm(queued[1].get() - want[0]) / lengths[0] < 2e-6


def test_states_that_are_mostly_one_amplitude() -> None:
    """H |psi> has its diagonal added last, in the pass and of all passes: before, the other strings were rounded as if
    they were as large, and gradients that are computed in double were off by up to 1.4e-5 of their length."""
    n, theta = 14, qd.ParameterVector("t", 40)
    circuit = qd.Circuit(n).x(range(0, n, 2))
    for x, y, z, field in (theta[4 * k : 4 * k + 4] for k in range(10)):
        for q in [*range(0, n - 1, 2), *range(1, n - 1, 2)]:
            circuit.rxx(x, q, q + 1).ryy(y, q, q + 1).rzz(z, q, q + 1)
        circuit.rz(field, range(n))
    energy = qd.library.heisenberg_xxz(n)
    single, double = (qd.compile(circuit, dtype=dtype, device="cuda") for dtype in ("complex64", "complex128"))
    for seed in range(4):
        params = np.random.default_rng(seed).uniform(-0.01, 0.01, 40)
        got, want = (program.value_and_grad(energy, params)[1] for program in (single, double))
        assert np.linalg.norm(got - want) / np.linalg.norm(want) < 2e-6


@pytest.mark.parametrize(("size", "in_double"), [(0.1, True), (1.5, False), (np.pi, False)])
def test_trotter_steps_take_the_precision_that_angles_ask_for(size: float, in_double: bool) -> None:
    """In single, where the state is spread over many amplitudes, as exact as in double, where it is mostly one: in
    single that was up to 2.7e-6 of the gradient's length."""
    n = 22
    circuit, energy = heisenberg(n, 10), qd.library.heisenberg_xxz(n)
    single, double = (qd.compile(circuit, dtype=dtype, device="cuda") for dtype in ("complex64", "complex128"))
    for params in np.random.default_rng(5).uniform(-size, size, (3, circuit.num_parameters)):
        assert single.for_gradients_at(params).plan.in_double == in_double
        got, want = (program.value_and_grad(energy, params)[1] for program in (single, double))
        assert np.linalg.norm(got - want) / np.linalg.norm(want) < 2e-6


def test_the_same_bits_from_run_to_run() -> None:
    program = qd.compile(qd.library.hardware_efficient(18, 3), device="cuda")
    params = values(program.circuit)
    assert len({program.value_and_grad(qd.library.heisenberg_xxz(18), params)[1].tobytes() for _ in range(4)}) == 1


@both
@pytest.mark.parametrize("n", [3, 12, 17])
def test_batches_are_their_rows(n: int, dtype: str) -> None:
    circuit = qd.library.hardware_efficient(n, 2)
    rows = 5
    params = np.random.default_rng(1).uniform(-3, 3, (rows, circuit.num_parameters))
    observables: list[Any] = ["Z0", random_sum(n, 5), "X1 Y2"]
    cotangents = list(np.random.default_rng(2).normal(size=(3, rows)))
    got, want = (
        qd.compile(circuit, dtype=kind, device=device).vjp(observables, params, cotangents)
        for kind, device in ((dtype, "cuda"), ("complex128", "cpu"))
    )
    atol = 10 * TOLERANCE[dtype]
    np.testing.assert_allclose(got[0], want[0], atol=atol)
    np.testing.assert_allclose(got[1], want[1], atol=atol)
    program = qd.compile(circuit, dtype=dtype, device="cuda")
    np.testing.assert_allclose(program.expectation(observables[1], params), want[0][1], atol=atol)
    jacobians = [qd.compile(circuit, dtype=dtype, device=d).jacobian(observables, params[:2]) for d in ("cuda", "cpu")]
    np.testing.assert_allclose(*jacobians, atol=atol)


def test_thousands_of_rows_come_in_parts() -> None:
    circuit = qd.library.hardware_efficient(4, 2)
    params = np.random.default_rng(1).uniform(-3, 3, (70000, circuit.num_parameters))
    energies, gradients = qd.compile(circuit, device="cuda").value_and_grad("Z0 Z1", params)
    some = slice(None, None, 9999)
    want = qd.compile(circuit, device="cpu").value_and_grad("Z0 Z1", params[some])
    np.testing.assert_allclose(energies[some], want[0], atol=1e-5)
    np.testing.assert_allclose(gradients[some], want[1], atol=1e-5)


def test_products_of_strings_within_and_beyond_a_tile() -> None:
    n = 16
    rng = np.random.default_rng(5)
    x = np.array([0, 0, 0b11, 1 << 15, 0b1100000000011, (1 << 16) - 1, 0xFF00, 0x0F0F], np.uint64)
    observable = qd.PauliSum.from_masks(
        np.repeat(x, 3), rng.integers(0, 1 << n, 24, dtype=np.uint64), rng.normal(size=24)
    )
    ket = rng.normal(size=1 << n) + 1j * rng.normal(size=1 << n)
    for dtype in ("complex64", "complex128"):
        cpu, gpu = (
            qd.StateVector.from_amplitudes(ket, dtype, device=d).apply_pauli_sum(observable * (1 + 0.5j)).amplitudes()
            for d in ("cpu", "cuda")
        )
        np.testing.assert_allclose(gpu, cpu, atol=1e-4 if dtype == "complex64" else 1e-12)


def test_two_states_are_all_the_memory_a_gradient_takes() -> None:
    import cupy

    n = 24
    program = qd.compile(qd.library.hardware_efficient(n, 2), device="cuda")
    observable, params = qd.library.heisenberg_xxz(n), values(program.circuit)
    program.value_and_grad(observable, params)
    pool = cupy.get_default_memory_pool()
    pool.free_all_blocks()
    before = pool.total_bytes()
    program.value_and_grad(observable, params)
    assert pool.total_bytes() - before < 2.2 * (8 << n)


@pytest.mark.large
@pytest.mark.parametrize("n", [20, 33])
def test_a_gradient_that_fills_the_card(n: int) -> None:
    """33 qubits are two states of 64 GiB: nothing else of that order is taken."""
    import cupy

    pool = cupy.get_default_memory_pool()
    pool.free_all_blocks()
    free = cupy.cuda.runtime.memGetInfo()[0]
    if free < (16 << n) + (1 << 29):
        pytest.skip(f"{free >> 30} GiB of the GPU are free")
    circuit, observable, params, value, gradient = of_a_product_state(n)
    before = pool.total_bytes()
    got = qd.compile(circuit, device="cuda").value_and_grad(observable, params)
    assert pool.total_bytes() - before < (16 << n) + (1 << 28)
    assert got[0] == pytest.approx(value, abs=1e-3)
    np.testing.assert_allclose(got[1], gradient, atol=1e-3)


def of_a_product_state(n: int) -> tuple[qd.Circuit, qd.PauliSum, np.ndarray, float, np.ndarray]:
    """A circuit of RY, an observable, and its value and gradient, which follow from <Z> = cos and <X> = sin."""
    theta = qd.ParameterVector("t", n)
    circuit = qd.Circuit(n)
    for q in range(n):
        circuit.ry(theta[q], q)
    terms = {f"Z{q}": 0.1 * q for q in range(n)} | {f"X{q} X{q + 1}": 1.0 for q in range(n - 1)}
    params = np.random.default_rng(n).uniform(-3, 3, n)
    weights, sine, cosine = 0.1 * np.arange(n), np.sin(params), np.cos(params)
    neighbours = np.append(sine[1:], 0) + np.append(0, sine[:-1])
    value = float(weights @ cosine + sine[1:] @ sine[:-1])
    return circuit, qd.PauliSum(terms), params, value, cosine * neighbours - weights * sine


def test_a_gradient_that_does_not_fit_is_refused_before_anything_is_taken() -> None:
    import cupy

    free = cupy.cuda.runtime.memGetInfo()[0] + cupy.get_default_memory_pool().free_bytes()
    n = int(free // 8).bit_length() - 1  # One state fits, two do not.
    program = qd.compile(qd.Circuit(n).ry(qd.Parameter("a"), 0), device="cuda")
    before = cupy.get_default_memory_pool().total_bytes()
    with pytest.raises(MemoryError, match="for 2 states on 1 rank"):
        program.value_and_grad("Z0", [0.3])
    assert cupy.get_default_memory_pool().total_bytes() == before


@both
def test_a_layer_whose_batch_is_on_the_gpu(dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    x, w = qd.ParameterVector("x", 3), qd.ParameterVector("w", 3)
    circuit = qd.Circuit(3)
    for q in range(3):
        circuit.rx(x[q], q).ry(w[q], q).cx(q, (q + 1) % 3)
    real = np.float32 if dtype == "complex64" else np.float64
    data = np.random.default_rng(0).normal(size=(6, 3)).astype(real)
    found = []
    for device in ("cpu", "cuda"):
        layer = nn.QuantumLayer(circuit, ["Z0", "X1"], x, w, dtype=dtype, device=device, initial=[0.3, -1.0, 2.0])
        inputs = Tensor(data, requires_grad=True, device=device)
        # What brings states to the host is not asked for.
        monkeypatch.setattr(layer.program, "run_batch", None if device == "cuda" else layer.program.run_batch)
        out = layer(inputs)
        out.sum().backward()
        assert out.device.partition(":")[0] == layer.weights.device.partition(":")[0] == device
        found.append((out.numpy(), inputs.grad.numpy(), layer.weights.grad.numpy()))
    for got, want in zip(found[1], found[0]):
        np.testing.assert_allclose(got, want, atol=10 * TOLERANCE[dtype])
    with pytest.raises(TypeError, match="the circuit runs on cuda:0 and x is on cpu"):
        layer(Tensor(data))


@both
@pytest.mark.parametrize("n", [8, 15])
def test_wide_matrices_on_a_threads_own_amplitudes(n: int, dtype: str) -> None:
    for seed in range(3):
        check(wide_matrices(n, seed, qd.Parameter("t")), dtype)
