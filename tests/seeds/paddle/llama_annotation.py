"""The gated perceptron of LLaMA with its semi-automatic annotations (2.2.2): stage and axis "mp" of each weight.

Lines that had to change: imports; the mesh, which has all ranks; small sizes.
"""

import numpy as np

from qdist.interop import paddle
from qdist.interop.paddle.distributed import ProcessMesh, Strategy, fleet, get_world_size
from qdist.interop.paddle.distributed.auto_parallel import Engine

layers, hidden, inner = 4, 8, 16


class Mlp(paddle.nn.Layer):
    def __init__(self, get_dist_attr, ipp):
        super().__init__()
        self.ipp, self.get_dist_attr = ipp, get_dist_attr
        self.norm = paddle.nn.LayerNorm(hidden)
        self.gate_proj = paddle.nn.Linear(hidden, inner, bias_attr=False)
        self.up_proj = paddle.nn.Linear(hidden, inner, bias_attr=False)
        self.down_proj = paddle.nn.Linear(inner, hidden, bias_attr=False)

    def forward(self, x):
        if self.get_dist_attr is not None:
            fleet.auto.shard_tensor(self.norm.weight, *self.get_dist_attr([None], self.ipp))
            fleet.auto.shard_tensor(self.gate_proj.weight, *self.get_dist_attr([None, "mp"], self.ipp))
            fleet.auto.shard_tensor(self.up_proj.weight, *self.get_dist_attr([None, "mp"], self.ipp))
            fleet.auto.shard_tensor(self.down_proj.weight, *self.get_dist_attr(["mp", None], self.ipp))
        h = self.norm(x)
        return x + self.down_proj(paddle.nn.functional.relu(self.gate_proj(h)) * self.up_proj(h))


class Net(paddle.nn.Layer):
    def __init__(self, mesh):
        super().__init__()

        def get_dist_attr(shard_specs, pp_idx):
            return [mesh[pp_idx], shard_specs]

        attributes = None if mesh is None else get_dist_attr
        self.layers = paddle.nn.LayerList([Mlp(attributes, i * 2 // layers) for i in range(layers)])

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x


def batches():
    rng = np.random.default_rng(0)
    return [(rng.normal(size=(8, hidden)), rng.integers(0, hidden, (8, 1))) for _ in range(3)]


def optimizer_of(model):
    return paddle.optimizer.Momentum(learning_rate=0.05, momentum=0.9, parameters=model.parameters())


def compare():
    ranks = np.arange(get_world_size()).reshape(2, -1)
    paddle.seed(1)
    model = Net(ProcessMesh(ranks, dim_names=["pp", "mp"]))
    strategy = Strategy()
    strategy.pipeline.enable = True
    strategy.pipeline.accumulate_steps = 2
    engine = Engine(model, paddle.nn.CrossEntropyLoss(), optimizer_of(model), strategy=strategy)
    losses = [np.mean(engine.run(batch)["loss"]) for batch in batches()]

    paddle.seed(1)
    plain = Net(None)
    optimizer = optimizer_of(plain)
    expected = []
    for x, y in batches():
        loss = paddle.nn.functional.cross_entropy(input=plain(paddle.to_tensor(x)), label=y)
        loss.backward()
        optimizer.step()
        optimizer.clear_grad()
        expected.append(float(loss))
    np.testing.assert_allclose(losses, expected, atol=1e-10)
    state = engine.state_dict()
    for name, value in plain.state_dict().items():
        np.testing.assert_allclose(state[name], value.numpy(), atol=1e-10, err_msg=name)
    stage = int(np.argwhere(ranks == paddle.distributed.get_rank())[0][0])
    for i, layer in enumerate(model.layers):
        size = layer.gate_proj.weight.local.size
        assert size == (hidden * inner // ranks.shape[1] if i * 2 // layers == stage else 0)
