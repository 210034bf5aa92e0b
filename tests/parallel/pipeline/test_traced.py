"""Traced models in one process: where they are cut, what is refused, and how layers are shared out."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from qdist import nn
from qdist.comm import counting_communicator
from qdist.parallel import LayerDesc, Pipeline, SharedLayerDesc
from qdist.parallel.pipeline.balance import Costs, costs_of_layers, stage_sizes
from qdist.parallel.pipeline.flops import counting_flops
from qdist.parallel.pipeline.graph.traced_model import TracedModel
from qdist.tensor import Tensor, checkpoint, functional, manual_seed
from qdist.tensor.random import get_state

sys.path.append(str(Path(__file__).parents[1] / "ranks"))
from traced_models import GPT, UNet, batches, build, loss_of

F64 = np.float64
X = np.ones((2, 4))


class Small(nn.Module):
    """Three layers, with code of one's own between them."""

    def __init__(self, between: Any = lambda self, x: x) -> None:
        super().__init__()
        self.a, self.b, self.c = (nn.Linear(4, 4, dtype=F64) for _ in range(3))
        self.register_buffer("count", np.zeros(()))
        self._between = between

    def forward(self, x: Tensor) -> Tensor:
        return self.c(self._between(self, self.b(self.a(x))))


def keeping(self: Any, x: Tensor) -> Tensor:
    self.kept = x
    return x


def counting(self: Any, x: Tensor) -> Tensor:
    self.count += 1
    return x


def hidden(self: Any, x: Tensor) -> Tensor:
    return CLOSED(x)


CLOSED = nn.Linear(4, 4, dtype=F64)


@pytest.mark.parametrize(
    ("between", "message"),
    [
        (lambda self, x: x if x.mean() > 0 else -x, "looks at the values of a tensor between its modules"),
        (lambda self, x: x * float(x.sum()), "looks at the values"),
        (lambda self, x: x + Tensor(x.numpy()), "looks at the values"),
        (lambda self, x: sum((x for _ in range(int(x.sum()))), x), "looks at the values"),
        (lambda self, x: checkpoint(lambda y: y * 2, x), r"Plan\(recompute="),
        (keeping, "keeps a tensor in 'kept' for a later call"),
        (counting, "changes the buffer 'count', which every stage would do"),
        (hidden, "takes Linear.weight of a module that is not reached by attributes"),
    ],
)
def test_what_cannot_be_cut_is_refused_by_name(between: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        TracedModel(Small(between), X, 2)


def test_an_object_between_modules_is_refused() -> None:
    class Box(nn.Module):
        def forward(self, x: Tensor) -> Any:
            return object()

    class Boxed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.box, self.last = Box(), nn.Tanh()

        def forward(self, x: Tensor) -> Tensor:
            self.box(x)
            return self.last(x)

    with pytest.raises(ValueError, match="'box' gives a object: stages exchange Tensors"):
        TracedModel(Boxed(), X, 2)


@pytest.mark.parametrize(
    ("stages", "begins", "message"),
    [
        (2, ["nowhere"], "'nowhere' is no module of the model"),
        (3, ["b"], "3 stages need 2 names"),
        (3, ["c", "b"], "does not come to these modules in this order"),
        (2, ["a"], "in this order, each after"),
        (5, None, "3 layers do not make 5 stages"),
    ],
)
def test_stages_that_do_not_fit_are_refused(stages: int, begins: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        TracedModel(Small(), X, stages, begins).named_sizes(begins, stages)


def test_a_buffer_that_two_stages_would_change_is_refused() -> None:
    class Twice(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm, self.a, self.b = nn.BatchNorm2d(1), nn.Tanh(), nn.Tanh()

        def forward(self, x: Tensor) -> Tensor:
            return self.norm(self.b(self.norm(self.a(x))))

    traced = TracedModel(Twice(), np.ones((2, 1, 4, 4), np.float32), 2)
    with pytest.raises(ValueError, match="both call 'norm', whose buffer"):
        traced.cut(traced.named_sizes(["b"], 2), [0])


def test_tracing_leaves_the_model_as_it_was() -> None:
    manual_seed(0)
    norm = nn.BatchNorm2d(1)

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.drop, self.norm = nn.Dropout(0.5), norm

        def forward(self, x: Tensor) -> Tensor:
            return self.norm(self.drop(x))

    model = Net()
    model.drop.eval()
    before = {name: value.numpy().copy() for name, value in model.state_dict().items()}
    manual_seed(3)
    TracedModel(model, np.ones((2, 1, 4, 4), np.float32), 2)
    assert get_state()["draw"] == 0
    for name, value in model.state_dict().items():
        np.testing.assert_array_equal(value.numpy(), before[name])
    assert model.norm is norm
    assert (model.drop.training, model.norm.training) == (False, True)


@pytest.mark.parametrize("kind", ["gpt", "unet"])
def test_stages_of_one_rank_give_what_the_model_gives(kind: str) -> None:
    """The carried tensors of several stages, without a message."""
    loss, rows = loss_of(kind), batches(kind, 5)
    plain = build(kind)
    x, y = rows[0]
    manual_seed(8)
    want = loss(plain(Tensor(x)), Tensor(y))
    want.backward()
    pipeline = Pipeline(
        build(kind),
        loss,
        counting_communicator(1),
        micro_batches=2,
        schedule="interleaved",
        virtual_stages=5,
        example=x[:1],
    )
    manual_seed(8)
    np.testing.assert_allclose(pipeline.train_batch(x, y), want.item(), rtol=1e-12)
    for name, parameter in pipeline.module.named_parameters():
        np.testing.assert_allclose(
            parameter.grad.numpy(), dict(plain.named_parameters())[name].grad.numpy(), 1e-9, 1e-12
        )


def test_another_way_through_the_model_is_refused() -> None:
    class Loop(Small):
        def forward(self, x: Tensor) -> Tensor:
            for _ in range(x.shape[1] // 4):
                x = x * 2.0
            return self.c(self.b(self.a(x[:, :4])))

    pipeline = Pipeline(Loop(), nn.MSELoss(), counting_communicator(1), micro_batches=1, example=X)
    with pytest.raises(ValueError, match=r"came to 'operation mul', where the example led to 'operation index'"):
        pipeline.eval_batch(np.ones((2, 8)), X)


def test_a_model_that_is_no_sequential_asks_for_an_example() -> None:
    with pytest.raises(TypeError, match="any model with example="):
        Pipeline(Small(), nn.MSELoss(), counting_communicator(1), micro_batches=1)


def test_a_model_built_without_values_is_traced_without_memory() -> None:
    with nn.deferred():
        large = nn.Sequential(nn.Linear(4, 1 << 12), nn.Linear(1 << 12, 4))

        class Large(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.parts, self.scale = large, nn.Linear(4, 4)

            def forward(self, x: Tensor) -> Tensor:
                return self.scale(self.parts(x)) + x

        model = Large()
    traced = TracedModel(model, np.ones((1, 4), np.float32), 2)
    assert all(p.deferred for p in model.parameters())
    assert traced.costs().parameters[0] == 4 * 5 * 4096


# How layers are shared out -------------------------------------------------------------------------------------------


def gpt_with_a_large_table() -> nn.Sequential:
    blocks = [nn.TransformerBlock(32, 4, 128) for _ in range(4)]
    return nn.Sequential(nn.Embedding(20000, 32), *blocks, nn.LayerNorm(32), nn.Linear(32, 64))


def test_a_large_table_does_not_leave_a_stage_without_work() -> None:
    layers = list(gpt_with_a_large_table())
    costs = costs_of_layers(layers)
    assert stage_sizes(costs, 2, "parameters") == [1, 6]  # All that computes on one stage.
    assert stage_sizes(costs, 2, "flops") == stage_sizes(costs, 2, "balanced") == [3, 4]
    assert stage_sizes(costs, 2, "count") == [4, 3]


def test_parameters_and_flops_are_both_even_where_that_can_be() -> None:
    costs = Costs([6, 1, 1, 4], [1.0, 5.0, 5.0, 1.0], [9.0, 1.0, 1.0, 1.0])
    assert stage_sizes(costs, 2, "balanced") == [2, 2]
    assert stage_sizes(costs, 2, "parameters") == [1, 3]
    assert stage_sizes(costs, 2, "time") == [1, 3]


def test_stages_by_time_need_an_example() -> None:
    layers = list(gpt_with_a_large_table())
    with pytest.raises(ValueError, match="give an example"):
        stage_sizes(costs_of_layers(layers), 2, "time")
    costs = costs_of_layers(layers, np.zeros((2, 8), int))
    assert costs.seconds is not None
    assert (len(costs.seconds), min(costs.seconds) > 0) == (7, True)
    assert sum(stage_sizes(costs, 2, "time")) == 7


def test_flops_are_counted_by_shapes() -> None:
    with counting_flops() as count:
        nn.Linear(8, 16, bias=False)(Tensor(np.ones((3, 5, 8), np.float32)))
    assert count.flops == 2 * 3 * 5 * 8 * 16
    with counting_flops() as count:
        functional.attention(*(Tensor(np.ones((2, 3, 7, 4))) for _ in range(3)))
    assert count.flops == 4 * 2 * 3 * 7 * 4 * 7


def test_layers_of_a_traced_model_cost_what_their_modules_cost() -> None:
    costs = TracedModel(GPT(), np.zeros((1, 8), int), 2).costs()
    blocks = costs.flops[2:5]
    assert min(blocks) == max(blocks) > 10 * max(costs.flops[:2])
    model = GPT()
    assert sum(costs.parameters) == sum(p.nbytes for p in model.parameters())
    assert len(TracedModel(UNet(), np.ones((1, 16)), 2).costs().flops) == 10


def test_descriptions_that_share_a_weight_are_shared_out() -> None:
    layers = [SharedLayerDesc("w", nn.Linear, 4, 4), LayerDesc(nn.Tanh), SharedLayerDesc("w", nn.Linear, 4, 4)]
    pipeline = Pipeline(
        layers, nn.MSELoss(), counting_communicator(1), micro_batches=1, schedule="interleaved", virtual_stages=2
    )
    assert len(list(pipeline.module.named_parameters())) == 3  # One weight, two biases.
