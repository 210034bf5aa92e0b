"""The device qdist.qubit itself: how it is found, its options, what it compiles, what it tells, and its errors."""

import cProfile
import pstats
import tomllib
import warnings
from collections import Counter
from importlib.metadata import entry_points
from pathlib import Path

import numpy as np
import pytest

qml = pytest.importorskip("pennylane")

import qdist.interop.pennylane.tapes as tapes  # noqa: E402
from qdist.circuit import PauliSum  # noqa: E402
from qdist.interop.pennylane import QdistQubit, operations  # noqa: E402
from qdist.interop.pennylane.gates import FIXED, RULES  # noqa: E402
from qdist.state.outputs import Expectation  # noqa: E402

ROOT = Path(__file__).parents[3]


def bell(x=0.3):
    qml.RX(x, wires=0)
    qml.CNOT([0, 1])
    return qml.expval(qml.Z(0) @ qml.Z(1)), qml.expval(qml.Z(1))


def test_pennylane_finds_it_by_name():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    declared = project["entry-points"]["pennylane.plugins"]
    assert declared == {"qdist.qubit": "qdist.interop.pennylane:QdistQubit"}
    if not any(point.name == "qdist.qubit" for point in entry_points(group="pennylane.plugins")):
        pytest.skip("qdist was installed before it had the entry point")
    device = qml.device("qdist.qubit", wires=2)
    assert isinstance(device, QdistQubit)
    assert device.name == "qdist.qubit"


def test_capabilities_declare_all_native_operations():
    found = QdistQubit.capabilities.operations
    names = {kind.__name__ for kind in [*FIXED, *RULES]}
    assert names <= set(found)
    for name, properties in found.items():
        assert properties.invertible
        assert properties.controllable
        assert properties.differentiable == (name in names)
    assert QdistQubit.capabilities.supported_mcm_methods == ["device", "one-shot", "tree-traversal"]
    lightning = pytest.importorskip("pennylane_lightning.lightning_qubit").LightningQubit.capabilities
    lacking = set(lightning.operations) - set(found)
    # PennyLane decomposes these, exactly.
    assert lacking <= {"PCPhase", "QubitCarry", "QubitSum", "SQISW"}


@pytest.mark.parametrize(("c_dtype", "tolerance"), [(np.complex64, 1e-5), (np.complex128, 1e-12)])
def test_dtype_of_the_amplitudes(c_dtype, tolerance):
    device = QdistQubit(wires=2, c_dtype=c_dtype)
    state = qml.QNode(lambda: (qml.RX(0.3, wires=0), qml.state())[1], device)()
    assert state.dtype == c_dtype
    np.testing.assert_allclose(qml.QNode(bell, device)(), [1, np.cos(0.3)], atol=tolerance)


def test_programs_are_compiled_once_for_a_structure(monkeypatch):
    compiled, inner = [], tapes.Program

    def counted(*args, **kwargs):
        compiled.append(1)
        return inner(*args, **kwargs)

    monkeypatch.setattr(tapes, "Program", counted)
    device = QdistQubit(wires=3)
    node = qml.QNode(bell, device)
    for x in (0.1, 0.7, 2.0):
        np.testing.assert_allclose(node(x), [1, np.cos(x)], atol=1e-12)
        qml.grad(lambda x: node(x)[1])(qml.numpy.array(x))
    node(np.linspace(0, 1, 4))
    assert len(compiled) == 1

    def embedded(features):
        qml.AmplitudeEmbedding(features, wires=[0, 1], normalize=True)
        qml.RX(0.3, wires=0)
        return qml.probs(wires=[0, 1])

    for row in np.random.default_rng(0).random((4, 4)):
        qml.QNode(embedded, device)(row)
    qml.QNode(embedded, device)(np.random.default_rng(1).random((6, 4)))
    assert len(compiled) == 2


def test_few_programs_are_kept():
    device = QdistQubit()
    for wire in range(80):
        device.execute(qml.tape.QuantumScript([qml.RX(0.1, wires=wire)], [qml.expval(qml.Z(wire))]))
    assert len(device._compiler._programs._values) == 64


def test_the_states_of_one_program_are_kept():
    device = QdistQubit(wires=3)
    first, second = (
        qml.QNode(circuit, device) for circuit in (bell, lambda x: (qml.RY(x, 2), qml.expval(qml.Z(2)))[1])
    )
    x = qml.numpy.array(0.3)
    for _ in range(2):  # A first run keeps nothing.
        qml.grad(lambda x: first(x)[1])(x)
    (kept,) = device._compiler._programs._values.values()
    runner, _ = kept.program.bind_for([Expectation(PauliSum({"Z0": 1.0}))], [0.3])
    assert kept.workspace is not None
    assert len(runner.workspaces._free) == 1
    qml.grad(second)(x)
    assert kept.workspace is None
    assert len(runner.workspaces._free) == 0
    np.testing.assert_allclose(qml.grad(lambda x: first(x)[1])(x), -np.sin(0.3), atol=1e-12)


def test_only_the_wires_of_a_circuit_are_simulated(monkeypatch):
    widths = []
    inner = tapes.Circuit
    monkeypatch.setattr(tapes, "Circuit", lambda count: widths.append(count) or inner(count))
    assert qml.QNode(bell, QdistQubit(wires=40))()[0] == pytest.approx(1)
    assert widths == [2]


def test_what_pennylane_tells_of_it():
    device = QdistQubit(wires=2)
    node = qml.QNode(bell, device)
    assert "RX" in qml.draw(node)(0.3)
    assert qml.specs(node)(0.3)["device_name"] == "qdist.qubit"
    with qml.Tracker(device) as tracker:
        qml.grad(lambda x: node(x)[1])(qml.numpy.array(0.3))
    assert tracker.totals["batches"] == 1
    assert tracker.totals["simulations"] == 1
    assert tracker.totals["vjps"] == 1
    assert qml.workflow.get_best_diff_method(node)(0.3) == "adjoint"
    qml.about()


def test_without_operations_or_wires():
    device = QdistQubit()
    empty = qml.tape.QuantumScript([], [qml.expval(qml.Identity(0))])
    np.testing.assert_allclose(device.execute(empty), 1)
    phased = qml.tape.QuantumScript([qml.GlobalPhase(0.4)], [qml.expval(qml.Z(0))])
    np.testing.assert_allclose(device.execute(phased), 1)


class Nothing(qml.operation.Operation):
    num_wires = 1


@pytest.mark.parametrize(
    ("run", "message"),
    [
        (lambda: QdistQubit(c_dtype=np.float64), "complex64 and complex128"),
        (lambda: qml.QNode(lambda: (Nothing(0), qml.expval(qml.Z(0)))[1], QdistQubit())(), "Nothing"),
        (lambda: qml.QNode(lambda: qml.sample(wires=0), QdistQubit())(), "sample"),
        (
            lambda: qml.set_shots(qml.QNode(lambda: qml.state(), QdistQubit(wires=1)), 5)(),
            "state",
        ),
        (
            lambda: QdistQubit().execute(
                qml.tape.QuantumScript([qml.QubitUnitary(np.ones((2, 2)), 0)], [qml.probs(wires=0)])
            ),
            "not unitary",
        ),
        (
            lambda: QdistQubit().execute(qml.tape.QuantumScript([qml.RX(0.3 + 1j, 0)], [qml.probs(wires=0)])),
            "real numbers",
        ),
        (
            lambda: QdistQubit().setup_execution_config(qml.devices.ExecutionConfig(device_options={"speed": 3})),
            "speed",
        ),
        (lambda: QdistQubit(device="tpu"), "device='tpu': use 'cpu'"),
        (lambda: QdistQubit(comm="all"), "comm='all': .*communicator"),
    ],
)
def test_errors_are_pennylanes_and_name_what_is_wrong(run, message):
    with pytest.raises(qml.exceptions.DeviceError, match=message):
        run()


def test_batches_that_do_not_fit_are_named():
    """They were said to be no real numbers."""
    for ops, shapes in (
        ([qml.RX([0.1, 0.2], 0), qml.RY([0.1, 0.2, 0.3], 0)], r"\(2,\), \(3,\)"),
        ([qml.RX(np.ones((2, 2)), 0)], r"\(2, 2\)"),
    ):
        tape = qml.tape.QuantumScript(ops, [qml.expval(qml.Z(0))])
        with pytest.raises(qml.exceptions.DeviceError, match=f"angles of shapes {shapes}: .*one for each of its rows"):
            QdistQubit().execute(tape)


def test_wires_that_the_device_lacks():
    with pytest.raises(qml.exceptions.WireError, match="not found"):
        qml.QNode(bell, QdistQubit(wires=["a"]))()


def test_num_angles_of_native_operations():
    assert operations.num_angles(qml.adjoint(qml.Rot(1, 2, 3, wires=0), lazy=True)) == 3
    assert operations.num_angles(qml.QubitUnitary(np.eye(2), wires=0)) == 0


def test_a_repeated_tape_is_bound_without_asking_pennylane_anew_of_each_operation():
    """What a tape's structure tells (wires, batch, slots of parameters) is found again by its signatures."""
    angles = qml.numpy.array(np.linspace(-1, 1, 40).reshape(2, 10, 2))

    def circuit(angles):
        for layer in angles:
            for wire, pair in enumerate(layer):
                qml.RY(pair[0], wires=wire)
                qml.RZ(pair[1], wires=wire)
            for wire in range(9):
                qml.CNOT([wire, wire + 1])
        return qml.expval(qml.Z(0) @ qml.X(4))

    gradient = qml.grad(qml.QNode(circuit, QdistQubit(wires=10)))
    expected = qml.grad(qml.QNode(circuit, qml.device("default.qubit")))(2 * angles)
    gradient(angles)
    profile = cProfile.Profile()
    np.testing.assert_allclose(profile.runcall(gradient, 2 * angles), expected, atol=1e-10)
    calls: Counter[str] = Counter()
    for (file, _, name), (_, times, *_) in pstats.Stats(profile).stats.items():
        folder = Path(file).parent.name
        if folder == "pennylane" and Path(file).parent.parent.name == "interop":
            calls["ours"] += times
        elif name in ("batch_size", "all_wires", "convert_to_numpy_parameters"):
            calls[name] += times
    count = 2 * (20 + 9)
    assert calls["batch_size"] == 0
    assert calls["convert_to_numpy_parameters"] == 1, "PennyLane's own, of the vector-Jacobian product"
    # The preprocessing looks at each operation (is it accepted, is it differentiable), and binding takes each angle.
    assert calls["ours"] < 12 * count


@pytest.mark.parametrize("angle", [0.3 + 0.1j, np.complex128(0.3 + 0.1j), np.array([0.2, 0.3 + 0.1j])])
def test_imaginary_parts_of_angles_are_not_dropped(angle):
    @qml.qnode(qml.device("qdist.qubit", wires=1))
    def circuit(x):
        qml.RX(x, wires=0)
        return qml.expval(qml.Z(0))

    with pytest.raises(qml.exceptions.DeviceError, match=r"are real numbers: one is \(?0\.3\+0\.1j"):
        circuit(angle)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        np.testing.assert_allclose(circuit(np.real(angle) + 0j), np.cos(np.real(angle)))
