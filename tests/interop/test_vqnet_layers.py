"""VQNet's layers, losses, data and devices by their names, beside this library's own and torch."""

import numpy as np
import pytest
import torch

from qdist import optim
from qdist.interop import vqnet
from qdist.interop.vqnet import QTensor, nn, tensor
from qdist.interop.vqnet.utils import initializer
from qdist.nn import Linear as PlainLinear
from qdist.tensor import Tensor, manual_seed


def test_layers_start_as_the_plain_ones_or_as_told() -> None:
    manual_seed(5)
    layer = nn.Linear(4, 3)
    manual_seed(5)
    plain = PlainLinear(4, 3)
    np.testing.assert_array_equal(layer.weight.numpy(), plain.weight.numpy())
    assert layer.weight.dtype == np.float32
    assert sum(p.numel() for p in layer.parameters()) == 15
    told = nn.Linear(4, 3, initializer.ones, lambda shape: np.full(shape, 2.0), dtype=vqnet.kfloat64, name="head")
    assert told(Tensor(np.ones((1, 4)))).tolist() == [[6.0, 6.0, 6.0]]
    assert told.name == "head"
    assert nn.Linear(4, 3, use_bias=False).bias is None
    with pytest.raises(TypeError, match=r"gave nothing for the shape \(3, 4\): an initialiser takes a shape"):
        nn.Linear(4, 3, lambda shape: None)
    with pytest.raises(ValueError, match=r"cannot assign shape \(2,\) to a tensor of shape \(3, 4\)"):
        nn.Linear(4, 3, lambda shape: np.zeros(2))


@pytest.mark.parametrize("name", [n for n in initializer.__all__ if n not in ("Initializer", "fill")])
def test_initialisers_take_a_shape(name: str) -> None:
    values = getattr(initializer, name)((300, 200))
    assert (type(values), values.shape, values.dtype) == (QTensor, (300, 200), np.float32)
    assert getattr(initializer, name)([2, 3], dtype=vqnet.kfloat64).dtype == np.float64
    mean = {"ones": 1.0, "uniform": 0.5, "quantum_uniform": np.pi}.get(name, 0.0)
    deviation = {"zeros": 0.0, "ones": 0.0, "normal": 1.0, "uniform": 12**-0.5, "quantum_uniform": np.pi / 3**0.5}
    deviation |= {"he_normal": 0.1, "he_uniform": 0.1, "xavier_normal": 0.004**0.5, "xavier_uniform": 0.004**0.5}
    np.testing.assert_allclose([values.numpy().mean(), values.numpy().std()], [mean, deviation[name]], atol=0.02)


def test_the_default_dtype_is_that_of_layers_and_parameters() -> None:
    vqnet.set_default_dtype(vqnet.kfloat64)
    try:
        assert vqnet.get_default_dtype() == vqnet.kfloat64
        assert nn.Linear(2, 2).weight.dtype == nn.Parameter([1]).dtype == np.float64
    finally:
        vqnet.set_default_dtype(vqnet.kfloat32)
    assert nn.Parameter([1]).dtype == np.float32
    with pytest.raises(ValueError, match="dtype=5: parameters are kfloat32"):
        vqnet.set_default_dtype(vqnet.kint64)


def test_parallel_layers_start_as_documented() -> None:
    for layer in (vqnet.distributed.ColumnParallelLinear, vqnet.distributed.RowParallelLinear):
        made = layer(200, 300, tp_comm=vqnet.CommController("mpi"))
        np.testing.assert_allclose([made.weight.numpy().mean(), made.weight.numpy().std()], [0, 1], atol=0.02)
        assert set(made.bias.tolist()) == {0.0}
        told = layer(2, 3, initializer.ones, initializer.ones, tp_comm=vqnet.CommController("mpi"))
        assert told(QTensor([[1.0, 2.0]])).tolist() == [[4.0, 4.0, 4.0]]


def test_gradients_reach_the_parameters() -> None:
    layer = nn.Linear(2, 1)
    layer(QTensor([[1.0, 2.0]])).backward(np.ones((1, 1), np.float32))
    assert [p.grad.tolist() for p in layer.parameters()] == [[[1.0, 2.0]], [1.0]]


@pytest.mark.parametrize(
    ("kernel", "padding", "dilation"),
    [((3, 3), "same", (1, 1)), ((5, 3), "same", (1, 2)), ((2, 3), "valid", (1, 1)), ((3, 3), (2, 1), (1, 1))],
)
def test_convolutions_are_torchs(kernel, padding, dilation) -> None:
    layer = nn.Conv2D(3, 4, kernel, (1, 1), padding, dilation_rate=dilation, dtype=vqnet.kfloat64)
    theirs = torch.nn.Conv2d(3, 4, kernel, 1, padding, dilation, dtype=torch.float64)
    x = np.random.default_rng(0).normal(size=(2, 3, 8, 7))
    with torch.no_grad():
        theirs.weight.copy_(torch.tensor(layer.weight.numpy()))
        theirs.bias.copy_(torch.tensor(layer.bias.numpy()))
        want = theirs(torch.tensor(x)).numpy()
    np.testing.assert_allclose(layer(Tensor(x)).numpy(), want, atol=1e-12)


def test_pooling_takes_a_kernel_and_a_stride() -> None:
    x = np.random.default_rng(0).normal(size=(1, 2, 7, 7))
    want = torch.nn.functional.max_pool2d(torch.tensor(x), 3, 2).numpy()
    np.testing.assert_array_equal(nn.MaxPool2D([3, 3], [2, 2])(Tensor(x)).numpy(), want)


@pytest.mark.parametrize("targets", [[[2], [0]], [2, 0], [[0, 0, 1], [1, 0, 0]]], ids=["column", "row", "one-hot"])
def test_the_loss_takes_targets_first_in_any_form(targets) -> None:
    logits = np.array([[0.3, -1.0, 2.0], [0.1, 0.2, 0.3]])
    want = torch.nn.functional.cross_entropy(torch.tensor(logits), torch.tensor([2, 0])).item()
    loss = nn.CrossEntropyLoss()(QTensor(np.array(targets), dtype=vqnet.kint64), Tensor(logits))
    assert loss.item() == pytest.approx(want, rel=1e-12)


def test_optimisers_take_vqnets_options() -> None:
    def after(make):
        parameter = nn.Parameter([3], initializer.ones)
        update = make([parameter])
        for _ in range(3):
            parameter.grad = Tensor(np.array([1.0, -2.0, 0.5], np.float32))
            update.step()
        return parameter.tolist()

    ours = after(lambda ps: vqnet.optim.Adam(ps, 0.1, beta1=0.8, beta2=0.9, epsilon=1e-4, weight_decay=0.01))
    assert ours == after(lambda ps: optim.Adam(ps, 0.1, (0.8, 0.9), 1e-4, 0.01))
    assert after(lambda ps: vqnet.optim.SGD(ps, momentum=0.9)) == after(lambda ps: optim.SGD(ps, 0.01, 0.9))


@pytest.mark.parametrize(
    ("given", "plain"),
    [
        ({"beta1": 0.8}, {"betas": (0.8, 0.999)}),
        ({"lr": 1, "beta2": 0.9, "epsilon": 1e-4}, {"lr": 1, "betas": (0.9, 0.9), "eps": 1e-4}),
        ({"betas": [0.5, 0.6]}, {"betas": [0.5, 0.6]}),
    ],
)
def test_configurations_take_vqnets_options(given, plain) -> None:
    config = {"optimizer": {"type": "adam", "params": given}, "steps": 1}
    assert vqnet.optim.plain_options(config) == {"optimizer": {"type": "adam", "params": plain}, "steps": 1}
    with pytest.raises(ValueError, match="both 'beta1' and 'betas'"):
        vqnet.optim.plain_options({"optimizer": {"params": {"beta1": 0.9, "betas": (0.9, 0.9)}}})


def test_functions_on_tensors() -> None:
    x = QTensor([[1.0, 3.0, 2.0], [6.0, 5.0, 4.0]])
    places = tensor.argmax(x, dim=1, keepdims=True)
    assert places.tolist() == [[1], [0]]
    assert tensor.argmax(x).item() == 3
    assert tensor.argmax(x, keepdims=True).tolist() == [[3]]
    assert tensor.sums(places == QTensor(np.array([[1], [2]]), dtype=vqnet.kint64)).item() == 1
    assert tensor.sums(x, 0).tolist() == [7, 8, 6]
    assert tensor.flatten(QTensor(np.zeros((2, 3, 4))), 1).shape == (2, 12)
    assert x.numel() == 6


def test_devices_are_numbers() -> None:
    model = nn.Module()
    model.layer = nn.Linear(2, 2)
    assert model.to(vqnet.DEV_CPU) is model
    x = QTensor([1.0], requires_grad=True)
    assert x.to(vqnet.DEV_CPU) is x
    with pytest.raises(ValueError, match="device=7"):
        x.to(7)
    with pytest.raises(ValueError, match="device=999"):
        model.to(999)


def test_cifar_images_in_either_layout(tmp_path) -> None:
    rng = np.random.default_rng(0)
    records = rng.integers(0, 256, (2, 3073), dtype=np.uint8)
    records[:, 0] = [7, 2]
    (tmp_path / "cifar-10-batches-bin").mkdir()
    (tmp_path / "cifar-10-batches-bin" / "test_batch.bin").write_bytes(records.tobytes())
    shown = vqnet.data.CIFAR10_Dataset(tmp_path, "test", vqnet.data.TransformToTensor())
    image, label = shown[1]
    assert (len(shown), label, image.shape) == (2, 2, (3, 32, 32))
    np.testing.assert_allclose(image.reshape(-1), records[1, 1:] / 255, rtol=1e-6)
    raw = vqnet.data.CIFAR10_Dataset(tmp_path / "cifar-10-batches-bin", "test", layout="CHW")
    np.testing.assert_array_equal(raw[0][0].reshape(-1), records[0, 1:])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: nn.Conv2D(1, 1, (2, 2), padding="same"), "an odd kernel, got"),
        (lambda: nn.Conv2D(1, 1, (3, 3), (2, 2), padding="same"), "a stride of 1"),
        (lambda: nn.Conv2D(1, 1, (3, 3), padding="full"), "padding='full'"),
        (lambda: nn.MaxPool2D([2, 2], [2, 2], "same"), "padding='same' is not provided"),
        (lambda: vqnet.data.CIFAR10_Dataset("x", "validation"), "mode='validation'"),
        (lambda: vqnet.data.CIFAR10_Dataset("x", layout="WHC"), "layout='WHC'"),
        (lambda: vqnet.distributed.PipelineParallelTrainingWrapper({}, [], []), "args need 'loss'"),
    ],
)
def test_what_is_not_provided_is_refused(call, message) -> None:
    with pytest.raises(ValueError, match=message):
        call()


def test_parallel_layers_need_a_controller() -> None:
    with pytest.raises(TypeError, match="ColumnParallelLinear needs tp_comm"):
        vqnet.distributed.ColumnParallelLinear(4, 4)
    with pytest.raises(TypeError, match="RowParallelLinear needs tp_comm"):
        vqnet.distributed.RowParallelLinear(4, 4, tp_comm=3)
