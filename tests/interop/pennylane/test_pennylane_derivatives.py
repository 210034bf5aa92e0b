"""Derivatives on qdist.qubit: of every gate and measurement, against parameter-shift, differences and backprop."""

import warnings

import numpy as np
import pytest

qml = pytest.importorskip("pennylane")

from random_tapes import observable, operation  # noqa: E402

from qdist.interop.pennylane import QdistQubit, derivatives  # noqa: E402
from qdist.interop.pennylane.gates import RULES  # noqa: E402
from qdist.program import adjoint  # noqa: E402
from qdist.program.runner import Runner  # noqa: E402

pnp = qml.numpy
DEVICE = QdistQubit(wires=5)
REFERENCE = qml.device("default.qubit", wires=5)


def jacobian(device, circuit, *args, **kwargs):
    """Of all numbers that a circuit returns, by all its arguments."""
    node = qml.QNode(circuit, device, interface="autograd", **kwargs)

    def numbers(*args):
        found = node(*args)
        found = found if isinstance(found, tuple | list) else (found,)
        return qml.math.concatenate([qml.math.reshape(one, (-1,)) for one in found])

    with warnings.catch_warnings():
        if device.name == "default.qubit":  # Its backpropagation casts complex numbers.
            warnings.simplefilter("ignore", np.exceptions.ComplexWarning)
        return qml.jacobian(numbers)(*args)


def check(circuit, *args, atol=1e-9, **kwargs):
    found, expected = jacobian(DEVICE, circuit, *args, **kwargs), jacobian(REFERENCE, circuit, *args)
    for one, other in zip(*[(x,) if isinstance(x, np.ndarray) else x for x in (found, expected)]):
        assert np.abs(other).max() > 1e-3, "a derivative that could be wrong"
        np.testing.assert_allclose(one, other, atol=atol)


@pytest.mark.parametrize("form", ["plain", "adjoint", "controlled"])
def test_every_gate_with_angles_by_each_of_them(form):
    for kind in RULES:
        one = (qml.PauliRot, qml.MultiRZ, qml.GlobalPhase, qml.FermionicSingleExcitation, qml.FermionicDoubleExcitation)
        count = 1 if kind in one else kind.num_params
        if not isinstance(count, int) or count == 0:
            continue
        width = kind.num_wires if isinstance(kind.num_wires, int) else 3

        def circuit(angles, kind=kind, count=count, width=width):
            for wire in range(5):
                qml.Rot(0.3 + wire, 0.7 - wire, 0.2, wires=wire)
                qml.CNOT([wire, (wire + 1) % 5])
            own = [angles[k] for k in range(count)]
            if kind is qml.PauliRot:
                op = qml.PauliRot(own[0], "XYZ", wires=[0, 2, 1])
            elif kind is qml.FermionicDoubleExcitation:
                op = kind(own[0], wires1=[2, 0], wires2=[3, 1])
            elif kind is qml.GlobalPhase:
                op = qml.ctrl(qml.GlobalPhase(own[0]), control=[1, 2], control_values=[0, 1])
            else:
                op = kind(*own, wires=[2, 0, 3, 1][:width])
            if form == "adjoint":
                qml.adjoint(op, lazy=True)
            elif form == "controlled":
                qml.ctrl(op, control=4, control_values=[0])
            for wire in range(4):
                qml.CRX(0.9, wires=[wire, wire + 1])
            return [qml.expval(qml.Y(wire)) for wire in range(5)]

        found = jacobian(DEVICE, circuit, pnp.array([0.37, -0.8, 1.3][:count]))
        expected = jacobian(REFERENCE, circuit, pnp.array([0.37, -0.8, 1.3][:count]))
        np.testing.assert_allclose(found, expected, atol=1e-9, err_msg=str(kind))
        assert np.abs(expected).max() > 1e-3


def layers(x):
    for wire in range(4):
        qml.RX(x[wire], wires=wire)
    qml.CNOT([0, 1])
    qml.Rot(x[0], x[1] * x[2], x[3], wires=1)
    qml.DoubleExcitation(x[2], wires=[0, 1, 2, 3])
    qml.CRot(x[1], x[0], x[3], wires=[2, 3])


X = pnp.array([0.3, -0.7, 1.1, 0.5])
MEASUREMENTS = {
    "expval": lambda: qml.expval(qml.Z(0) @ qml.X(1)),
    "sum": lambda: qml.expval(qml.Hamiltonian([0.5, -2.0], [qml.Z(0) @ qml.Y(2), qml.X(3)])),
    "hermitian": lambda: qml.expval(qml.Hermitian(np.array([[1, 1 - 2j], [1 + 2j, 0]]), wires=2)),
    "var": lambda: qml.var(qml.X(0) @ qml.Z(2) + 0.5 * qml.Y(1)),
    "probs": lambda: qml.probs(wires=[2, 0]),
    "probs_in_a_basis": lambda: qml.probs(op=qml.X(0) @ qml.Y(1)),
    "purity": lambda: qml.purity(wires=[0, 1]),
    "vn_entropy": lambda: qml.vn_entropy(wires=[1]),
    "mutual_info": lambda: qml.mutual_info(wires0=[0], wires1=[2]),
}


@pytest.mark.parametrize("name", MEASUREMENTS)
def test_every_measurement(name):
    def circuit(x):
        layers(x)
        return MEASUREMENTS[name]()

    check(circuit, X)


@pytest.mark.parametrize("name", ["state", "density_matrix"])
def test_of_amplitudes(name):
    def circuit(x):
        layers(x)
        return qml.state() if name == "state" else qml.density_matrix(wires=[0, 2])

    nodes = [qml.QNode(circuit, device) for device in (DEVICE, REFERENCE)]
    for part in (qml.math.real, qml.math.imag):
        costs = [qml.jacobian(lambda x, node=node, part=part: part(node(x)))(X) for node in nodes]
        assert np.abs(costs[1]).max() > 1e-3
        np.testing.assert_allclose(*costs, atol=1e-9)


def wide_layers(x):
    """The same on more qubits than one row of a batch may have, on any device."""
    layers(x)
    for wire in range(4, 13):
        qml.Hadamard(wire)


WIDE = QdistQubit(wires=13)


def test_of_several_measurements_at_once_is_one_sweep(monkeypatch):
    def circuit(x):
        wide_layers(x)
        named = [MEASUREMENTS[name]() for name in ("expval", "sum", "var", "probs")]
        return *named, qml.expval(qml.Z(3))

    sweeps = []
    inner = adjoint.sweep_back
    monkeypatch.setattr(adjoint, "sweep_back", lambda *args, **kwargs: sweeps.append(1) or inner(*args, **kwargs))
    found, expected = (
        qml.grad(lambda x, d=d: sum(qml.math.sum(one * (k + 1)) for k, one in enumerate(qml.QNode(circuit, d)(x))))(X)
        for d in (WIDE, qml.device("default.qubit"))
    )
    np.testing.assert_allclose(found, expected, atol=1e-9)
    assert len(sweeps) == 1


def test_a_gradient_goes_on_from_the_state_of_its_forward(monkeypatch):
    def circuit(x):
        wide_layers(x)
        return qml.expval(qml.Z(0) @ qml.X(1))

    node, expected = qml.QNode(circuit, WIDE), jacobian(qml.device("default.qubit"), circuit, X)
    qml.grad(node)(3 * X)
    runs, inner = [], Runner.run_with
    monkeypatch.setattr(Runner, "run_with", lambda *args, **kwargs: runs.append(1) or inner(*args, **kwargs))
    np.testing.assert_allclose(qml.grad(node)(X), expected[0], atol=1e-9)
    assert len(runs) == 1
    # Another run in between takes the state, and the gradient starts over.
    config = qml.devices.ExecutionConfig(gradient_method="adjoint")
    with qml.queuing.AnnotatedQueue() as queue:
        wide_layers(X)
    tape = adjoint_tape(qml.tape.QuantumScript.from_queue(queue).operations, [qml.expval(qml.Z(0) @ qml.X(1))])
    WIDE.execute([tape], config)
    WIDE.execute([tape.bind_new_parameters([0.1], [0])], config)
    runs.clear()
    found = WIDE.compute_vjp([tape], [1.0], config)[0]
    assert len(runs) == 1
    np.testing.assert_allclose(found, WIDE.compute_derivatives([tape])[0], atol=1e-12)


def adjoint_tape(ops, measurements):
    """A tape as the device gets it from a QNode, with all parameters of its operations trainable."""
    tape = qml.tape.QuantumScript(ops, measurements)
    config = WIDE.setup_execution_config(qml.devices.ExecutionConfig(gradient_method="adjoint"), tape)
    (native,), _ = WIDE.preprocess_transforms(config)([tape])
    native.trainable_params = range(sum(op.num_params for op in native.operations))
    return native


def test_random_circuits_against_finite_differences():
    rng, wires = np.random.default_rng(11), list(range(5))
    for _ in range(6):
        ops = [qml.RY(rng.uniform(-3, 3), wires=w) for w in wires] + [operation(rng, wires) for _ in range(12)]
        tape = adjoint_tape(ops, [qml.expval(observable(rng, wires)), qml.expval(qml.Z(1))])
        tapes, combine = qml.gradients.finite_diff(tape, h=1e-4, approx_order=2, strategy="center")
        expected = np.array(combine(DEVICE.execute(tapes)))
        np.testing.assert_allclose(np.array(DEVICE.compute_derivatives([tape])[0]), expected, atol=1e-6)


def test_random_circuits_against_parameter_shift():
    rng, wires = np.random.default_rng(12), list(range(5))
    rotations = [qml.RX, qml.RY, qml.RZ, qml.PhaseShift, qml.IsingXX, qml.IsingYY, qml.IsingZZ, qml.CRX, qml.CRY]
    rotations += [qml.SingleExcitation, qml.DoubleExcitation, qml.ControlledPhaseShift, qml.MultiRZ, qml.Rot, qml.U3]
    for _ in range(4):
        ops = [qml.RY(rng.uniform(-3, 3), wires=w) for w in wires]
        for kind in rng.permutation(np.array(rotations, object)):
            own = rng.permutation(5)[: kind.num_wires if isinstance(kind.num_wires, int) else 3].tolist()
            ops.append(kind(*rng.uniform(-3, 3, kind.num_params), wires=own))
        tape = adjoint_tape(ops, [qml.expval(qml.X(0) @ qml.Y(3)), qml.var(qml.Z(2)), qml.probs(wires=[1, 4])])
        tapes, combine = qml.gradients.param_shift(tape)
        for found, expected in zip(DEVICE.compute_derivatives([tape])[0], combine(DEVICE.execute(tapes))):
            np.testing.assert_allclose(np.array(found), np.array(expected), atol=1e-9)


def test_batches_give_each_row_its_own_and_shared_parameters_the_sum():
    rows = pnp.array(np.random.default_rng(2).normal(size=(4, 5)))
    weights = pnp.array([0.4, -1.2])

    def circuit(rows, weights):
        qml.AngleEmbedding(rows, wires=range(4), rotation="Y")
        qml.RX(weights[0], wires=0)
        qml.IsingXY(weights[1], wires=[0, 1])
        qml.CNOT([1, 2])
        return qml.expval(qml.Z(0) @ qml.Z(2)), qml.probs(wires=[0, 1]), qml.var(qml.X(1))

    check(circuit, rows[:, :4], weights)


@pytest.mark.parametrize("rows", [None, 1, 3])
def test_circuits_that_begin_with_amplitudes(rows):
    rng = np.random.default_rng(6)
    features = rng.normal(size=(4,) if rows is None else (rows, 4))

    def circuit(x):
        qml.AmplitudeEmbedding(features, wires=[3, 1], normalize=True)
        layers(x)
        return qml.expval(qml.Z(0) @ qml.X(1)), qml.probs(wires=[3, 0])

    check(circuit, X)


AMPLITUDES = [[0.3, -0.5, 0.7, 0.2], [0.3, 0.5, 0.0, 0.0], [0.0, 0.0, 1.0, 0.0], [0.3 + 0.1j, 0.2, 0.0, -0.4j]]
"""The third has its norm, which PennyLane does not divide by then."""


@pytest.mark.parametrize("rows", [None, 1, 3])
@pytest.mark.parametrize("given", AMPLITUDES[:3])
@pytest.mark.parametrize("way", ["values", "more"])
def test_derivatives_by_the_amplitudes_that_a_circuit_begins_with(way, given, rows):
    """Also where some are 0, at which the angles of a preparation by gates have no derivatives."""
    features = np.array(given)
    if rows is not None:
        features = np.stack([np.roll(features, k) + 0.1 * k for k in range(rows)])

    def circuit(features, x):
        qml.AmplitudeEmbedding(features, wires=[3, 1], normalize=True)
        layers(x)
        if way == "values":
            return (
                qml.expval(qml.Z(0) @ qml.X(1)),
                qml.expval(qml.X(3) + 2),
                qml.probs(wires=[3, 0]),
                qml.var(qml.Y(1) + 2),
            )
        return qml.purity([1]), qml.vn_entropy([3, 0]), qml.probs(op=qml.X(2))

    check(circuit, pnp.array(features), X, atol=1e-6 if way == "more" else 1e-9)
    check(lambda features: circuit(features, np.array(X)), pnp.array(features), atol=1e-6)


def test_derivatives_by_amplitudes_that_have_no_norm_and_of_variances_of_large_matrices():
    matrix = np.diag(np.arange(64.0)) / 32 + np.eye(64, k=1) + np.eye(64, k=-1)

    def circuit(amplitudes):
        qml.StatePrep(amplitudes, wires=[4, 0], validate_norm=False)
        for wire in range(5):
            qml.RY(0.3 + wire, wires=wire)
            qml.CNOT([wire, wire + 1])
        large = qml.Hermitian(matrix, wires=range(6))
        return qml.var(large), qml.expval(large), qml.var(qml.Y(1)), qml.expval(qml.X(3)), qml.probs(wires=1)

    for amplitudes in ([0.5, 0.5, -0.5, 0.5], [0.3, 0.2, 0.0, 0.9]):
        found, expected = (
            jacobian(qml.device(name, wires=6), circuit, pnp.array(amplitudes))
            for name in (DEVICE.name, REFERENCE.name)
        )
        np.testing.assert_allclose(found, expected, atol=1e-9)


@pytest.mark.parametrize("interface", ["torch", "jax", "jax-jit"])
@pytest.mark.parametrize("given", AMPLITUDES[1::2])
def test_derivatives_by_amplitudes_in_other_frameworks(given, interface):
    def circuit(features, angles):
        qml.StatePrep(features, wires=[2, 0], normalize=True)
        qml.RX(angles, wires=0)
        qml.CNOT([0, 1])
        qml.CRY(0.7, wires=[2, 1])
        return qml.expval(qml.Z(0) @ qml.X(2)), qml.state()

    def total(found):
        return found[0].sum() + abs(found[1][..., 3] + 0.2j).sum()

    def gradients(device, angles, **options):
        node = qml.QNode(circuit, device, **options)
        if interface == "torch":
            torch = pytest.importorskip("torch")
            leaves = [torch.tensor(one, requires_grad=True) for one in (np.array(given), angles)]
            total(node(*leaves)).backward()
            return [leaf.grad.numpy() for leaf in leaves]
        jax = pytest.importorskip("jax")
        with jax.enable_x64(True):
            function = jax.jit(node) if interface == "jax-jit" else node
            return jax.grad(lambda *args: total(function(*args)), argnums=(0, 1))(jax.numpy.array(given), angles)

    for angles in (np.array(0.4), np.array([0.4, -0.3, 1.1])):
        found, expected = gradients(DEVICE, angles), gradients(REFERENCE, angles, diff_method="backprop")
        for one, other in zip(found, expected):
            np.testing.assert_allclose(one, other, atol=1e-9)


@pytest.mark.parametrize("batched", [False, True])
def test_jacobian_jvp_and_vjp_agree(batched):
    rng = np.random.default_rng(4)
    first = rng.normal(size=3) if batched else 0.3
    ops = [qml.RX(first, 0), qml.Rot(0.1, 0.7, -0.4, wires=1), qml.CNOT([0, 1]), qml.IsingXX(0.3, wires=[1, 2])]
    tape = qml.tape.QuantumScript(ops, [qml.expval(qml.Z(1)), qml.probs(wires=[0, 2]), qml.state()])
    tape.trainable_params = [0, 2, 4]
    (jac,) = DEVICE.compute_derivatives([tape])
    tangents = [0.5, -1.5, 2.0]
    (jvp,) = DEVICE.compute_jvp([tape], [tangents])
    for row, product in zip(jac, jvp):
        np.testing.assert_allclose(product, sum(t * entry for t, entry in zip(tangents, row)), atol=1e-12)
    cotangents = [rng.normal(size=np.shape(one)) for one in DEVICE.execute(tape)]
    cotangents[2] = cotangents[2] + 1j * rng.normal(size=cotangents[2].shape)
    (vjp,) = DEVICE.compute_vjp([tape], [cotangents])
    for k in range(3):
        product = sum(np.real(g * row[k]) for g, row in zip([np.asarray(g) for g in cotangents[:1]], jac[:1]))
        for g, row in zip(cotangents[1:], jac[1:]):
            product = product + np.real(g * row[k]).sum(axis=-1)
        # The parameter of all rows gets their sum.
        np.testing.assert_allclose(vjp[k], product if k == 0 else np.sum(product), atol=1e-9)


def test_matrices_of_a_tape_have_zeros_for_derivatives():
    tape = qml.tape.QuantumScript(
        [qml.RX(0.3, 0), qml.QubitUnitary(np.eye(2), wires=1)],
        [qml.expval(qml.Hermitian(np.diag([1.0, -1.0]), wires=0))],
    )
    tape.trainable_params = [0, 2]
    (vjp,) = DEVICE.compute_vjp([tape], [1.0])
    np.testing.assert_allclose(vjp[0], -np.sin(0.3))
    assert np.shape(vjp[1]) == (2, 2)
    assert not np.any(vjp[1])


def _trained_sum(c):
    return qml.dot(c, [qml.Z("a") @ qml.Z(7), qml.X("a"), qml.Y(7)])


def _trained_matrix(c):
    rows = [qml.math.stack([c[0], c[1]]), qml.math.stack([c[1], c[2]])]
    return qml.Hermitian(qml.math.stack(rows), wires=7)


TRAINED_OBSERVABLES = {
    "sum": lambda c: [qml.expval(_trained_sum(c))],
    "beside others": lambda c: [
        qml.expval(qml.Hamiltonian(c, [qml.Z("a"), qml.X(7), qml.Y("a")])),
        qml.probs(wires=[7, "a"]),
        qml.expval(qml.Z("b")),
        qml.expval(c[1] * qml.X("a")),
    ],
    "not of Pauli strings": lambda c: [qml.expval(c[0] * qml.Hadamard("a") + c[2] * qml.Projector([1], wires=[7]))],
    "matrix": lambda c: [qml.expval(_trained_matrix(c)), qml.expval(qml.Z("a"))],
    "variances": lambda c: [qml.var(_trained_sum(c)), qml.var(_trained_matrix(c)), qml.vn_entropy(wires=["b"])],
}


@pytest.mark.parametrize("kind", TRAINED_OBSERVABLES)
@pytest.mark.parametrize("rows", [1, 3])
def test_numbers_of_observables_are_differentiated(kind, rows):
    torch = pytest.importorskip("torch")

    def circuit(c, x):
        for wire, angle in zip(["a", 7, "b"], x):
            qml.RX(angle, wires=wire)
        qml.CNOT(["a", 7])
        qml.RY(x[0] * x[1], wires=7)
        qml.CNOT([7, "b"])
        return TRAINED_OBSERVABLES[kind](c)

    def loss(values):
        return sum((k + 1) * qml.math.sum(qml.math.sin(value)) for k, value in enumerate(values))

    wires = ["b", "a", 7]
    reference = qml.QNode(circuit, qml.device("default.qubit", wires=wires), interface=None)
    node = qml.QNode(circuit, qml.device("qdist.qubit", wires=wires), interface="torch")
    given = np.array([0.3, -0.7, 1.1]), np.array([[0.4, 1.3, 0.8], [0.1, 0.5, 2.0], [1.0, 0.2, 0.3]][:rows]).T.squeeze()
    tensors = [torch.tensor(array, requires_grad=True) for array in given]
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        values = node(*tensors)
    loss(values).backward()
    for value, expected in zip(values, reference(*given)):
        assert value.shape == np.shape(expected)
        np.testing.assert_allclose(value.detach(), expected, atol=1e-9)
    # Not by backpropagation: PennyLane's variances are wrong there where eigenvalues are equal.
    for array, tensor in zip(given, tensors):
        for index in np.ndindex(array.shape):
            ends, at = [], array[index]
            for step in (1e-5, -1e-5):
                array[index] = at + step
                ends.append(loss(reference(*given)))
            array[index] = at
            np.testing.assert_allclose(tensor.grad[index], (ends[0] - ends[1]) / 2e-5, atol=1e-8)


def test_sums_of_trained_operators_take_no_matrix_of_all_their_wires():
    torch = pytest.importorskip("torch")

    @qml.qnode(qml.device("qdist.qubit", wires=16), interface="torch")
    def circuit(c):
        for wire in range(16):
            qml.RX(0.1 * wire, wires=wire)
        terms = [c[0] * qml.Hadamard(0), *(c[wire] * qml.Z(wire) for wire in range(1, 16))]
        return qml.expval(qml.sum(*terms))

    c = torch.ones(16, dtype=torch.float64, requires_grad=True)
    circuit(c).backward()
    np.testing.assert_allclose(c.grad, [np.sqrt(0.5), *np.cos(0.1 * np.arange(1, 16))], atol=1e-9)


def test_second_derivatives_by_torch_are_no_zeros():
    torch = pytest.importorskip("torch")

    def circuit(x):
        qml.RX(x[0], 0)
        qml.RY(x[1], 0)
        return qml.expval(qml.Z(0))

    x = torch.tensor([0.3, 0.4], dtype=torch.float64)
    (cos, sin), (cos_y, sin_y) = [(np.cos(angle), np.sin(angle)) for angle in x.numpy()]
    with pytest.raises(qml.exceptions.DeviceError, match="max_diff=2"):
        torch.autograd.functional.hessian(qml.QNode(circuit, DEVICE), x)
    found = torch.autograd.functional.hessian(qml.QNode(circuit, DEVICE, max_diff=2), x)
    np.testing.assert_allclose(found, [[-cos * cos_y, sin * sin_y], [sin * sin_y, -cos * cos_y]], atol=1e-9)


def test_coefficients_that_are_not_differentiated_leave_a_sum_whole():
    def circuit(x):
        qml.RX(x, 0)
        return qml.expval(qml.Hamiltonian(pnp.array([2.0, 3.0]), [qml.Z(0), qml.Y(0)]))

    node = qml.QNode(circuit, DEVICE)
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        found = qml.grad(node)(pnp.array(0.3))
    np.testing.assert_allclose(found, -2 * np.sin(0.3) - 3 * np.cos(0.3))
    (tape,) = qml.workflow.construct_batch(node, level="device")(pnp.array(0.3))[0]
    assert len(tape.measurements) == 1


def test_a_trained_matrix_is_decomposed():
    def circuit(x):
        cos, sin = qml.math.cos(x), qml.math.sin(x)
        matrix = qml.math.stack([qml.math.stack([cos, -sin]), qml.math.stack([sin, cos])])
        qml.QubitUnitary(matrix, wires=0)
        qml.RX(0.3, wires=0)
        return qml.expval(qml.Z(0))

    node = qml.QNode(circuit, DEVICE)
    with warnings.catch_warnings():  # PennyLane's decomposition casts complex numbers.
        warnings.simplefilter("ignore", np.exceptions.ComplexWarning)
        found = qml.grad(node)(pnp.array(0.4))
    step = 1e-5
    expected = (node(pnp.array(0.4 + step)) - node(pnp.array(0.4 - step))) / (2 * step)
    np.testing.assert_allclose(found, expected, atol=1e-7)


def test_several_cotangents_of_one_tape():
    tape = qml.tape.QuantumScript([qml.RX(0.3, 0), qml.RY(0.4, 0)], [qml.expval(qml.Z(0)), qml.expval(qml.X(0))])
    (jac,) = DEVICE.compute_derivatives([tape])
    (vjp,) = DEVICE.compute_vjp([tape], [(np.array([1.0, 0.0, 2.0]), np.array([0.0, 1.0, 1.0]))])
    for k in range(2):
        np.testing.assert_allclose(vjp[k], [jac[0][k], jac[1][k], 2 * jac[0][k] + jac[1][k]], atol=1e-12)


def test_gradients_tell_numpy_that_they_are_many():
    assert np.squeeze(derivatives.Gradients([np.zeros(3), np.zeros(())])).shape == (2,)


def test_complex_multiples_that_are_hermitian():
    matrix = np.array([[0.3, 0.5 - 0.2j], [0.5 + 0.2j, -1]])
    observables = [
        -1j * (qml.X(0) @ qml.Y(0) @ qml.Hadamard(1)),
        1j * qml.commutator(qml.Hadamard(0), qml.Y(0)),
        qml.s_prod(1j, qml.prod(qml.Hermitian(matrix, 0), qml.Y(0)))
        + qml.s_prod(-1j, qml.prod(qml.Y(0), qml.Hermitian(matrix, 0))),
    ]
    for given in observables:
        whole = qml.Hermitian(qml.matrix(given, wire_order=[0, 1]), [0, 1])

        def circuit(x, measured):
            qml.RY(x[0], 0)
            qml.RX(x[1], 1)
            qml.CRZ(x[2], [1, 0])
            qml.RX(x[0], 0)
            return qml.expval(measured), qml.var(measured)

        x = pnp.array([0.7, 0.3, 1.1])
        found, expected = (
            jacobian(device, lambda x, measured=measured: circuit(x, measured), x)
            for device, measured in ((DEVICE, given), (REFERENCE, whole))
        )
        np.testing.assert_allclose(found, expected, atol=1e-9)
        assert np.abs(expected).max() > 1e-3


@pytest.mark.parametrize("wires", [[2, 0, 1], [1, 2, 5], ["a", 1, "b"]], ids=str)
@pytest.mark.parametrize("all_acted_on", [False, True])
def test_all_wires_of_a_device_without_any(wires, all_acted_on):
    def operations(x):
        qml.RY(x[0], wires[0])
        qml.RX(x[1], wires[1])
        if all_acted_on:
            qml.QubitSum(wires)
            qml.RY(x[0] * x[1], wires[2])
        qml.CNOT(wires[1::-1])

    def probabilities(x):
        operations(x)
        return qml.probs(), qml.expval(qml.Z(wires[2])), qml.probs(wires=wires[:2])

    def state(x):
        operations(x)
        return qml.state(), qml.expval(qml.Z(wires[2]))

    def fidelity(device):
        rng = np.random.default_rng(2)
        other = rng.normal(size=8) + 1j * rng.normal(size=8)
        node = qml.QNode(state, device)
        return lambda x: pnp.abs(pnp.sum(other * node(x)[0])) ** 2

    x = pnp.array([0.7, 0.4])
    pair = QdistQubit(), qml.device("default.qubit")
    np.testing.assert_allclose(*(jacobian(device, probabilities, x) for device in pair), atol=1e-9)
    np.testing.assert_allclose(*(qml.grad(fidelity(device))(x) for device in pair), atol=1e-9)


def test_large_operators_count_as_their_hermitian_parts():
    """Those on more wires than there are strings for, which go as matrices."""
    rng, wires = np.random.default_rng(5), range(6)
    matrix = rng.normal(size=(64, 64)) + 1j * rng.normal(size=(64, 64))
    matrix = matrix + matrix.conj().T
    given = -1j * (qml.X(0) @ qml.Y(0) @ qml.Hermitian(matrix, wires))
    dense = qml.matrix(given, wire_order=wires)
    whole = qml.Hermitian((dense + dense.conj().T) / 2, wires)

    def circuit(x, measured):
        for wire in wires:
            qml.RY(x[wire], wire)
            qml.CNOT([wire, (wire + 1) % 6])
        for wire in wires:
            qml.RX(x[wire], wire)
        return qml.expval(measured)

    x = pnp.array(rng.normal(size=6))
    found, expected = (
        jacobian(device, lambda x, measured=measured: circuit(x, measured), x)
        for device, measured in ((qml.device("qdist.qubit", wires=6), given), (qml.device("default.qubit"), whole))
    )
    np.testing.assert_allclose(found, expected, atol=1e-10)
