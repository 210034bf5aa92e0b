"""torch layers on several ranks: amplitudes split over them, and rows of the batch under DistributedDataParallel."""

import os
import sys
import tempfile
from pathlib import Path

import numpy as np
import pytest
import torch

import qdist as qd
from qdist.interop.torch import QuantumLayer

sys.path.append(str(Path(__file__).parents[1] / "torch_layers"))
from frameworks import outputs, random_circuit

torch.set_num_threads(1)
N = 8


@pytest.fixture(scope="session")
def comm() -> qd.comm.Communicator:
    return qd.comm.init(os.environ.get("QDIST_TEST_BACKEND", "auto"), timeout=120)


@pytest.mark.filterwarnings("ignore:the layer's state")
def test_split_amplitudes_give_the_derivatives_of_one_process(comm) -> None:
    circuit, x, w = random_circuit(1, N)
    start, rows = np.linspace(0.2, 1.1, 5), torch.rand(1, 3, dtype=torch.float64, generator=torch.manual_seed(0))
    found = []
    for ranks in (None, comm):
        layer = QuantumLayer(circuit, outputs(), x, w, comm=ranks, dtype=torch.float64, initial=start)
        call = lambda x, w, layer=layer: torch.func.functional_call(layer, {"weights": w}, (x,))  # noqa: E731
        given = rows.clone().requires_grad_(), layer.weights.detach().clone().requires_grad_()
        first = torch.autograd.grad((call(*given) ** 2).sum(), given, create_graph=True)
        second = torch.autograd.grad(sum((g**2).sum() for g in first), given)
        found.append([call(*given), *first, *second])
    for one, many in zip(*found):
        torch.testing.assert_close(many, one)
    if comm.size <= 4:
        small = QuantumLayer(circuit, ["Z0", "X1 Z2"], x, w, comm=comm, dtype=torch.float64, initial=start)
        call = lambda w: torch.func.functional_call(small, {"weights": w}, (rows,))  # noqa: E731
        given = small.weights.detach().clone().requires_grad_()
        assert torch.autograd.gradcheck(call, (given,), fast_mode=True)
        assert torch.autograd.gradgradcheck(call, (given,), fast_mode=True)


@pytest.mark.thorough  # Its half is the import of torch's compiler on every rank; in one process it is always checked.
@pytest.mark.filterwarnings("ignore:the layer's state")
def test_operators_of_split_amplitudes_keep_the_rules_of_torch(comm) -> None:
    circuit, x, w = random_circuit(1, N)
    start, rows = np.linspace(0.2, 1.1, 5), torch.rand(1, 3, dtype=torch.float64, generator=torch.manual_seed(0))
    small = QuantumLayer(circuit, ["Z0", "X1 Z2"], x, w, comm=comm, dtype=torch.float64, initial=start)
    given = small.weights.detach().clone().requires_grad_()
    torch.library.opcheck(torch.ops.qdist.circuit.default, (rows, given, small._handle))
    g = torch.rand(1, 2, dtype=torch.float64, generator=torch.manual_seed(1))
    torch.library.opcheck(torch.ops.qdist.circuit_vjp.default, (rows, given, g, small._handle, False, True))


def test_data_parallel_training_is_that_of_the_whole_batch(comm) -> None:
    folder = comm.broadcast_object(tempfile.mkdtemp() if comm.rank == 0 else None)
    dist = torch.distributed
    dist.init_process_group("gloo", init_method=f"file://{folder}/meet", rank=comm.rank, world_size=comm.size)
    circuit, x, w = random_circuit(2)
    data = torch.rand(4 * comm.size, 3, dtype=torch.float64, generator=torch.manual_seed(3))

    def model() -> QuantumLayer:
        torch.manual_seed(comm.rank)  # DistributedDataParallel takes over rank 0's weights.
        return QuantumLayer(circuit, outputs(), x, w, dtype=torch.float64)

    def trained(model, rows) -> torch.Tensor:
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(3):
            optimizer.zero_grad()
            (model(rows) ** 2).sum(1).mean().backward()
            optimizer.step()
        return next(iter(model.state_dict().values()))

    torch.manual_seed(0)
    whole = QuantumLayer(circuit, outputs(), x, w, dtype=torch.float64)
    want = trained(whole, data)
    split = torch.nn.parallel.DistributedDataParallel(model())
    found = trained(split, data[4 * comm.rank : 4 * comm.rank + 4])
    torch.testing.assert_close(found, want)
    # The model goes before its group: were it the last to hold it, it would wait for gloo's thread with Python's lock
    # in its hands, while that thread waits for the lock.
    del split
    dist.destroy_process_group()
