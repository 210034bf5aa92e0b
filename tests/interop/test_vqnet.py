"""VQNet's surface: gates and measurements against the dense reference, collectives on ranks."""

import importlib
from pathlib import Path

import numpy as np
import pytest

import qdist as qd
from qdist.comm import CommError
from qdist.interop import vqnet
from qdist.interop.vqnet import QTensor
from qdist.interop.vqnet.qnn import vqc
from qdist.state import reference

# VQNet's name of each gate, and the method of Circuit that is the same gate.
GATES = {
    "i": "id",
    "hadamard": "h",
    "s": "s",
    "t": "t",
    "paulix": "x",
    "pauliy": "y",
    "pauliz": "z",
    "rx": "rx",
    "ry": "ry",
    "rz": "rz",
    "u1": "p",
    "u2": "u2",
    "u3": "u",
    "cnot": "cx",
    "cy": "cy",
    "cz": "cz",
    "cr": "cp",
    "crx": "crx",
    "cry": "cry",
    "crz": "crz",
    "rxx": "rxx",
    "ryy": "ryy",
    "rzz": "rzz",
    "rzx": "rzx",
    "swap": "swap",
    "iswap": "iswap",
    "cswap": "cswap",
    "toffoli": "ccx",
}
PAULIS = [{f"{a}0 {b}1 {c}2": 1.0} for a in "IXZ" for b in "IXY" for c in "IYZ"]


def prepared() -> tuple[vqnet.DistributeQMachine, qd.Circuit]:
    """A machine and a circuit in the same state, which no gate leaves alone."""
    machine, circuit = vqnet.DistributeQMachine(3, dtype=vqnet.kcomplex128), qd.Circuit(3)
    for wire, angle in enumerate((0.4, 0.9, -1.3)):
        vqc.ry(q_machine=machine, wires=wire, params=QTensor(angle))
        vqc.rz(q_machine=machine, wires=wire, params=QTensor([angle / 2]))
        circuit.ry(np.float32(angle), wire).rz(np.float32(angle / 2), wire)
    return machine, circuit


def expected(circuit: qd.Circuit) -> np.ndarray:
    psi = reference.state(circuit)
    return np.array([(psi.conj() @ qd.PauliSum(o).to_matrix(3) @ psi).real for o in PAULIS])


def test_every_functional_gate_is_listed_here() -> None:
    assert set(vqc.__all__) - {"MeasureAll"} == set(GATES)


@pytest.mark.parametrize(("name", "method"), GATES.items())
def test_gates_do_what_the_circuits_do(name: str, method: str) -> None:
    machine, circuit = prepared()
    gate = qd.circuit.GATES[method]
    angles, wires = [0.7, -0.2, 1.9][: gate.num_params], [2, 0, 1][: gate.num_qubits]
    where = wires[0] if gate.num_qubits == 1 else wires
    getattr(vqc, name)(q_machine=machine, wires=where, params=QTensor(np.array(angles)) if angles else None)
    getattr(circuit, method)(*angles, *wires)
    got = vqc.MeasureAll(obs=PAULIS)(q_machine=machine)
    np.testing.assert_allclose(got.numpy()[0], expected(circuit), atol=1e-12)


@pytest.mark.parametrize("name", GATES)
def test_a_gate_and_its_dagger_cancel(name: str) -> None:
    machine, circuit = prepared()
    gate = qd.circuit.GATES[GATES[name]]
    params = QTensor(np.array([[0.7, -0.2, 1.9][: gate.num_params]])) if gate.num_params else None
    for dagger in (False, True):
        getattr(vqc, name)(machine, [2, 0, 1][: gate.num_qubits], params, use_dagger=dagger)
    got = vqc.MeasureAll(obs=PAULIS)(q_machine=machine)
    np.testing.assert_allclose(got.numpy()[0], expected(circuit), atol=1e-12)


def test_params_may_differ_along_the_batch_and_have_gradients() -> None:
    machine = vqnet.DistributeQMachine(2, dtype=vqnet.kcomplex128, grad_mode="adjoint")
    x = QTensor(np.array([[0.3, 0.8], [1.1, -0.4], [2.0, 0.6]]), requires_grad=True)
    weight = vqnet.nn.Parameter([2], dtype=vqnet.kfloat64)
    machine.reset_states(3)
    vqc.ry(q_machine=machine, wires=0, params=x[:, [0]])
    vqc.ry(q_machine=machine, wires=1, params=weight[1])
    vqc.ry(q_machine=machine, wires=0, params=x[:, [1]])
    y = vqc.MeasureAll(obs=[{"Z0": 2.0}, {"Z1": 1.0}])(q_machine=machine)
    total, w = x.numpy().sum(axis=1), weight.numpy()[1]
    np.testing.assert_allclose(y.numpy(), np.stack([2 * np.cos(total), np.full(3, np.cos(w))], axis=1), atol=1e-13)
    y.backward()  # As in VQNet, of the sum of all elements.
    np.testing.assert_allclose(x.grad.numpy(), np.repeat(-2 * np.sin(total)[:, None], 2, axis=1), atol=1e-13)
    np.testing.assert_allclose(weight.grad.numpy(), [0, -3 * np.sin(w)], atol=1e-13)


@pytest.mark.parametrize("angle", [0.1, 1 / 3, np.float64(0.7), [2.2], (0.9,), np.array([[1.7]])])
def test_plain_numbers_keep_their_digits(angle) -> None:
    machine = vqnet.DistributeQMachine(1, dtype=vqnet.kcomplex128)
    vqc.rx(q_machine=machine, wires=0, params=angle)
    got = vqc.MeasureAll(obs={"Z0": 1.0})(q_machine=machine)
    np.testing.assert_allclose(got.numpy(), np.cos(np.reshape(angle, (1, 1))), atol=1e-14)


def test_tensors_in_a_list_of_params_have_gradients() -> None:
    theta, phi = (QTensor(np.array(value), requires_grad=True) for value in (0.4, [1.1]))
    machine = vqnet.DistributeQMachine(1, dtype=vqnet.kcomplex128, grad_mode="adjoint")
    vqc.u3(q_machine=machine, wires=0, params=[theta, phi, 0.3])
    vqc.MeasureAll(obs={"X0": 1.0})(q_machine=machine).backward()
    assert theta.grad.item() == pytest.approx(np.cos(0.4) * np.cos(1.1))
    assert phi.grad.item() == pytest.approx(-np.sin(0.4) * np.sin(1.1))
    with pytest.raises(ValueError, match=r"u takes params of shape \(3,\)"):
        vqc.u3(q_machine=machine, wires=0, params=[theta, phi])


def test_a_batch_may_be_empty() -> None:
    machine = vqnet.DistributeQMachine(2)
    for given in ([np.zeros((0, 1))], [np.zeros((0, 1)), 0.3], [0.3, 0.2], []):
        machine.reset_states(0)
        for angle in given:
            vqc.rx(q_machine=machine, wires=0, params=angle)
        assert vqc.MeasureAll(obs=[{"Z0": 1.0}, {"Z1": 1.0}])(q_machine=machine).shape == (0, 2)
    for size in (-1, 2.5):
        with pytest.raises(ValueError, match="a whole number of states"):
            machine.reset_states(size)


def test_the_same_gates_are_planned_once() -> None:
    machine = vqnet.DistributeQMachine(2)
    measure = vqc.MeasureAll(obs={"Z0": 1.0})
    for angle in (0.1, 0.2, 0.3):
        machine.reset_states(1)
        vqc.rx(q_machine=machine, wires=0, params=angle)
        assert measure(q_machine=machine).item() == pytest.approx(np.cos(angle), abs=1e-6)
    assert len(machine._layers) == 1
    machine.reset_states(1)
    assert measure(q_machine=machine).item() == pytest.approx(1, abs=1e-6)


def test_wrong_settings_are_refused() -> None:
    machine = vqnet.DistributeQMachine(4)
    machine.set_just_defined(True)
    machine.set_save_op_history_flag(True)
    machine.set_qr_config({"qubit": 4, "global_qubit": 0})
    for setting in (machine.set_just_defined, machine.set_save_op_history_flag):
        with pytest.raises(ValueError, match=f"{setting.__name__}.False.: a DistributeQMachine always"):
            setting(False)
    with pytest.raises(ValueError, match="'qubit' is 5, but the machine has 4 wires"):
        machine.set_qr_config({"qubit": 5, "global_qubit": 0})
    with pytest.raises(ValueError, match="'global_qubit' is 1, for 2 ranks; this job has 1"):
        machine.set_qr_config({"qubit": 4, "global_qubit": 1})
    with pytest.raises(ValueError, match=r"not \['local'\]"):
        machine.set_qr_config({"qubit": 4, "global_qubit": 0, "local": 1})
    with pytest.raises(ValueError, match=r"not \['qubit'\] alone"):
        machine.set_qr_config({"qubit": 4})
    for dtype in (vqnet.kfloat32, vqnet.kint64):
        with pytest.raises(ValueError, match=r"kcomplex64 \(8\) or kcomplex128 \(9\)"):
            vqnet.DistributeQMachine(4, dtype=dtype)
    for angle in (1j, np.array([0.5 + 0j]), QTensor(np.array([1j])), [QTensor(np.array([1j]))]):
        with pytest.raises(ValueError, match="rx takes real params, not complex"):
            vqc.rx(q_machine=machine, wires=0, params=angle)
    with pytest.raises(ValueError, match="grad_mode='shift'"):
        vqnet.DistributeQMachine(4, grad_mode="shift")
    with pytest.raises(ValueError, match=r"rx takes params of shape \(1,\)"):
        vqc.rx(q_machine=machine, wires=0, params=QTensor([1.0, 2.0]))
    with pytest.raises(ValueError, match=r"cx takes params of shape \(0,\)"):
        vqc.cnot(q_machine=machine, wires=[0, 1], params=QTensor([1.0]))
    with pytest.raises(ValueError, match="backend='gloo'"):
        vqnet.CommController("gloo")
    with pytest.raises(ValueError, match="dtype=12"):
        QTensor([1.0], dtype=12)


def test_the_backend_is_the_one_that_was_asked_for_or_an_error_says_how_to_get_it() -> None:
    assert vqnet.get_rank() == 0
    wrapper = {"train_batch_size": 1, "train_micro_batch_size_per_gpu": 1, "optimizer": {"type": "sgd"}}
    wrapper |= {"loss": vqnet.nn.CrossEntropyLoss(), "backend": "nccl"}
    for ask in (
        lambda: vqnet.CommController("nccl"),
        lambda: vqnet.distributed.PipelineParallelTrainingWrapper(wrapper, [vqnet.nn.Linear(1, 1)], [([0.0], 0)]),
    ):
        with pytest.raises(CommError, match=r"not backend='nccl': call qdist.comm.shutdown\(\) on all ranks"):
            ask()
    with pytest.raises(CommError, match="rank=0, world_size=1 and not rank=1, world_size=2"):
        vqnet.CommController("mpi", 1, 2)
    assert vqnet.CommController("mpi").getSize() == 1


def test_the_adjoint_layer_needs_a_machine() -> None:
    class Model(vqnet.nn.Module):
        def __init__(self, grad_mode: str) -> None:
            super().__init__()
            self.machine = vqnet.DistributeQMachine(2, grad_mode=grad_mode)

    vqnet.DistQuantumLayerAdjoint(Model("adjoint"))
    for module in (Model(""), vqnet.nn.Module()):
        with pytest.raises(ValueError, match="needs a DistributeQMachine"):
            vqnet.DistQuantumLayerAdjoint(module)


def test_tensors_take_vqnets_dtypes() -> None:
    assert QTensor([3 + 1j, 2], dtype=8).dtype == np.complex64
    assert QTensor([1, 2], dtype=vqnet.kfloat64).dtype == np.float64
    assert vqnet.tensor.zeros_like(QTensor([1.0, 2.0])).tolist() == [0.0, 0.0]
    assert vqnet.tensor.tensor is vqnet.tensor
    parameter = vqnet.nn.Parameter([2, 3])
    parameter.init_from_tensor(np.arange(6.0).reshape(2, 3))
    assert parameter.dtype == np.float32
    assert parameter.tolist() == [[0, 1, 2], [3, 4, 5]]


def test_import_star_brings_what_the_programs_use() -> None:
    names: dict = {}
    exec("from qdist.interop.vqnet.distributed import *\nfrom qdist.interop.vqnet import *", names)
    assert names["np"] is np
    assert names["tensor"] is vqnet.tensor
    for name in (
        "CommController",
        "get_rank",
        "get_local_rank",
        "init_group",
        "ZeroModelInitial",
        "kfloat32",
        "kint64",
    ):
        assert name in names
    for path, name in (
        ("distributed.ControlComm", "CommController"),
        ("distributed.datasplit", "split_data"),
        ("distributed.qubits_reorder", "DistributeQMachine"),
        ("qnn.vqc", "rx"),
    ):
        assert hasattr(importlib.import_module(f"qdist.interop.vqnet.{path}"), name)


def test_set_random_seed_repeats_parameters() -> None:
    drawn = []
    for seed in (1, 1, 2):
        vqnet.utils.set_random_seed(seed)
        drawn.append(vqnet.nn.Parameter([4]).numpy())
    np.testing.assert_array_equal(drawn[0], drawn[1])
    assert (drawn[0] != drawn[2]).all()


def test_collectives_on_four_ranks(pass_on_ranks) -> None:
    pass_on_ranks(4, [Path(__file__).parent / "ranks" / "mpi_vqnet.py"])
