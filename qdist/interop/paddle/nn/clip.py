"""Gradient clipping under Paddle's names: an optimiser that is given one of these clips before every step."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from .... import parallel
from ....comm import Communicator
from ....optim.clip import check_max_norm
from ....parallel import auto
from ....tensor import Tensor

__all__ = ["ClipGradByGlobalNorm", "ClipGradByNorm", "ClipGradByValue", "GradClip"]


class GradClip:
    """The base of all: called with an optimiser's parameters, whose gradients are complete."""

    def __call__(
        self, parameters: Sequence[Tensor], over: Sequence[Communicator] = (), elsewhere: Iterable[Tensor] = ()
    ) -> None:
        """Clip. over: groups whose ranks have other parameters, the stages of a pipeline; elsewhere: parameters that
        other ranks of them count."""
        raise NotImplementedError


class ClipGradByGlobalNorm(GradClip):
    """Gradients are scaled together so that their joint norm, over all ranks, is at most clip_norm.

    A norm that is not finite is a RuntimeError, on all ranks.
    """

    def __init__(self, clip_norm: float) -> None:
        check_max_norm(clip_norm)
        self.clip_norm = float(clip_norm)

    def __call__(
        self, parameters: Sequence[Tensor], over: Sequence[Communicator] = (), elsewhere: Iterable[Tensor] = ()
    ) -> None:
        if any(isinstance(p, auto.DistTensor) for p in parameters):
            auto.clip_grad_norm_(parameters, self.clip_norm)
        else:
            parallel.clip_grad_norm_(parameters, self.clip_norm, over=over, elsewhere=elsewhere)


class ClipGradByNorm(ClipGradByGlobalNorm):
    """Each parameter's gradient is scaled so that its own norm is at most clip_norm, wherever its parts are."""

    def __call__(
        self, parameters: Sequence[Tensor], over: Sequence[Communicator] = (), elsewhere: Iterable[Tensor] = ()
    ) -> None:
        for parameter in parameters:
            super().__call__([parameter])


class ClipGradByValue(GradClip):
    """Every component of every gradient is kept from min, -max when not given, to max."""

    def __init__(self, max: float, min: float | None = None) -> None:
        self.max, self.min = float(max), float(-max if min is None else min)
        if self.min > self.max:
            raise ValueError(f"ClipGradByValue(max={max}, min={min}): min is greater than max")

    def __call__(
        self, parameters: Sequence[Tensor], over: Sequence[Communicator] = (), elsewhere: Iterable[Tensor] = ()
    ) -> None:
        for parameter in parameters:
            if parameter.grad is not None:
                parameter.grad.data = parameter.grad.data.clip(self.min, self.max)
