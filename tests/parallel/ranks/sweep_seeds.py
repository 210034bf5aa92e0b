"""The source documents' cases of tests/parallel/sweep.py: their surfaces on every arrangement of the ranks."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from functools import partial
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from sweep_cases import Case, factorisations

from qdist.comm import Communicator
from qdist.interop import mindspore, paddle
from qdist.interop.paddle.distributed import fleet
from qdist.interop.paddle.distributed.fleet import topology
from qdist.interop.paddle.distributed.fleet.meta_parallel import (
    ColumnParallelLinear,
    LayerDesc,
    PipelineLayer,
    RowParallelLinear,
)
from qdist.parallel import whole_state_dict
from qdist.tensor import Tensor

sys.path.append(str(Path(__file__).parents[2] / "seeds" / "mindspore"))

import quickstart

ROWS, STEPS = 4, 3
CLIPS = {
    "no clip": lambda: None,
    "global norm": partial(paddle.nn.ClipGradByGlobalNorm, 0.05),
    "norm": partial(paddle.nn.ClipGradByNorm, 0.02),
    "value": partial(paddle.nn.ClipGradByValue, 0.01),
}


def fleet_cases(comm: Communicator) -> Iterator[Case]:
    """Paddle's fleet on every dp x sharding x pp x mp, with every way to clip, and pipelines with scaled losses."""
    for degrees in factorisations(comm.size, 4):
        scaled = (False, True) if degrees[2] > 1 else (False,)
        for clip, scale in product(CLIPS, scaled):
            text = "dp={} sharding={} pp={} mp={}".format(*degrees) + f", {clip}{', scaled' * scale}"
            yield Case(text, partial(_fleet, comm, degrees, clip, scale))


def _described(hidden: int, divided: bool) -> list[LayerDesc]:
    """Eight layers, of which the ranks along "mp" divide two."""
    linear = paddle.nn.Linear
    pair = [LayerDesc(linear, 6, hidden), LayerDesc(linear, hidden, 6)]
    if divided:
        first = LayerDesc(ColumnParallelLinear, 6, hidden, gather_output=False)
        pair = [first, LayerDesc(RowParallelLinear, hidden, 6, input_is_parallel=True)]
    tanh = LayerDesc(paddle.nn.Tanh)
    return [
        pair[0],
        tanh,
        pair[1],
        LayerDesc(linear, 6, 6),
        tanh,
        LayerDesc(linear, 6, 6),
        tanh,
        LayerDesc(linear, 6, 3),
    ]


def _layers(hidden: int, divided: bool) -> Any:
    return paddle.nn.Sequential(*(desc.build() for desc in _described(hidden, divided)))


def _batch(step: int, replicas: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(step)
    return rng.normal(size=(ROWS * replicas, 6)), rng.integers(0, 3, ROWS * replicas)


def _adam(model: Any, clip: str) -> Any:
    return paddle.optimizer.Adam(0.05, parameters=list(model.parameters()), grad_clip=CLIPS[clip]())


def _fleet(comm: Communicator, degrees: tuple[int, ...], clip: str, scaled: bool) -> None:
    paddle.set_default_dtype("float64")
    topology.reset()
    dp, sharding, pp, mp = degrees
    strategy = fleet.DistributedStrategy()
    strategy.hybrid_configs = {"dp_degree": dp, "sharding_degree": sharding, "pp_degree": pp, "mp_degree": mp}
    strategy.pipeline_configs = {"accumulate_steps": 2}
    fleet.init(is_collective=True, strategy=strategy)
    replicas, hidden = dp * sharding, 2 * comm.size
    paddle.seed(5)
    if pp > 1:
        model = PipelineLayer(_described(hidden, mp > 1), paddle.nn.CrossEntropyLoss())
    else:
        model = _layers(hidden, mp > 1)
    trained, optimizer = fleet.distributed_model(model), fleet.distributed_optimizer(_adam(model, clip))
    scaler = paddle.amp.GradScaler() if scaled else None
    place = topology.current().mesh["dp"].rank
    for step in range(STEPS):
        x, y = (Tensor(part[place * ROWS :][:ROWS]) for part in _batch(step, replicas))
        if pp > 1:
            trained.train_batch([x, y], optimizer, scaler=scaler)
        else:
            paddle.nn.functional.cross_entropy(input=trained(x), label=y).backward()
            optimizer.step()
            optimizer.clear_grad()
    found = model.pipeline.whole_state_dict() if pp > 1 else whole_state_dict(model)
    paddle.seed(5)
    plain = _layers(hidden, False)
    update = _adam(plain, clip)
    for step in range(STEPS):
        x, y = _batch(step, replicas)
        paddle.nn.functional.cross_entropy(input=plain(Tensor(x)), label=y).backward()
        update.step()
        update.clear_grad()
    for got, want in zip(found.values(), plain.state_dict().values(), strict=True):
        np.testing.assert_allclose(got.numpy(), want.numpy(), atol=1e-10)


def operator_cases(comm: Communicator) -> Iterator[Case]:
    """MindSpore's quick start in every mode, with every search and every strategy of its first product."""
    modes = mindspore.ParallelMode
    searches = ("sharding_propagation", "dynamic_programming", "recursive_programming")
    for a, b, c in factorisations(comm.size, 3):
        strategy = ((a, b), (b, c))
        for out in (None, ((a, c),), ((comm.size, 1),), ((1, 1),)):
            text = f"{strategy} -> {out}"
            yield Case(f"semi_auto {text}", partial(_quickstart, modes.SEMI_AUTO_PARALLEL, None, strategy, out))
        for search in searches:
            yield Case(f"auto {search} {strategy}", partial(_quickstart, modes.AUTO_PARALLEL, search, strategy, None))
    for search in searches:
        yield Case(f"auto {search}", partial(_quickstart, modes.AUTO_PARALLEL, search, None, None))
    yield Case("data_parallel", partial(_quickstart, modes.DATA_PARALLEL, None, None, None))


def _quickstart(mode: str, search: str | None, strategy: Any, out: Any) -> None:
    expected, w, w2 = quickstart.reference()
    try:
        for own_rows in (True, False):
            mindspore.reset_auto_parallel_context()
            rows = "data_parallel" if own_rows else "full_batch"
            mindspore.set_auto_parallel_context(parallel_mode=mode, dataset_strategy=rows)
            if search is not None:
                mindspore.set_auto_parallel_context(search_mode=search)
            with TemporaryDirectory() as folder:
                lines, model = quickstart.train(Path(folder), own_rows, strategy=strategy, out_strategy=out)
            losses = [float(line.rpartition(" ")[2]) for line in lines]
            np.testing.assert_allclose(losses, expected, atol=1e-10)
            np.testing.assert_allclose(model.network.weight.numpy(), w, atol=1e-10)
            np.testing.assert_allclose(model.network.weight2.numpy(), w2, atol=1e-10)
    finally:
        mindspore.reset_auto_parallel_context()
