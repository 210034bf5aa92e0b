"""Learning-rate schedules: call step() after every optimiser step (or epoch, if they count those)."""

from __future__ import annotations

import math
from typing import Any

from .optimizer import Optimizer


def _is_number_from(value: Any, least: int) -> bool:
    return not isinstance(value, str) and value is not None and bool(value >= least)


class Scheduler:
    """Sets every group's learning rate to its initial one times factor(t), t counting step() calls. The initial rate of
    a group that is added later is the one that it comes with."""

    def __init__(self, optimizer: Optimizer) -> None:
        if not hasattr(optimizer, "param_groups"):
            raise TypeError(f"a schedule is of an optimiser of qdist.optim, not {type(optimizer).__name__}")
        self.optimizer = optimizer
        self.base_lrs: list[float] = []
        self.count = 0
        self._set()

    def factor(self, t: int) -> float:
        """The multiple of the initial rate in force at time t."""
        raise NotImplementedError

    def step(self) -> None:
        """Go one step on."""
        self.count += 1
        self._set()

    def _take_groups(self) -> None:
        """Note the initial rates of groups that are new."""
        self.base_lrs += [group["lr"] for group in self.optimizer.param_groups[len(self.base_lrs) :]]

    def _set(self) -> None:
        self._take_groups()
        for group, lr in zip(self.optimizer.param_groups, self.base_lrs):
            group["lr"] = lr * self.factor(self.count)

    def state_dict(self) -> dict[str, Any]:
        """The step count and the initial rates."""
        self._take_groups()
        return {"count": self.count, "base_lrs": list(self.base_lrs)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from a saved count."""
        self._take_groups()
        if len(state["base_lrs"]) != len(self.base_lrs):
            raise ValueError(f"{len(state['base_lrs'])} learning rates saved, {len(self.base_lrs)} groups here")
        self.count = int(state["count"])
        self.base_lrs = [float(lr) for lr in state["base_lrs"]]
        self._set()


class StepLR(Scheduler):
    """Multiply the rate by gamma every step_size steps."""

    def __init__(self, optimizer: Optimizer, step_size: int, gamma: float = 0.1) -> None:
        if not _is_number_from(step_size, 1):
            raise ValueError(f"step_size must be at least 1, got {step_size!r}")
        self.step_size, self.gamma = step_size, gamma
        super().__init__(optimizer)

    def factor(self, t: int) -> float:
        return self.gamma ** (t // self.step_size)


class CosineLR(Scheduler):
    """From the initial rate to `final` times it along half a cosine, in `total` steps; constant after."""

    def __init__(self, optimizer: Optimizer, total: int, final: float = 0.0) -> None:
        if not _is_number_from(total, 1):
            raise ValueError(f"total must be at least 1, got {total!r}")
        self.total, self.final = total, final
        super().__init__(optimizer)

    def factor(self, t: int) -> float:
        return self.final + (1 - self.final) * (1 + math.cos(math.pi * min(t / self.total, 1.0))) / 2


class WarmupLR(Scheduler):
    """Linear scaling with a gradual warm-up (Goyal et al., arXiv 1706.02677).

    The optimiser's rate is the one for a single worker. It grows linearly from there to `scale` times it
    (scale = how many times larger the batch is, usually the number of ranks) over `warmup` steps; after that
    it follows `after`, whose clock starts when the warm-up ends, or stays.
    """

    def __init__(self, optimizer: Optimizer, warmup: int, scale: float = 1.0, after: Scheduler | None = None) -> None:
        if not _is_number_from(warmup, 0):
            raise ValueError(f"warmup must not be negative, got {warmup!r}")
        if after is not None and after.optimizer is not optimizer:
            raise ValueError("the schedule that follows a warm-up is one of the same optimiser")
        self.warmup, self.scale, self.after = warmup, scale, after
        super().__init__(optimizer)
        if after is not None:
            # `after` has already set rates of its own; the initial ones are those it started from.
            self.base_lrs = list(after.base_lrs)
            self._set()

    def factor(self, t: int) -> float:
        if t < self.warmup:
            # With scale 1 there is no larger rate to grow to: start from (almost) zero instead.
            start = 1.0 if self.scale != 1.0 else 1.0 / self.warmup
            return start + (self.scale - start) * t / self.warmup
        return self.scale * (self.after.factor(t - self.warmup) if self.after is not None else 1.0)
