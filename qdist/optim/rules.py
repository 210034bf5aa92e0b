"""The update rules. Each turns a flat gradient into the step that is subtracted from the parameters."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from ..tensor.arrays import Array
from ..tensor.kernels.optimizing import adam_step
from .optimizer import Optimizer


class SGD(Optimizer):
    """Stochastic gradient descent.

    With momentum m: v <- m v + (1 - dampening) g (v <- g at the first step), then p <- p - lr v; Nesterov
    uses g + m v in place of v. weight_decay adds weight_decay * p to g.
    """

    slots: tuple[str, ...] = ("momentum_buffer",)

    def __init__(
        self,
        parameters: Iterable[Any],
        lr: float = 1e-3,
        momentum: float = 0.0,
        dampening: float = 0.0,
        weight_decay: float = 0.0,
        nesterov: bool = False,
    ) -> None:
        defaults = {
            "lr": lr,
            "momentum": momentum,
            "dampening": dampening,
            "weight_decay": weight_decay,
            "nesterov": nesterov,
        }
        if momentum == 0.0:
            self.slots = ()
        super().__init__(parameters, defaults)

    def _check(self, group: dict[str, Any]) -> None:
        super()._check(group)
        if not group["momentum"] >= 0:
            raise ValueError(f"SGD: momentum must not be negative, got {group['momentum']}")
        if group["nesterov"] and (group["momentum"] <= 0 or group["dampening"] != 0):
            raise ValueError("SGD: nesterov needs a momentum and no dampening")
        if group["dampening"] and not group["momentum"]:
            raise ValueError(f"SGD: dampening={group['dampening']} changes nothing without a momentum")
        if group["momentum"] and not self.slots:
            raise ValueError("SGD: give the optimiser itself a momentum before giving one to a group")

    def _direction(self, xp: Any, g: Array, state: dict[str, Array], step: int, group: dict[str, Any]) -> None:
        momentum = group["momentum"]
        if momentum:
            v = state["momentum_buffer"]
            if step == 1:
                v[...] = g
            else:
                v *= momentum
                v += g * (1 - group["dampening"])
            if group["nesterov"]:
                g += momentum * v
            else:
                g[...] = v
        g *= group["lr"]


class Adam(Optimizer):
    """Adam (Kingma and Ba): bias-corrected averages of g and g^2; weight_decay adds weight_decay * p to g."""

    slots = ("exp_avg", "exp_avg_sq")
    decoupled = False

    def __init__(
        self,
        parameters: Iterable[Any],
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
    ) -> None:
        if not hasattr(betas, "__iter__"):
            raise TypeError(f"{type(self).__name__}: betas are two numbers in [0, 1), not {betas!r}")
        defaults = {"lr": lr, "betas": tuple(betas), "eps": eps, "weight_decay": weight_decay}
        super().__init__(parameters, {**defaults, "decoupled": self.decoupled})

    def _check(self, group: dict[str, Any]) -> None:
        super()._check(group)
        if len(group["betas"]) != 2 or not all(0 <= beta < 1 for beta in group["betas"]):
            raise ValueError(f"{type(self).__name__}: betas must be two numbers in [0, 1), got {group['betas']}")

    @property
    def one_pass(self) -> bool:
        # A sub-class may have a direction of its own.
        return type(self)._direction is Adam._direction

    def _update(self, p: Array, g: Array, state: dict[str, Array], step: int, group: dict[str, Any]) -> None:
        (beta1, beta2), decay = group["betas"], group["weight_decay"]
        adam_step(
            p,
            g,
            state["exp_avg"],
            state["exp_avg_sq"],
            betas=(beta1, beta2),
            root_scale=1 / math.sqrt(1 - beta2**step),
            eps=group["eps"],
            rate=group["lr"] / (1 - beta1**step),
            keep=1 - group["lr"] * decay if group["decoupled"] else 1.0,
            decay=0.0 if group["decoupled"] else decay,
        )

    def _direction(self, xp: Any, g: Array, state: dict[str, Array], step: int, group: dict[str, Any]) -> None:
        beta1, beta2 = group["betas"]
        m, v = state["exp_avg"], state["exp_avg_sq"]
        root_scale, rate = 1 / math.sqrt(1 - beta2**step), group["lr"] / (1 - beta1**step)
        scratch = g * (1 - beta1)
        m *= beta1
        m += scratch
        xp.multiply(g, g, out=scratch)
        scratch *= 1 - beta2
        v *= beta2
        v += scratch
        xp.sqrt(v, out=scratch)
        scratch *= root_scale
        scratch += group["eps"]
        xp.divide(m, scratch, out=g)
        g *= rate


class AdamW(Adam):
    """Adam with decoupled decay (Loshchilov and Hutter): p <- p (1 - lr weight_decay) before the step."""

    decoupled = True

    def __init__(
        self,
        parameters: Iterable[Any],
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 1e-2,
    ) -> None:
        super().__init__(parameters, lr, betas, eps, weight_decay)


class RMSprop(Optimizer):
    """RMSprop (Hinton): g over the root of a running average of g^2; optional momentum on the result."""

    slots = ("square_avg", "momentum_buffer")

    def __init__(
        self,
        parameters: Iterable[Any],
        lr: float = 1e-2,
        alpha: float = 0.99,
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        momentum: float = 0.0,
    ) -> None:
        defaults = {"lr": lr, "alpha": alpha, "eps": eps, "weight_decay": weight_decay, "momentum": momentum}
        super().__init__(parameters, defaults)

    def _check(self, group: dict[str, Any]) -> None:
        super()._check(group)
        if not 0 <= group["alpha"] <= 1:
            raise ValueError(f"RMSprop: alpha must be in [0, 1], got {group['alpha']}")
        if not group["momentum"] >= 0:
            raise ValueError(f"RMSprop: momentum must not be negative, got {group['momentum']}")

    def _direction(self, xp: Any, g: Array, state: dict[str, Array], step: int, group: dict[str, Any]) -> None:
        average = state["square_avg"]
        average *= group["alpha"]
        average += (1 - group["alpha"]) * g * g
        g /= xp.sqrt(average) + group["eps"]
        if group["momentum"]:
            v = state["momentum_buffer"]
            v *= group["momentum"]
            v += g
            g[...] = v
        g *= group["lr"]


class Adagrad(Optimizer):
    """Adagrad (Duchi et al.): g over the root of the sum of all past g^2."""

    slots = ("sum",)

    def __init__(
        self, parameters: Iterable[Any], lr: float = 1e-2, eps: float = 1e-10, weight_decay: float = 0.0
    ) -> None:
        super().__init__(parameters, {"lr": lr, "eps": eps, "weight_decay": weight_decay})

    def _direction(self, xp: Any, g: Array, state: dict[str, Array], step: int, group: dict[str, Any]) -> None:
        total = state["sum"]
        total += g * g
        g /= xp.sqrt(total) + group["eps"]
        g *= group["lr"]
