"""Centralised communication: a server has the parameters, workers read them and send gradients.

    qdist run -n 4 circuits/parameter_server.py

The first rank is the server, the others are workers; there is nothing but messages from one rank to another. Every
worker has its share of each batch. In a step the server sends the parameters to all workers, receives their gradients
in whatever order they come, weights them by rows, and updates: training is that of one process with the whole batch.
"""

from __future__ import annotations

import numpy as np

import qdist as qd
from qdist import nn, optim
from qdist.comm import Communicator
from qdist.data.dataset import share
from qdist.tensor import Tensor, functional, manual_seed

ROWS, STEPS = 24, 5


def network() -> nn.Sequential:
    manual_seed(0)
    return nn.Sequential(nn.Linear(6, 16, dtype=np.float64), nn.Tanh(), nn.Linear(16, 3, dtype=np.float64))


def batch(step: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(step)
    return rng.normal(size=(ROWS, 6)), rng.integers(0, 3, ROWS)


def serve(comm: Communicator) -> tuple[list[float], list[np.ndarray]]:
    """The server: owns parameters and optimiser."""
    model = network()
    parameters = list(model.parameters())
    optimizer = optim.SGD(parameters, lr=0.5, momentum=0.9)
    losses = []
    for _ in range(STEPS):
        flat = np.concatenate([p.numpy().ravel() for p in parameters])
        for work in [comm.isend(flat, worker) for worker in range(1, comm.size)]:
            work.wait()
        # [rows x loss, rows x gradient] of every worker, added up as they arrive.
        waiting = {w: comm.irecv(np.empty(1 + flat.size), w) for w in range(1, comm.size)}
        total = np.zeros(1 + flat.size)
        while waiting:
            for worker in [w for w, work in waiting.items() if work.is_completed()]:
                total += waiting.pop(worker).wait()
        total /= ROWS
        losses.append(float(total[0]))
        start = 1
        for p in parameters:
            p.grad = Tensor(total[start : start + p.size].reshape(p.shape))
            start += p.size
        optimizer.step()
    return losses, [p.numpy() for p in parameters]


def work(comm: Communicator) -> None:
    """A worker: reads parameters, computes gradients of its rows."""
    model = network()
    parameters = list(model.parameters())
    mine = share(ROWS, comm.rank - 1, comm.size - 1)
    flat = np.empty(sum(p.size for p in parameters))
    for step in range(STEPS):
        comm.recv(flat, 0)
        start = 0
        with qd.tensor.no_grad():
            for p in parameters:
                p.assign(flat[start : start + p.size].reshape(p.shape))
                start += p.size
        model.zero_grad()
        x, y = (part[mine] for part in batch(step))
        loss = functional.cross_entropy(model(Tensor(x)), y, reduction="sum")
        loss.backward()
        comm.send(
            np.concatenate([[float(loss)], *(p.grad.numpy().ravel() for p in parameters if p.grad is not None)]), 0
        )


def alone() -> tuple[list[float], list[np.ndarray]]:
    """One process with the whole batch."""
    model = network()
    optimizer = optim.SGD(model.parameters(), lr=0.5, momentum=0.9)
    losses = []
    for step in range(STEPS):
        x, y = batch(step)
        optimizer.zero_grad()
        loss = functional.cross_entropy(model(Tensor(x)), y)
        loss.backward()
        optimizer.step()
        losses.append(float(loss))
    return losses, [p.numpy() for p in model.parameters()]


def compare(comm: Communicator) -> list[float]:
    """Train both ways; the losses, on the server. Raises AssertionError where they differ."""
    if comm.rank > 0:
        work(comm)
        return []
    losses, parameters = serve(comm)
    expected, values = alone()
    np.testing.assert_allclose(losses, expected, atol=1e-10)
    for got, want in zip(parameters, values, strict=True):
        np.testing.assert_allclose(got, want, atol=1e-10)
    return losses


if __name__ == "__main__":
    world = qd.comm.init()
    if world.size < 2:
        raise SystemExit("a server and at least one worker: qdist run -n 4 circuits/parameter_server.py")
    for number, value in enumerate(compare(world)):
        print(f"step {number}: loss {value:.5f}")
