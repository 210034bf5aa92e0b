"""Layers and models that are divided over the ranks of fleet.init's groups."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..... import parallel
from .....comm import Communicator
from .....nn import Module
from .....parallel import LayerDesc, LossScale, Pipeline, SharedLayerDesc
from .....parallel.collectives import copy, gather, reduce, scatter
from .....parallel.partition import Partition, check_divides, divided
from .....tensor import Tensor
from ... import nn
from ...amp import unscale
from . import topology

__all__ = [
    "ColumnParallelLinear",
    "DataParallel",
    "LayerDesc",
    "PipelineLayer",
    "PipelineParallel",
    "RowParallelLinear",
    "SharedLayerDesc",
    "TensorParallel",
]


class ColumnParallelLinear(nn.Layer):
    """x @ weight + bias with the outputs divided over the model-parallel ranks; weight (in, out / ranks).

    Args:
        in_features, out_features: of the whole layer; the ranks divide out_features.
        has_bias: whether there is a bias; it is divided as the outputs are.
        gather_output: give all outputs on every rank.

    For the same seed the weights are those of paddle.nn.Linear.
    """

    def __init__(self, in_features: int, out_features: int, has_bias: bool = True, gather_output: bool = True) -> None:
        super().__init__()
        self.comm = topology.current().get_model_parallel_group()
        check_divides("ColumnParallelLinear: out_features", out_features, self.comm.size)
        whole = nn.Linear(in_features, out_features, None if has_bias else False)
        self.gather_output = gather_output
        self.weight = divided(whole.weight, Partition(self.comm, 1))
        self.bias = None if whole.bias is None else divided(whole.bias, Partition(self.comm, 0))

    def forward(self, x: Tensor) -> Tensor:
        y = copy(x, self.comm) @ self.weight
        y = y if self.bias is None else y + self.bias
        return gather(y, self.comm, -1) if self.gather_output else y


class RowParallelLinear(nn.Layer):
    """x @ weight + bias with the inputs divided over the model-parallel ranks; weight (in / ranks, out).

    Args:
        in_features, out_features: of the whole layer; the ranks divide in_features.
        has_bias: whether there is a bias; it is whole on every rank and added once.
        input_is_parallel: x is what a ColumnParallelLinear without gather_output gave.

    For the same seed the weights are those of paddle.nn.Linear.
    """

    def __init__(
        self, in_features: int, out_features: int, has_bias: bool = True, input_is_parallel: bool = False
    ) -> None:
        super().__init__()
        self.comm = topology.current().get_model_parallel_group()
        check_divides("RowParallelLinear: in_features", in_features, self.comm.size)
        whole = nn.Linear(in_features, out_features, None if has_bias else False)
        self.input_is_parallel = input_is_parallel
        self.weight = divided(whole.weight, Partition(self.comm, 0))
        self.bias = whole.bias

    def forward(self, x: Tensor) -> Tensor:
        own = x if self.input_is_parallel else scatter(x, self.comm, -1)
        y = reduce(own @ self.weight, self.comm)
        return y if self.bias is None else y + self.bias


class TensorParallel(nn.Layer):
    """A model of divided layers; the inputs of the first of the ranks that share it are everybody's."""

    def __init__(self, model: Module, comm: Communicator) -> None:
        super().__init__()
        self.model, self._comm = model, comm

    def forward(self, *inputs: Any) -> Any:
        same = [Tensor(self._comm.broadcast(x.data)) if isinstance(x, Tensor) else x for x in inputs]
        return self.model(*same)


class DataParallel(parallel.DataParallel):
    """A model whose gradients are averaged over replicas."""

    def clear_gradients(self) -> None:
        """Forget all gradients."""
        self.zero_grad()


class PipelineLayer(nn.Layer):
    """A model as a list of layers, of which this rank builds those of its stages alone.

    Args:
        layers: LayerDescs, layers and functions, applied one after the other.
        loss_fn: loss_fn(output, label) for a micro-batch.
        num_stages: fleet's pp_degree; that when not given.
        seg_method: "uniform" gives all stages equally many layers, "parameters" balances their parameters.
        recompute_interval: 1 keeps only a stage's inputs and computes the rest again; 0 keeps everything.
        num_virtual_pipeline_stages: stages on each rank, one rank behind the other in turn (interleaved).

    How batches are cut is said by `pipeline_configs` of the strategy that fleet.init was given.
    """

    def __init__(
        self,
        layers: Sequence[Any],
        loss_fn: Callable[..., Tensor],
        num_stages: int | None = None,
        seg_method: str = "uniform",
        recompute_interval: int = 0,
        num_virtual_pipeline_stages: int = 1,
    ) -> None:
        super().__init__()
        groups = topology.current()
        if num_stages not in (None, groups.mesh.shape["pp"]):
            raise ValueError(f"num_stages={num_stages}: fleet.init arranged {groups.mesh.shape['pp']} stages")
        if recompute_interval not in (0, 1):
            raise ValueError(f"recompute_interval={recompute_interval}: 0 or 1")
        methods = {"uniform": "count", "parameters": "parameters"}
        if seg_method not in methods:
            raise ValueError(f"seg_method={seg_method!r}: {', '.join(methods)}")
        configs = groups.pipeline_configs
        self.accumulate_steps = configs.get("accumulate_steps", 1)
        self.micro_batch_size = configs.get("micro_batch_size")
        virtual = num_virtual_pipeline_stages
        self.pipeline = Pipeline(
            layers,
            loss_fn,
            groups.mesh,
            micro_batches=self.accumulate_steps,
            schedule="1f1b" if virtual == 1 else "interleaved",
            virtual_stages=virtual,
            partition=methods[seg_method],
            recompute=bool(recompute_interval),
        )
        self.stage = self.pipeline.module

    def forward(self, *inputs: Any) -> Any:
        raise RuntimeError("a pipeline is trained by fleet.distributed_model(model).train_batch([x, y], optimizer)")


class PipelineParallel(nn.Layer):
    """A pipeline at work: train_batch takes the place of forward, backward and step."""

    def __init__(self, model: PipelineLayer) -> None:
        super().__init__()
        self.model = model

    def train_batch(
        self, data: Sequence[Any], optimizer: Any, lr_scheduler: Any = None, scaler: LossScale | None = None
    ) -> Tensor:
        """One step on a batch [x, y]; gives its loss, on every rank.

        Args:
            data: inputs and labels.
            optimizer: of this rank's parameters; a grad_clip counts the parameters of all stages.
            lr_scheduler: its step() is called at the end.
            scaler: a paddle.amp.GradScaler or qdist.parallel.LossScale: the loss is multiplied by it in the backward
                passes, and the step is left out on all ranks if a gradient is not finite on one.
        """
        inputs, labels = self._checked(data)
        pipeline = self.model.pipeline
        if hasattr(optimizer, "counting"):
            optimizer.counting(over=[pipeline.comm], elsewhere=pipeline.tied.counted_elsewhere())
        if scaler is None or not getattr(scaler, "enable", True):
            loss = pipeline.train_batch(inputs, labels, optimizer)
        else:
            optimizer.zero_grad()
            loss = pipeline.train_batch(inputs, labels, loss_scale=scaler.value)
            finite = unscale(pipeline.parameters(), scaler.value, topology.current().mesh.comm)
            if finite:
                optimizer.step()
            scaler.update(finite)
        if lr_scheduler is not None:
            lr_scheduler.step()
        return Tensor(loss)

    def eval_batch(self, data: Sequence[Any]) -> Tensor:
        """The loss of a batch [x, y], on every rank, without training."""
        inputs, labels = self._checked(data)
        return Tensor(self.model.pipeline.eval_batch(inputs, labels))

    def _checked(self, data: Sequence[Any]) -> tuple[Any, Any]:
        inputs, labels = data
        layer = self.model
        rows = len(inputs[0]) if isinstance(inputs, (tuple, list)) else len(inputs)
        if layer.micro_batch_size is not None and rows != layer.accumulate_steps * layer.micro_batch_size:
            raise ValueError(
                f"a batch of {rows} rows is not accumulate_steps={layer.accumulate_steps} micro-batches of "
                f"micro_batch_size={layer.micro_batch_size}"
            )
        return inputs, labels
