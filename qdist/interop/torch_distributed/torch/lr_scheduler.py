"""torch.optim.lr_scheduler's names.

As there, a step multiplies the rates that are in force, so that several schedules of one optimiser act together, and
what a program sets in between stays. `qdist.optim` has schedules of its own.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from ....optim import Optimizer

__all__ = ["CosineAnnealingLR", "ExponentialLR", "LRScheduler", "LambdaLR", "LinearLR", "MultiStepLR", "StepLR"]


class LRScheduler:
    """Sets the learning rates of an optimiser's groups; `last_epoch` counts step() calls.

    optimizer: its rates now are the initial ones. A schedule is resumed by load_state_dict, as the optimiser is, whose
    state has the rates; last_epoch is -1, as torch has it without one.
    """

    def __init__(self, optimizer: Optimizer, last_epoch: int = -1) -> None:
        if not isinstance(optimizer, Optimizer):
            raise TypeError(f"a schedule is of an optimiser of qdist.optim, not {type(optimizer).__name__}")
        if last_epoch != -1:
            raise ValueError(
                f"last_epoch={last_epoch}: resume by load_state_dict() of the optimiser and of the schedule"
            )
        self.optimizer = optimizer
        self.base_lrs: list[float] = []
        self.last_epoch = -1
        self.step()

    def _next(self, lr: float, t: int, base: float, group: int) -> float:
        """The rate at time t of the group with this number, whose rate is `lr` at t - 1 and was `base` at first."""
        raise NotImplementedError

    def step(self) -> None:
        """Go one step on."""
        self.last_epoch += 1
        groups = self.optimizer.param_groups
        self.base_lrs += [group["lr"] for group in groups[len(self.base_lrs) :]]
        for i, (group, base) in enumerate(zip(groups, self.base_lrs, strict=True)):
            group["lr"] = self._next(group["lr"], self.last_epoch, base, i)

    def get_last_lr(self) -> list[float]:
        """The rates in force, one a group."""
        return [group["lr"] for group in self.optimizer.param_groups]

    def state_dict(self) -> dict[str, Any]:
        """The step count and the initial rates."""
        return {"last_epoch": self.last_epoch, "base_lrs": list(self.base_lrs)}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on from a saved count; the rates in force are the optimiser's, and come with its state."""
        self.last_epoch = int(state_dict["last_epoch"])
        self.base_lrs = [float(lr) for lr in state_dict["base_lrs"]]


class StepLR(LRScheduler):
    """Multiply by gamma every step_size steps."""

    def __init__(self, optimizer: Optimizer, step_size: int, gamma: float = 0.1, last_epoch: int = -1) -> None:
        if step_size < 1:
            raise ValueError(f"step_size must be at least 1, got {step_size}")
        self.step_size, self.gamma = step_size, gamma
        super().__init__(optimizer, last_epoch)

    def _next(self, lr: float, t: int, base: float, group: int) -> float:
        return lr * self.gamma if t and t % self.step_size == 0 else lr


class MultiStepLR(LRScheduler):
    """Multiply by gamma at each of the milestones."""

    def __init__(
        self, optimizer: Optimizer, milestones: Sequence[int], gamma: float = 0.1, last_epoch: int = -1
    ) -> None:
        self.milestones, self.gamma = list(milestones), gamma
        super().__init__(optimizer, last_epoch)

    def _next(self, lr: float, t: int, base: float, group: int) -> float:
        return lr * self.gamma ** self.milestones.count(t)


class ExponentialLR(LRScheduler):
    """Multiply by gamma every step."""

    def __init__(self, optimizer: Optimizer, gamma: float, last_epoch: int = -1) -> None:
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def _next(self, lr: float, t: int, base: float, group: int) -> float:
        return lr * self.gamma if t else lr


class LinearLR(LRScheduler):
    """From start_factor to end_factor times the rate, linearly in total_iters steps."""

    def __init__(
        self,
        optimizer: Optimizer,
        start_factor: float = 1 / 3,
        end_factor: float = 1.0,
        total_iters: int = 5,
        last_epoch: int = -1,
    ) -> None:
        if not 0 < start_factor <= 1 or not 0 <= end_factor <= 1 or total_iters < 1:
            raise ValueError(
                f"start_factor={start_factor} is above 0 and at most 1, end_factor={end_factor} from 0 to 1, "
                f"total_iters={total_iters} at least 1"
            )
        self.start_factor, self.end_factor, self.total_iters = start_factor, end_factor, total_iters
        super().__init__(optimizer, last_epoch)

    def _factor(self, t: int) -> float:
        return self.start_factor + (self.end_factor - self.start_factor) * min(t, self.total_iters) / self.total_iters

    def _next(self, lr: float, t: int, base: float, group: int) -> float:
        if t > self.total_iters:
            return lr
        return lr * self._factor(t) / (self._factor(t - 1) if t else 1.0)


class LambdaLR(LRScheduler):
    """The initial rate times lr_lambda(t): one function, or one a group."""

    def __init__(
        self,
        optimizer: Optimizer,
        lr_lambda: Callable[[int], float] | Sequence[Callable[[int], float]],
        last_epoch: int = -1,
    ) -> None:
        groups = len(optimizer.param_groups)
        self.lr_lambdas = [lr_lambda] * groups if callable(lr_lambda) else list(lr_lambda)
        if len(self.lr_lambdas) != groups:
            raise ValueError(f"{len(self.lr_lambdas)} functions were given for {groups} group(s)")
        super().__init__(optimizer, last_epoch)

    def _next(self, lr: float, t: int, base: float, group: int) -> float:
        if group >= len(self.lr_lambdas):
            raise ValueError(f"group {group} was added later and has no function: make the schedule after it")
        return base * self.lr_lambdas[group](t)


class CosineAnnealingLR(LRScheduler):
    """From the rate to eta_min along half a cosine in T_max steps; after that back, and so on."""

    def __init__(self, optimizer: Optimizer, T_max: int, eta_min: float = 0.0, last_epoch: int = -1) -> None:
        if T_max < 1:
            raise ValueError(f"T_max must be at least 1, got {T_max}")
        self.T_max, self.eta_min = T_max, eta_min
        super().__init__(optimizer, last_epoch)

    def _next(self, lr: float, t: int, base: float, group: int) -> float:
        if t == 0:
            return lr
        if (t - 1 - self.T_max) % (2 * self.T_max) == 0:
            return lr + (base - self.eta_min) * (1 - math.cos(math.pi / self.T_max)) / 2
        now, before = (1 + math.cos(math.pi * at / self.T_max) for at in (t, t - 1))
        return now / before * (lr - self.eta_min) + self.eta_min
