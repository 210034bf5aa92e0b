"""VQNet's devices: what moves where, and training there, on the device that --device names."""

import numpy as np
import pytest

from qdist.comm import cuda_devices
from qdist.interop import vqnet
from qdist.interop.vqnet import QTensor, nn
from qdist.interop.vqnet.distributed import PipelineParallelTrainingWrapper, ZeroModelInitial
from qdist.interop.vqnet.distributed.qubits_reorder import DistQuantumLayerAdjoint, DistributeQMachine
from qdist.interop.vqnet.qnn.vqc import MeasureAll, cnot, rx, ry
from qdist.tensor import manual_seed

no_gpu = pytest.mark.skipif(cuda_devices() > 0, reason="there is a GPU")


@pytest.fixture
def number(device: str) -> int:
    """VQNet's number of the device."""
    return vqnet.DEV_CPU if device == "cpu" else vqnet.DEV_GPU_0


@pytest.fixture
def place(device: str) -> str:
    return "cpu" if device == "cpu" else "cuda:0"


def modules() -> list[nn.Module]:
    controller = vqnet.CommController("mpi")
    return [
        nn.Linear(2, 3),
        nn.Conv2D(1, 2, (3, 3)),
        nn.MaxPool2D([2, 2], [2, 2]),
        nn.CrossEntropyLoss(),
        nn.activation.ReLu(),
        nn.Sequential(nn.Linear(2, 3), nn.activation.Tanh()),
        vqnet.distributed.ColumnParallelLinear(2, 4, tp_comm=controller),
        vqnet.distributed.RowParallelLinear(2, 4, tp_comm=controller),
        MeasureAll(obs={"Z0": 1.0}),
        Model(),
        DistQuantumLayerAdjoint(Model()),
    ]


class Model(nn.Module):
    """<Z1> after rotations by x and by parameters."""

    def __init__(self, dtype: int = vqnet.kcomplex128) -> None:
        super().__init__()
        self.machine = DistributeQMachine(2, dtype=dtype, grad_mode="adjoint")
        self.params = nn.Parameter([2], lambda shape: np.array([0.3, 0.8]), dtype=vqnet.kfloat64)
        self.measure = MeasureAll(obs={"Z1": 1.0})

    def forward(self, x):
        self.machine.reset_states(x.shape[0])
        rx(q_machine=self.machine, wires=0, params=x)
        ry(q_machine=self.machine, wires=1, params=self.params[1])
        cnot(q_machine=self.machine, wires=[0, 1])
        return self.measure(q_machine=self.machine)


def test_every_module_moves(number: int, place: str) -> None:
    for module in modules():
        assert module.to(number) is module
        assert {p.device for p in module.parameters()} <= {place}
        assert module.toCPU() is module


def test_a_tensor_moves_and_stays_in_the_graph(number: int, place: str) -> None:
    x = QTensor(np.array([1.0, 2.0]), requires_grad=True)
    y = (x.reshape((2, 1)).to(number) * 3).toCPU()
    assert isinstance(y, QTensor)
    assert x.to(number).device == place
    y.backward()
    assert x.grad.tolist() == [3.0, 3.0]
    complex_data = QTensor([3 + 1j, 2, 1], dtype=8).reshape((3, 1)).to(number)
    assert (complex_data.device, complex_data.dtype) == (place, np.complex64)


def test_what_a_program_computes_is_a_qtensor() -> None:
    x = QTensor(np.ones((2, 3)))
    for made in (x + 1, 2 * x, x @ x.T, x[0], x.detach(), x.reshape(3, 2).sum(), *x.split(1), x == x, x.clone()):
        assert type(made) is QTensor
    assert type(nn.Parameter([3])[0]) is QTensor
    assert type(nn.Sequential(nn.Linear(3, 2, dtype=vqnet.kfloat64), nn.activation.ReLu())(x)) is QTensor


def test_a_parameter_stays_itself(number: int, place: str) -> None:
    parameter = nn.Parameter([3])
    before = parameter.tolist()
    assert parameter.to(number) is parameter
    assert (parameter.device, parameter.tolist()) == (place, before)
    parameter.init_from_tensor(np.arange(3.0))
    assert parameter.tolist() == [0, 1, 2]
    model = nn.Module()
    model.p = parameter
    assert list(model.parameters()) == [parameter]


def test_circuits_run_where_their_module_is(number: int, place: str) -> None:
    model = Model().to(number)
    assert model.machine.device == place
    layer = DistQuantumLayerAdjoint(model)
    x = QTensor(np.array([[0.2], [0.9]])).to(number)
    y = layer(x)
    assert y.device == place
    a = x.numpy().ravel()
    np.testing.assert_allclose(y.numpy().ravel(), np.cos(a) * np.cos(0.8), atol=1e-12)
    y.backward()
    np.testing.assert_allclose(model.params.grad.numpy(), [0, -np.cos(a).sum() * np.sin(0.8)], atol=1e-12)
    single = DistributeQMachine(1)
    single.place(place)
    rx(q_machine=single, wires=0, params=0.5)  # A number comes from the host.
    assert MeasureAll(obs={"Z0": 1.0})(q_machine=single).item() == pytest.approx(np.cos(0.5), abs=1e-6)


def trained_by_zero(number: int) -> list:
    manual_seed(2)
    model = nn.Sequential(nn.Linear(3, 4, dtype=vqnet.kfloat64), nn.Linear(4, 2, dtype=vqnet.kfloat64)).to(number)
    described = {"type": "adam", "params": {"lr": 0.1, "beta1": 0.8, "epsilon": 1e-6}}
    config = {"train_batch_size": 5, "optimizer": described, "zero_optimization": {"stage": 1}}
    engine = ZeroModelInitial(config, model)
    assert engine.optimizer.defaults["betas"] == (0.8, 0.999)
    assert engine.optimizer.defaults["eps"] == 1e-6
    x = QTensor(np.random.default_rng(0).normal(size=(5, 3))).to(number)
    labels = QTensor(np.array([[0], [1], [1], [0], [1]])).to(number)
    for _ in range(3):
        engine.backward(nn.CrossEntropyLoss()(labels, engine(x)))
        engine.step()
    return [p.toCPU().tolist() for p in model.parameters()]


def test_zero_trains_where_the_model_is(number: int) -> None:
    for got, want in zip(trained_by_zero(number), trained_by_zero(vqnet.DEV_CPU), strict=True):
        np.testing.assert_allclose(got, want, atol=1e-10)


def trained_by_pipeline(device: int) -> list[float]:
    manual_seed(2)
    layers = [nn.Linear(3, 4), nn.activation.ReLu(), nn.Linear(4, 2)]
    rng = np.random.default_rng(0)
    trainset = [
        (row, int(label)) for row, label in zip(rng.normal(size=(6, 3)).astype(np.float32), rng.integers(0, 2, 6))
    ]
    args = {"train_batch_size": 2, "train_micro_batch_size_per_gpu": 1, "loss": nn.CrossEntropyLoss(), "backend": "mpi"}
    args |= {"optimizer": {"type": "Adam", "params": {"lr": 0.1, "beta2": 0.9}}, "device": device}
    wrapper = PipelineParallelTrainingWrapper(args, layers, trainset)
    wrapper.train_batch()
    assert all(p.device.startswith("cuda") == (device >= 1000) for layer in layers for p in layer.parameters())
    return list(wrapper.loss_dict.values())


def test_the_pipeline_trains_on_its_device(number: int) -> None:
    np.testing.assert_allclose(trained_by_pipeline(number), trained_by_pipeline(vqnet.DEV_CPU), rtol=1e-4)


@no_gpu
def test_without_a_gpu_an_error_says_so() -> None:
    x, model = QTensor([1.0]), Model()
    for move in (
        x.toGPU,
        lambda: x.to(vqnet.DEV_GPU_0 + 1),
        nn.Parameter([2]).toGPU,
        *(module.toGPU for module in modules() if list(module.parameters())),
        lambda: model.machine.place("cuda:0"),
        lambda: trained_by_pipeline(vqnet.DEV_GPU_0),
    ):
        with pytest.raises(RuntimeError, match=r"device 'cuda:\d' needs CuPy and a CUDA driver"):
            move()
    assert model.params.device == model.machine.device == "cpu"


def test_what_is_no_gpu_is_refused() -> None:
    for move in (QTensor([1.0]).toGPU, nn.Linear(1, 1).toGPU):
        with pytest.raises(ValueError, match=r"toGPU\(0\): give 1000 \+ k"):
            move(vqnet.DEV_CPU)
