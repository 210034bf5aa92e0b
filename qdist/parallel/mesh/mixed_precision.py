"""Mixed precision on a mesh: the model computes in half precision, and its parameters are updated in float32.

bfloat16 has float32's range and needs nothing else. float16 has not: the loss is scaled, so that small gradients do not
vanish on their way back, and a step whose gradients overflowed on any rank is left out on all of them. Gradients within
a pass are as large as in one process, whatever the mesh, so that the same steps are left out.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np

from qdist.comm import Communicator
from qdist.nn import Module, Parameter
from qdist.parallel.loss_scale import LossScale
from qdist.parallel.loss_terms import Loss, likely_denominator
from qdist.parallel.mesh.mesh_plan import Plan
from qdist.tensor import Tensor, computing_in
from qdist.tensor.arrays import FLOAT32, kind_of

__all__ = ["MixedPrecision", "check_masters"]


def check_masters(plan: Plan, module: Module) -> None:
    """Raises ValueError for a plan of half precision and a model whose real parameters are not float32."""
    real = [(name, p.dtype) for name, p in module.named_parameters() if kind_of(p.dtype) == "f"]
    other = [f"{name} ({dtype})" for name, dtype in real if dtype != FLOAT32] if plan.half is not None else []
    if other:
        raise ValueError(
            f"precision={plan.precision!r} needs a float32 model, whose values are the master copy, and not "
            f"{other[0]}: build it without a dtype, or convert it with model.to('float32')"
        )


class MixedPrecision:
    """What a plan's `precision` adds to the passes and steps of a model. Without one it adds nothing.

    Args:
        plan: of the model.
        module: this rank's part of it.
        comm: all ranks of the mesh.
        replicas: how many ranks' gradients are averaged.

    Raises ValueError for a model whose real parameters are not float32.
    """

    def __init__(self, plan: Plan, module: Module, comm: Communicator, replicas: int) -> None:
        self.dtype = plan.half
        self.comm, self.replicas = comm, replicas
        self.loss_scale: LossScale | None = None
        """For float16."""
        self.skipped = 0
        """Steps that were left out because gradients overflowed."""
        if self.dtype is None:
            return
        check_masters(plan, module)
        if self.dtype.kind == "f":
            self.loss_scale = LossScale() if plan.loss_scale is None else LossScale(plan.loss_scale)

    def computing(self) -> AbstractContextManager[None]:
        """What the model runs in."""
        return nullcontext() if self.dtype is None else computing_in(self.dtype)

    def passing(self) -> AbstractContextManager[None]:
        """What passes run in: overflow of a scaled loss is nothing to warn of."""
        return nullcontext() if self.loss_scale is None else np.errstate(over="ignore", invalid="ignore")

    @property
    def factor(self) -> float:
        """What the loss is multiplied by before its backward pass, besides what makes the mean over replicas right:
        their number, which would be too much for float16, is made up for in gradients of parameters."""
        return 1.0 if self.loss_scale is None else self.loss_scale.value / self.replicas

    def unit(self, loss: Loss, targets: Any, rows: int, reduction: str, replicas: Communicator) -> float | None:
        """What a pipeline divides by when it begins its backward passes, before it knows all of the loss, so that they
        have the gradients that they have in one process; None where that does not matter. Collective over replicas."""
        if self.loss_scale is None:
            return None
        mine = 1.0 / self.replicas if reduction == "sum" else likely_denominator(loss, targets, rows)
        total = float(replicas.all_reduce(np.array(mine))) if replicas.size > 1 else mine
        return total / self.replicas if total > 0 else None

    def follow(self, parameters: Iterable[Parameter]) -> None:
        """Have gradients come in float32, whatever ZeRO makes of the parameters, with the factor taken out."""
        for parameter in parameters if self.dtype is not None else ():
            parameter.wide_gradient = kind_of(parameter.dtype) == "f"
            if self.loss_scale is not None:
                parameter.register_hook(self._unscaled)

    def _unscaled(self, gradient: Tensor) -> Tensor:
        return Tensor(gradient._data * (1 / self.factor))

    def may_step(self, graded: Iterable[Any]) -> bool:
        """Whether all gradients of all ranks are finite, for float16; adapts the scale. Collective over the mesh."""
        if self.loss_scale is None:
            return True
        gradients = [part.grad._data for part in graded if part.grad is not None and part.grad.size]
        mine = all(bool(np.isfinite(float(abs(g).max()))) for g in gradients)
        finite = bool(self.comm.all_reduce(np.array(mine, np.uint8), "min"))
        self.loss_scale.update(finite)
        self.skipped += not finite
        return finite
