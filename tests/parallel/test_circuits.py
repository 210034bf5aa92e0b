"""Quantum layers in parallel models may not go over ranks that have other work to do."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import qdist as qd
from qdist import nn, optim
from qdist.comm import Mesh, counting_communicator
from qdist.parallel import DataParallel, Pipeline, Plan, Zero, parallelize
from qdist.tensor import Tensor


def net(comm: Any) -> nn.Sequential:
    x = qd.ParameterVector("x", 7)
    circuit = qd.Circuit(7)
    for q in range(7):
        circuit.rx(x[q], q)
    return nn.Sequential(nn.Linear(2, 7), nn.QuantumLayer(circuit, ["Z0"], x, comm=comm))


def sgd(parameters: Any) -> optim.SGD:
    return optim.SGD(parameters, lr=0.1)


WAYS: dict[str, Callable[[nn.Sequential, Any], Any]] = {
    "data": DataParallel,
    "zero": lambda model, comm: Zero(model, sgd(model.parameters()), 1, comm),
    "pipeline": lambda model, comm: Pipeline(model, nn.MSELoss(), comm, micro_batches=1),
}


@pytest.mark.parametrize("way", WAYS)
def test_amplitudes_over_ranks_that_have_other_work_are_refused(way: str) -> None:
    comm = counting_communicator(4)
    with pytest.raises(ValueError, match=r"'world'.*different work to do here: make a Mesh with"):
        WAYS[way](net(comm), comm)


def test_a_layer_that_averages_by_itself_is_refused_where_it_would_be_averaged_again() -> None:
    mesh = Mesh(counting_communicator(4), dp=2, state=2)
    with pytest.raises(ValueError, match=r"Mesh dp=2, state=2.*different work"):
        DataParallel(net(mesh), mesh["dp"])
    model = DataParallel(net(mesh["state"]), mesh["dp"])
    assert model(Tensor(np.ones((3, 2), np.float32))).shape == (3, 1)


def test_a_mesh_divides_circuits_that_were_made_whole() -> None:
    mesh = Mesh(counting_communicator(4), dp=2, state=2)
    with pytest.raises(ValueError, match=r"made with comm=.*'state'.*: make it without"):
        parallelize(net(mesh["state"]), mesh, Plan(), optimizer=sgd, loss=nn.MSELoss())
    trained = parallelize(net(None), mesh, Plan(), optimizer=sgd, loss=nn.MSELoss())
    assert trained.module[1].program.comm is mesh["state"]


def test_a_circuit_stays_on_its_device_when_it_is_split(monkeypatch: pytest.MonkeyPatch) -> None:
    layer = net(None)[1]
    asked = []
    compile_ = qd.nn.quantum.compile
    monkeypatch.setattr(qd.nn.quantum, "compile", lambda *a, **k: (asked.append(k["device"]), compile_(*a, **k))[1])
    layer.split_over(counting_communicator(2))
    assert asked == ["cpu"]
