"""Loss scaling under Paddle's name."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from ...comm import Communicator, init
from ...parallel import LossScale
from ...tensor import Tensor
from ...tensor.arrays import module_of

__all__ = ["GradScaler", "unscale"]


def unscale(parameters: Iterable[Any], factor: float, comm: Communicator) -> bool:
    """Divide gradients by a factor of the loss; whether all are finite, on every rank of a communicator. Collective."""
    finite = True
    for parameter in parameters:
        if parameter.grad is not None:
            data = parameter.grad.data
            data /= factor
            finite = finite and bool(module_of(data).isfinite(data).all())
    return bool(comm.all_reduce(np.array(int(finite)), "min"))


class GradScaler(LossScale):
    """The factor of the loss, and steps that are left out when a gradient is not finite on some rank.

    Args:
        enable: False leaves losses and steps as they are.
        init_loss_scaling: the factor to start with.
        incr_ratio, decr_ratio: 2 and 0.5 alone: the factor is doubled and halved.
        incr_every_n_steps: after so many steps with finite gradients it is doubled.
        decr_every_n_nan_or_inf: 1 alone: every step that is left out halves it.
        use_dynamic_loss_scaling: whether it changes at all.
    """

    def __init__(
        self,
        enable: bool = True,
        init_loss_scaling: float = 2.0**16,
        incr_ratio: float = 2.0,
        decr_ratio: float = 0.5,
        incr_every_n_steps: int = 2000,
        decr_every_n_nan_or_inf: int = 1,
        use_dynamic_loss_scaling: bool = True,
    ) -> None:
        if (incr_ratio, decr_ratio, decr_every_n_nan_or_inf) != (2.0, 0.5, 1):
            raise ValueError(
                f"incr_ratio={incr_ratio}, decr_ratio={decr_ratio}, decr_every_n_nan_or_inf={decr_every_n_nan_or_inf}: "
                "the factor is doubled, and halved by every step that is left out: 2, 0.5 and 1"
            )
        super().__init__(init_loss_scaling if enable else 1.0, use_dynamic_loss_scaling and enable, incr_every_n_steps)
        self.enable = enable
        # By optimiser, since the last update().
        self._finite: dict[Any, bool] = {}
        self._stepped: set[Any] = set()

    def scale(self, loss: Tensor) -> Tensor:
        """The loss times the factor."""
        return loss * self.value

    def unscale_(self, optimizer: Any) -> None:
        """Divide the gradients of an optimiser's parameters by the factor, once before its step. Collective."""
        if not self.enable:
            return
        if optimizer in self._finite:
            raise RuntimeError("unscale_() was called already: call update() after step()")
        ranks = getattr(optimizer, "ranks", None)
        self._finite[optimizer] = unscale(optimizer.parameters, self.value, init() if ranks is None else ranks)

    def step(self, optimizer: Any) -> None:
        """The optimiser's step, if all its gradients are finite on all ranks."""
        if not self.enable:
            optimizer.step()
            return
        if optimizer in self._stepped:
            raise RuntimeError("step() was called already: call update() after the steps of all optimisers")
        if optimizer not in self._finite:
            self.unscale_(optimizer)
        self._stepped.add(optimizer)
        if self._finite[optimizer]:
            optimizer.step()

    def update(self, finite: bool | None = None) -> None:
        """Take notice of the steps since the last update()."""
        if not self.enable:
            return
        if finite is None and not self._finite:
            raise RuntimeError("update() comes after step()")
        known = all(self._finite.values()) if finite is None else finite
        self._finite.clear()
        self._stepped.clear()
        super().update(known)

    def minimize(self, optimizer: Any, scaled_loss: Tensor) -> None:
        """step() and update(), after scaled_loss.backward()."""
        self.step(optimizer)
        self.update()
