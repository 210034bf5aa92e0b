"""The quick start: two matrix products, the first divided by hand, on eight ranks; in every mode and with every search.

Lines that had to change: imports; device_target; the backend's name; where files go; float64, to compare; the order of
get_dataset's arguments, which the document gives in one order and passes in another.
"""

import sys
from pathlib import Path

import numpy as np

from qdist import checkpoint
from qdist.interop import mindspore as ms
from qdist.interop.mindspore import LossMonitor, Model, ModelCheckpoint, Parameter, initializer, ops
from qdist.interop.mindspore import dataset as ds
from qdist.interop.mindspore.communication import get_group_size, get_rank, init
from qdist.interop.mindspore.nn import Cell, Momentum, MSELoss
from qdist.tensor import manual_seed


def get_dataset(batch_size, in_dim, out_dim, step_per_epoch, own_rows=True):
    rng = np.random.default_rng(1)
    ranks = get_group_size() if own_rows else 1
    input_data = rng.random((batch_size * get_group_size(), in_dim))
    label_data = rng.random((batch_size * get_group_size(), out_dim))
    part = slice(get_rank() * batch_size, (get_rank() + 1) * batch_size) if ranks > 1 else slice(None)

    def generate():
        for _ in range(step_per_epoch):
            yield (input_data[part], label_data[part])

    return generate


class Net(Cell):
    def __init__(self, in_dim, hidden_dim, out_dim, strategy=((2, 4), (4, 1)), out_strategy=None):
        super().__init__()
        self.weight = Parameter(initializer("normal", [in_dim, hidden_dim], np.float64), "w")
        self.weight2 = Parameter(initializer("normal", [hidden_dim, out_dim], np.float64), "w2")
        self.matmul = ops.MatMul()
        if strategy is not None:
            self.matmul = self.matmul.shard(strategy, out_strategy)
        self.relu = ops.ReLU()
        self.matmul2 = ops.MatMul()

    def construct(self, x):
        out = self.matmul(x, self.weight)
        out = self.relu(out)
        out = self.matmul2(out, self.weight2)
        return out


step_per_epoch, single_batch_size, in_dim, hidden_dim, out_dim, epochs = 4, 2, 32, 16, 16, 2


def train(folder, own_rows=True, sunk=False, **net):
    fake_dataset = get_dataset(single_batch_size, in_dim, out_dim, step_per_epoch, own_rows)
    dataset = ds.GeneratorDataset(fake_dataset, ["input", "label"])
    manual_seed(3)
    network = Net(in_dim, hidden_dim, out_dim, **net)
    lines = []
    callback = [LossMonitor(write=lines.append), ModelCheckpoint(directory=folder / f"{get_rank()}")]
    opt = Momentum(network.trainable_params(), 0.2, 0.1)
    model = Model(network, loss_fn=MSELoss(), optimizer=opt)
    model.train(epochs, dataset, callbacks=callback, dataset_sink_mode=sunk)
    return lines, model


def reference():
    """The same by formulas, on all rows."""
    rng = np.random.default_rng(1)
    rows = single_batch_size * get_group_size()
    x, y = rng.random((rows, in_dim)), rng.random((rows, out_dim))
    manual_seed(3)
    net = Net(in_dim, hidden_dim, out_dim, None)
    w, w2 = net.weight.numpy().copy(), net.weight2.numpy().copy()
    v, v2, losses = 0.0, 0.0, []
    for _ in range(step_per_epoch * epochs):
        h = x @ w
        r = np.maximum(h, 0)
        error = r @ w2 - y
        losses.append((error**2).mean())
        g = 2 * error / error.size
        v2, v = 0.1 * v2 + r.T @ g, 0.1 * v + x.T @ (g @ w2.T * (h > 0))
        w2, w = w2 - 0.2 * v2, w - 0.2 * v
    return losses, w, w2


def main(folder, thorough):
    init("mpi")
    expected, w, w2 = reference()
    modes = ms.ParallelMode
    ways = [(modes.DATA_PARALLEL, None, {}), (modes.SEMI_AUTO_PARALLEL, None, {})]
    ways += [(modes.SEMI_AUTO_PARALLEL, None, {"out_strategy": out}) for out in (((2, 4),), ((8, 1),), ((1, 1),))]
    searches = ("sharding_propagation", "dynamic_programming", "recursive_programming")
    ways += [(modes.AUTO_PARALLEL, s, {"strategy": n}) for s in searches for n in (((2, 4), (4, 1)), None)]
    for number, (mode, search, net) in enumerate(ways):
        # Every mode and every search with rows of each rank's own and with all rows on each, in turn or both.
        for own_rows in (True, False) if thorough or number in (0, 5) else (number % 2 == 0,):
            ms.reset_auto_parallel_context()
            strategy = "data_parallel" if own_rows else "full_batch"
            ms.set_auto_parallel_context(parallel_mode=mode, dataset_strategy=strategy)
            if search is not None:
                ms.set_auto_parallel_context(search_mode=search)
            saved = number == 5 and own_rows  # Propagation from the given strategy: the document's own run.
            ms.set_context(mode=ms.GRAPH_MODE, save_graphs=2 * saved, save_graphs_path=folder / "saved_graph")
            lines, model = train(folder, own_rows, **net)
            assert lines[5].startswith("epoch: 2 step: 2, loss is ")
            losses = [float(line.rpartition(" ")[2]) for line in lines]
            np.testing.assert_allclose(losses, expected, atol=1e-10, err_msg=f"{mode} {search} {net} {strategy}")
            np.testing.assert_allclose(model.network.weight.numpy(), w, atol=1e-10)
            state = checkpoint.load(folder / f"{get_rank()}" / "CKP-2.ckpt")
            np.testing.assert_allclose(state["model"]["weight2"].numpy(), w2, atol=1e-10)
    ms.reset_auto_parallel_context()
    ms.set_context(save_graphs=0)
    lines, _ = train(folder, own_rows=False, sunk=True)  # stand_alone: strategies are left aside.
    np.testing.assert_allclose([float(line.rpartition(" ")[2]) for line in lines], expected, atol=1e-10)
    if get_rank() == 0:
        print("all equal")


if __name__ == "__main__":
    main(Path(sys.argv[1]), "--thorough" in sys.argv)
