"""Models on meshes, how their layers are divided, and the comparison with one process."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache, partial
from typing import Any

import models
import numpy as np
from models import Trained, adam, assert_same, batch, build, from_first, sgd, share

from qdist.comm import Communicator, Mesh
from qdist.parallel import ParallelModel, Plan, parallelize
from qdist.tensor import Tensor, functional

STEPS = 3

# Enough qubits for eight ranks.
models.MODELS["wide"] = partial(models.hybrid, qubits=8)

LAYERS = {
    "mlp": {"0": "column", "2": "row", "4": "column", "6": "row"},
    "cnn": {"7": "row-scatter"},
    "transformer": {"0.table": "vocabulary", "[12]": "block", "4": "column-gather"},
    "hybrid": {"0": "column-gather", "3": "row-scatter"},
    "wide": {"0": "column-gather", "3": "row-scatter"},
}


def rows_in_all(name: str) -> int:
    """Rows of a batch: odd, so that "dp" has uneven shares, and few where each is a circuit over ranks."""
    return 3 if name == "wide" else 9


def loss(output: Any, targets: Any) -> Tensor:
    return functional.cross_entropy(output, targets)


def spread(name: str, mesh: Mesh, options: dict[str, Any], seed: int = 0) -> ParallelModel:
    plan = Plan(**{"layers": LAYERS[name], **options})
    make = adam if plan.zero else sgd
    return parallelize(build(name, seed), mesh, plan, optimizer=make, loss=loss)


def rows_of(name: str, mesh: Mesh, step: int) -> tuple[np.ndarray, np.ndarray]:
    return share_of(mesh, *batch(name, step, rows_in_all(name)))


def share_of(mesh: Mesh, x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The rows of this rank's place on "dp"."""
    place, degree = mesh.coordinates.get("dp", 0), mesh.shape.get("dp", 1)
    return share(x, place, degree), share(y, place, degree)


@cache
def by_itself(comm: Communicator) -> Mesh:
    """A mesh of this rank alone."""
    group = comm.split([[rank] for rank in range(comm.size)])
    assert group is not None
    return Mesh(group, dp=1)


@cache
def alone(name: str, with_adam: bool) -> Trained:
    make = adam if with_adam else sgd
    return from_first(lambda: models.train_alone(name, STEPS, rows_in_all(name), make))


def assert_trains_as(want: Trained, trained: ParallelModel, batches: Iterable[tuple[np.ndarray, np.ndarray]]) -> None:
    """A model on a mesh has the losses, gradients, norm and parameters of one process. batches: this rank's rows."""
    losses = []
    for x, y in batches:
        losses.append(trained.backward(x, y))
        gradients, norm = trained.gradients(), trained.grad_norm()
        trained.step()
    np.testing.assert_allclose(losses, want.losses, rtol=1e-10)
    assert_same(gradients, want.gradients)
    assert_same({name: tensor.numpy() for name, tensor in trained.state_dict().items()}, want.parameters)
    # Every parameter is counted once, whatever divides or repeats it.
    whole = np.sqrt(sum((abs(g) ** 2).sum() for g in want.gradients.values()))
    np.testing.assert_allclose(norm, whole, rtol=1e-10)
