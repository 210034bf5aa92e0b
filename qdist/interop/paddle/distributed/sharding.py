"""group_sharded_parallel: ZeRO under Paddle's name."""

from __future__ import annotations

from typing import Any

from ....comm import Communicator
from ....nn import Module
from ....optim import Optimizer
from ....parallel import LossScale, Zero
from ..amp import GradScaler
from ..nn.clip import ClipGradByGlobalNorm
from .communication import NotAMember

__all__ = ["GroupSharded", "ShardedOptimizer", "group_sharded_parallel"]

_STAGES = {"os": 1, "os_g": 2, "p_g_os": 3}


class GroupSharded(Zero):
    """A sharded model; `loss.backward()`, `optimizer.step()` and `clear_gradients()` are called as for a plain one."""

    def clear_gradients(self) -> None:
        """Forget all gradients."""
        self.zero_grad()


class ShardedOptimizer:
    """Updates a GroupSharded model."""

    def __init__(self, model: GroupSharded) -> None:
        self.model = model

    @property
    def parameters(self) -> list[Any]:
        """What this rank updates, with complete gradients, which a GradScaler divides. Collective."""
        return self.model.graded()

    @property
    def ranks(self) -> Communicator:
        """Those that share the model."""
        return self.model.comm

    def step(self) -> None:
        """Update every parameter that has a gradient."""
        self.model.step()

    def clear_grad(self) -> None:
        """Forget all gradients."""
        self.model.zero_grad()

    clear_gradients = clear_grad

    def get_lr(self) -> float:
        """The learning rate."""
        return self.model.optimizer.param_groups[0]["lr"]

    def state_dict(self) -> dict[str, Any]:
        """The whole optimiser's state, on every rank. Collective."""
        return self.model.full_state_dict()["optimizer"]


def group_sharded_parallel(
    model: Module,
    optimizer: Optimizer,
    level: str,
    scaler: LossScale | None = None,
    group: Communicator | NotAMember | None = None,
) -> tuple[GroupSharded, ShardedOptimizer, Any]:
    """A model and its optimiser, divided over ranks.

    Args:
        level: "os" divides the optimiser's state (ZeRO stage 1), "os_g" also gradients (2), "p_g_os" also
            parameters (3).
        scaler: computes in float16. A GradScaler is used as for a plain model: `scaler.scale(loss).backward()`,
            `scaler.step(optimizer)`, `scaler.update()`. A LossScale is given to the model's ZeRO, whose
            `backward(loss)` takes the place of `loss.backward()`. None computes in the model's precision.
        group: the ranks; all when not given.

    Returns the model, the optimiser and the scaler.

    Raises ValueError for another level, for a grad_clip that is not by the global norm, and on ranks outside the group.
    """
    if isinstance(group, NotAMember):
        raise ValueError(f"group_sharded_parallel: this rank is not in {group!r}, whose members alone train the model")
    if level not in _STAGES:
        raise ValueError(f"level={level!r}: {', '.join(_STAGES)}")
    precision = None if scaler is None else "float16"
    clip, max_norm = getattr(optimizer, "grad_clip", None), None
    if clip is not None:
        if type(clip) is not ClipGradByGlobalNorm:
            raise ValueError(
                f"grad_clip={type(clip).__name__}: ranks hold slices of gradients, which are clipped by their joint "
                "norm; use paddle.nn.ClipGradByGlobalNorm"
            )
        max_norm, optimizer.grad_clip = clip.clip_norm, None  # type: ignore[attr-defined]
    # A GradScaler multiplies and divides by itself.
    factor = LossScale(1.0, dynamic=False) if isinstance(scaler, GradScaler) else scaler
    made = GroupSharded(
        model, optimizer, _STAGES[level], group, precision=precision, loss_scale=factor, max_norm=max_norm
    )
    return made, ShardedOptimizer(made), scaler
