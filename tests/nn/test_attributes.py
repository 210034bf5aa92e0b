"""Attributes of modules: nothing that is trained or saved is lost by an assignment."""

import numpy as np
import pytest

from qdist import nn, optim
from qdist.tensor import Tensor, no_grad


class Counting(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(2, 3)
        self.register_buffer("count", np.array([0, 10]))
        self.register_buffer("mean", np.zeros(2, np.float32))

    def forward(self, x):
        self.count += 1
        with no_grad():
            self.mean = 0.5 * self.mean + 0.5 * x.mean(axis=0)
        return self.linear(x)


def test_a_buffer_that_is_assigned_to_stays_in_the_state():
    net = Counting()
    for _ in range(3):
        net(Tensor(np.ones((4, 2), np.float32)))
    state = net.state_dict()
    assert list(state) == ["linear.weight", "linear.bias", "count", "mean"]
    assert state["count"].tolist() == [3, 13]
    assert state["mean"].tolist() == [0.875, 0.875]
    assert [name for name, _ in net.named_buffers()] == ["count", "mean"]
    other = Counting()
    other.load_state_dict(state)
    assert other.count.tolist() == [3, 13]
    assert net.count is dict(net.named_buffers())["count"]


@pytest.mark.parametrize("value", [np.array([1.0, 2.0]), [1.0, 2.0], np.float32([1, 2])], ids=str)
def test_arrays_assigned_to_a_buffer_take_its_dtype(value):
    net = Counting()
    net.mean = value
    assert isinstance(net.mean, Tensor)
    assert net.mean.dtype == np.float32
    assert net.state_dict()["mean"].tolist() == [1.0, 2.0]


def test_what_no_buffer_can_be_is_refused():
    net = Counting()
    with pytest.raises(ValueError, match=r"Counting\.mean is a buffer of shape \(2,\), the value has shape \(3,\)"):
        net.mean = np.zeros(3)
    with pytest.raises(TypeError, match=r"Counting\.mean is a buffer and takes a Tensor.*not str.*del"):
        net.mean = "half"
    with pytest.raises(TypeError, match=r"Counting\.mean is a buffer, which is saved but not trained.*detach"):
        net.mean = net.linear.weight.sum(axis=0)
    with pytest.raises(TypeError, match="buffer"):
        net.register_buffer("scale", Tensor([1.0], requires_grad=True))
    for name in ("linear", "training", "a.b", ""):
        with pytest.raises(ValueError, match="cannot be named"):
            net.register_buffer(name, np.zeros(2))
    assert list(net.state_dict()) == ["linear.weight", "linear.bias", "count", "mean"]


def test_a_buffer_may_be_none_for_a_while():
    net = Counting()
    net.mean = None
    assert "mean" not in net.state_dict()
    net.mean = Tensor(np.ones(2, np.float32))
    assert list(net.state_dict())[-1] == "mean"
    del net.mean
    net.mean = "free now"
    assert "mean" not in net.state_dict()


@pytest.mark.parametrize(
    "change",
    [
        lambda m: setattr(m, "weight", m.weight * 0.9),
        lambda m: setattr(m, "weight", m.weight.detach()),
        lambda m: setattr(m, "weight", np.zeros((3, 2), np.float32)),
        lambda m: setattr(m, "weight", 0.0),
        lambda m: setattr(m, "bias", m.bias.__add__(1.0)),
    ],
)
def test_a_parameter_is_not_replaced_by_what_nobody_trains(change):
    layer = nn.Linear(2, 3)
    with pytest.raises(TypeError, match=r"Linear\.(weight|bias) is a Parameter.*neither trained nor saved.*nn\.Param"):
        change(layer)
    assert [name for name, _ in layer.named_parameters()] == ["weight", "bias"]
    assert isinstance(layer.weight, nn.Parameter)


def test_a_module_is_not_replaced_by_a_function():
    net = nn.Sequential(nn.Linear(2, 3), nn.ReLU())
    with pytest.raises(TypeError, match=r"Sequential\.0 is a Linear.*untrained"):
        setattr(net, "0", np.tanh)
    setattr(net, "1", None)
    assert len(net) == 1
    setattr(net, "1", nn.GELU())
    assert repr(net) == "Sequential(\n  (0): Linear(2, 3)\n  (1): GELU()\n)"
    net = Counting()
    net.linear = None
    assert list(net.parameters()) == []
    net.linear = np.tanh
    net.linear = nn.Linear(2, 2)
    assert len(list(net.parameters())) == 2


def test_a_tensor_to_be_trained_is_a_parameter():
    net = nn.Linear(2, 3)
    with pytest.raises(TypeError, match=r"Linear\.scale: a Tensor with requires_grad=True.*nn\.Parameter"):
        net.scale = Tensor([1.0], requires_grad=True)
    net.last = net(Tensor(np.ones((1, 2), np.float32)))  # Computed: kept for looking at, not to be trained.
    net.scale = nn.Parameter([1.0])
    assert "scale" in net.state_dict()


class Listed(nn.Module):
    def __init__(self, layers):
        super().__init__()
        self.first = nn.Linear(2, 2)
        self.layers = layers


@pytest.mark.parametrize(
    "held",
    [
        lambda: [nn.Linear(2, 2)],
        lambda: (nn.ReLU(), nn.Linear(2, 2)),
        lambda: {"a": [nn.Linear(2, 2)]},
        lambda: [nn.Parameter([1.0])],
        lambda: [nn.Sequential(nn.Linear(2, 2))],
    ],
)
def test_modules_in_plain_lists_are_refused_when_parameters_are_listed(held):
    net = nn.Sequential(Listed(held()))
    with pytest.raises(TypeError, match=r"0\.layers is a (list|tuple|dict) that holds a .*nn\.ModuleList"):
        optim.SGD(net.parameters(), lr=0.1)


def test_lists_of_what_is_listed_frozen_or_nothing_are_fine():
    net = Listed([])
    net.layers = [net.first, net.first.weight, 3, "x"]
    assert len(list(net.parameters())) == 2
    assert len(list(Listed([nn.Linear(2, 2).requires_grad_(False)]).parameters())) == 2
    assert len(list(Listed(nn.ModuleList([nn.Linear(2, 2)])).parameters())) == 4
    late = Listed([])
    late.layers.append(nn.Linear(2, 2))
    with pytest.raises(TypeError, match=r"Listed\.layers"):
        list(late.parameters())
