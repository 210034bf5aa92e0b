"""Runs every program on the ranks of this job, in float64, and compares with one process that is written in NumPy."""

import sys
from functools import partial
from pathlib import Path

import dynamic_nets
import dynamic_semi_automatic
import engine_semi_automatic
import fleet_data_parallel
import fleet_group_sharded
import fleet_model_parallel
import fleet_pipeline_parallel
import llama_annotation
import numpy as np
import setting
import single_dynamic
import single_static
import to_static_semi_automatic

sys.path.append(str(Path(__file__).parents[3] / "circuits"))

from qdist.comm import init
from qdist.interop import paddle
from qdist.interop.paddle.distributed.fleet import topology

import parameter_server  # isort: skip


def initial():
    paddle.seed(2024)
    model = setting.SimpleNet(setting.input_size, setting.inner_size, setting.class_dim)
    return [value.numpy().copy() for value in model.state_dict().values()]


def reference(rows):
    """Losses and weights after training with batches of so many rows: three matrix products and their derivatives."""
    w1, b1, w2, b2, w3, b3 = values = initial()
    speeds = [np.zeros_like(value) for value in values]
    dataset = setting.RandomDataset(setting.batch_num * setting.batch_size)
    losses = []
    for _ in range(setting.epoch):
        for start in range(0, len(dataset) - rows + 1, rows):
            items = [dataset[i] for i in range(start, start + rows)]
            x, y = np.stack([image for image, _ in items]), np.array([label[0] for _, label in items])
            h1 = x @ w1 + b1
            h2 = h1 @ w2 + b2
            raw = h2 @ w3 + b3
            out = np.maximum(raw, 0)
            p = np.exp(out - out.max(1, keepdims=True))
            p /= p.sum(1, keepdims=True)
            losses.append(-np.log(p[np.arange(rows), y]).mean())
            p[np.arange(rows), y] -= 1
            g3 = p / rows * (raw > 0)
            g2 = g3 @ w3.T
            g1 = g2 @ w2.T
            slopes = [x.T @ g1, g1.sum(0), h1.T @ g2, g2.sum(0), h2.T @ g3, g3.sum(0)]
            for value, speed, slope in zip(values, speeds, slopes):
                speed *= setting.momentum_rate
                speed += slope + setting.l2_decay * value
                value -= setting.base_lr * speed
    return losses, values


def programs(folder):
    """(name, program, how many parts of the ranks read rows of their own)."""
    ranks = init().size
    nets = [dynamic_nets.DataParallelNet, dynamic_nets.ModelParallelNet, dynamic_nets.PipelineNet]
    yield "single_dynamic", single_dynamic.train_model, 1
    own = folder / f"rank_{init().rank}"  # Its picture has the same name everywhere.
    own.mkdir(exist_ok=True)
    yield "single_static", partial(single_static.train_model, own), 1
    yield "fleet_data_parallel", fleet_data_parallel.train_model, ranks
    for level in ("os", "os_g", "p_g_os"):
        yield f"fleet_group_sharded {level}", partial(fleet_group_sharded.train_model, level), ranks
    yield "fleet_group_sharded lazily", partial(fleet_group_sharded.train_model, lazily=True), ranks
    yield "fleet_model_parallel", fleet_model_parallel.train_model, 1
    yield "fleet_pipeline_parallel", fleet_pipeline_parallel.train_model, fleet_pipeline_parallel.degrees()[0]
    for net in nets:
        yield f"dynamic_semi_automatic {net.__name__}", partial(dynamic_semi_automatic.train_model, net), 1
    for net in nets:
        yield f"to_static {net.__name__}", partial(to_static_semi_automatic.train_model, net, folder), 1
    for net in [setting.SimpleNet, dynamic_nets.NamedModelParallelNet, *nets[2:]]:
        yield f"engine {net.__name__}", partial(engine_semi_automatic.train_model, net), 1
    yield "engine sharding", partial(engine_semi_automatic.train_model, sharding=True), 1


def others(comm):
    """Programs with networks of their own, each of which compares by itself."""
    if comm.size > 1:
        llama_annotation.compare()
        parameter_server.compare(comm)


def main(folder):
    comm = init(timeout=120)
    paddle.set_default_dtype("float64")
    for name, program, replicas in programs(folder):
        topology.reset()
        paddle.seed(2024)
        losses, values = program()
        rows = setting.batch_size * replicas
        expected, weights = reference(rows)
        assert len(losses) == len(expected) > 0
        mean = comm.all_reduce(np.array(losses), "avg")
        np.testing.assert_allclose(mean, expected, atol=1e-10, err_msg=name)
        for got, want in zip(values, weights, strict=True):
            np.testing.assert_allclose(got, want, atol=1e-10, err_msg=name)
        if comm.rank == 0:
            print("equal:", name, flush=True)
    others(comm)
    if comm.rank == 0:
        print("all equal", flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
