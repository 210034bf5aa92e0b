"""fleet: degrees of parallelism, and models made parallel by them."""

from __future__ import annotations

from typing import Any

from .....nn import Module
from .....optim import Optimizer
from ... import nn
from .. import auto_parallel as auto
from . import meta_parallel, topology
from .meta_parallel import DataParallel, PipelineLayer, PipelineParallel, TensorParallel
from .sharding_optimizer import ShardingOptimizer
from .topology import DistributedStrategy, HybridCommunicateGroup

__all__ = [
    "DistributedStrategy",
    "auto",
    "distributed_model",
    "distributed_optimizer",
    "distributed_scaler",
    "get_hybrid_communicate_group",
    "init",
    "meta_parallel",
    "worker_index",
    "worker_num",
]


def init(is_collective: bool = True, strategy: DistributedStrategy | None = None) -> HybridCommunicateGroup:
    """Connect the ranks and arrange them as a strategy says; all of them data parallel without one.

    Raises ValueError for is_collective=False: a parameter server is written with messages, see
    circuits/parameter_server.py.
    """
    if not is_collective:
        raise ValueError("is_collective=False: a parameter server is circuits/parameter_server.py, on send and recv")
    return topology.arrange(strategy)


def get_hybrid_communicate_group() -> HybridCommunicateGroup:
    """The groups of this rank."""
    return topology.current()


def worker_index() -> int:
    """This rank."""
    return topology.current().mesh.comm.rank


def worker_num() -> int:
    """How many ranks there are."""
    return topology.current().mesh.comm.size


def distributed_model(model: Module) -> Any:
    """The model, trained by all ranks as fleet.init arranged them.

    A PipelineLayer becomes a PipelineParallel, called by train_batch. Any other model has its gradients averaged over
    replicas, and its inputs taken from the first of the ranks that share its layers.
    """
    groups = topology.current()
    if isinstance(model, PipelineLayer):
        return PipelineParallel(model)
    if groups.mesh.shape["pp"] > 1:
        raise TypeError(f"pp_degree={groups.mesh.shape['pp']} needs a PipelineLayer, not {type(model).__name__}")
    if groups.mesh.shape["mp"] > 1:
        model = TensorParallel(model, groups.get_model_parallel_group())
    return DataParallel(model, groups.get_data_parallel_group()) if groups.mesh.shape["dp"] > 1 else _as_layer(model)


def _as_layer(model: Module) -> Module:
    """A model with clear_gradients()."""
    if not isinstance(model, nn.Layer) and not hasattr(model, "clear_gradients"):
        raise TypeError(f"distributed_model takes a paddle.nn.Layer, not {type(model).__name__}")
    return model


def distributed_optimizer(optimizer: Optimizer, strategy: DistributedStrategy | None = None) -> Any:
    """The optimiser itself: gradients are complete on every rank when it steps. With a sharding_degree above 1 a
    ShardingOptimizer around it, which divides its state.

    strategy: only the one that fleet.init was given; another is a ValueError.
    """
    groups = topology.current()
    if strategy is not None and strategy.pipeline_configs != groups.pipeline_configs:
        raise ValueError("distributed_optimizer: the strategy is the one that fleet.init was given; leave it out")
    if groups.sharding_degree == 1:
        return optimizer
    return ShardingOptimizer(optimizer, groups.get_sharding_parallel_group())


def distributed_scaler(scaler: Any) -> Any:
    """The scaler itself: it asks all ranks whether gradients are finite."""
    return scaler
