"""Batch norm over the rows of all ranks: what data parallelism of a model with batch norm needs to be one process's."""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from qdist.comm import Communicator, world
from qdist.nn import BatchNorm1d, BatchNorm2d, Module
from qdist.parallel.collectives import copy, reduce
from qdist.tensor import Tensor, computing_in, no_grad
from qdist.tensor.arrays import FLOAT32, is_half
from qdist.tensor.autograd import mode
from qdist.tensor.half import widened

__all__ = ["SyncBatchNorm"]


class SyncBatchNorm(BatchNorm2d):
    """Normalise each channel of (n, channels, ...) by the statistics of all ranks' rows; running ones in eval mode.

    Args:
        channels, eps, momentum: as of nn.BatchNorm2d.
        comm: the ranks that share the batch, mesh["dp"]; all when not given.

    Ranks exchange gradients within the backward pass, so their losses need the same scale: `parallelize` and
    `DataParallel.loss` see to it; plain means do where ranks have equally many rows, and are refused where they have
    not. Collective while training.
    """

    def __init__(
        self,
        channels: int,
        eps: float = 1e-5,
        momentum: float = 0.1,
        comm: Communicator | None = None,
        dtype: Any = np.float32,
    ) -> None:
        super().__init__(channels, eps, momentum, dtype)
        self.comm = world() if comm is None else comm

    @classmethod
    def convert(cls, model: Module, comm: Communicator | None = None) -> Module:
        """Replaces every BatchNorm1d and BatchNorm2d in a model by this one with its weights; returns the model, or
        what replaces it."""
        plain = (BatchNorm1d, BatchNorm2d)
        if type(model) in plain:
            return cls._of(model, comm)
        made: dict[int, Module] = {}
        for module in list(model.modules()):
            for own, child in list(module._modules.items()):
                if type(child) in plain:
                    # One that stands in several places does so afterwards.
                    if id(child) not in made:
                        made[id(child)] = cls._of(child, comm)
                    setattr(module, own, made[id(child)])
        return model

    @classmethod
    def _of(cls, layer: Any, comm: Communicator | None) -> Self:
        made = cls(layer.channels, layer.eps, layer.momentum, comm, layer.weight.dtype)
        made.weight, made.bias = layer.weight, layer.bias
        made.running_mean, made.running_var = layer.running_mean, layer.running_var
        made.training = layer.training
        return made

    def forward(self, x: Tensor) -> Tensor:
        if x.ndim < 2 or x.shape[1] != self.channels:
            raise ValueError(f"SyncBatchNorm takes (n, {self.channels}, ...), got shape {x.shape}")
        across: Any = (1, -1, *(1,) * (x.ndim - 2))
        if not self.training:
            scale, shift = self._running(x.dtype)
            return x * scale.reshape(*across) + shift.reshape(*across)
        axes = (0, *range(2, x.ndim))
        count = float(self.comm.all_reduce(np.array(x.size // self.channels, np.float64)))
        if count < 2:
            raise ValueError("SyncBatchNorm needs more than one value per channel on all ranks in training mode")
        half = x.dtype if is_half(x.dtype) else mode.precision
        # Half precision has no room for sums over a batch, nor for every variance.
        with computing_in(None):
            out = self._normalised(widened(x), axes, across, count)
        return out if half is None or out.dtype != FLOAT32 else out.to(half)

    def _normalised(self, x: Tensor, axes: tuple[int, ...], across: Any, count: float) -> Tensor:
        # Summed over ranks in both passes: every rank's output depends on every rank's rows.
        mean = copy(reduce(x.sum(axes), self.comm), self.comm) / count
        centred = x - mean.reshape(*across)
        variance = copy(reduce((centred * centred).sum(axes), self.comm), self.comm) / count
        with no_grad():
            keep, take = 1 - self.momentum, self.momentum
            dtype = self.running_mean.dtype
            self.running_mean.assign((keep * self.running_mean + take * mean).to(dtype))
            # The running variance estimates the population's, hence the n - 1.
            self.running_var.assign((keep * self.running_var + take * variance * (count / (count - 1))).to(dtype))
        scale = widened(self.weight) / (variance + self.eps).sqrt()
        return centred * scale.reshape(*across) + widened(self.bias).reshape(*across)
