"""Paddle's optimisers: this library's under its argument names."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from ... import optim
from ...tensor import Tensor
from . import static
from .nn.clip import GradClip
from .regularizer import L2Decay

__all__ = ["SGD", "Adam", "AdamW", "Momentum"]


class _Names(optim.Optimizer):
    """Making it without parameters (static graphs, a stage that has none), clipping, and Paddle's names of methods."""

    def _make(
        self, base: Callable[..., None], parameters: Iterable[Any] | None, grad_clip: Any, options: dict[str, Any]
    ) -> None:
        if grad_clip is not None and not isinstance(grad_clip, GradClip):
            raise TypeError(f"grad_clip={grad_clip!r}: a paddle.nn.ClipGradByGlobalNorm, ClipGradByNorm or ByValue")
        self._base, self._options = base, options
        self.grad_clip: GradClip | None = grad_clip
        self._over: dict[str, Any] = {}
        given = [] if parameters is None else list(parameters)
        if given:
            base(self, given, **options)
        else:
            # A group without parameters: they come with `minimize`, or not at all.
            self.defaults, self.param_groups, self._buckets = {"lr": options["lr"]}, [], []

    def take(self, parameters: Iterable[Any]) -> None:
        """Update these parameters; for an optimiser that was made without."""
        if self.param_groups:
            raise ValueError("this optimiser has its parameters already")
        self._base(self, list(parameters), **self._options)

    @property
    def parameters(self) -> list[Tensor]:
        """All parameters that it updates."""
        return [p for group in self.param_groups for p in group["params"]]

    def counting(self, **over: Any) -> None:
        """Where the other parameters of the model are, for clipping; as of `GradClip`."""
        self._over = over

    def step(self) -> None:
        """Clip, and update every parameter that has a gradient."""
        if self.grad_clip is not None:
            self.grad_clip(self.parameters, **self._over)
        super().step()

    def clear_grad(self) -> None:
        """Forget all gradients."""
        self.zero_grad()

    clear_gradients = clear_grad

    def get_lr(self) -> float:
        """The learning rate."""
        return self.param_groups[0]["lr"] if self.param_groups else self._options["lr"]

    def minimize(self, loss: Tensor) -> None:
        """In a static graph the update becomes part of the program; otherwise backward() and step()."""
        if static.in_dynamic_mode():
            loss.backward()
            self.step()
        else:
            static.default_main_program().minimize(self, loss)


def _decay(weight_decay: Any) -> float:
    if weight_decay is None:
        return 0.0
    return weight_decay.coeff if isinstance(weight_decay, L2Decay) else float(weight_decay)


class Momentum(_Names, optim.SGD):
    """v <- momentum v + g, p <- p - learning_rate v; a weight decay adds to g."""

    def __init__(
        self,
        learning_rate: float = 0.001,
        momentum: float = 0.9,
        parameters: Iterable[Any] | None = None,
        use_nesterov: bool = False,
        weight_decay: Any = None,
        grad_clip: Any = None,
    ) -> None:
        options = {
            "lr": learning_rate,
            "momentum": momentum,
            "nesterov": use_nesterov,
            "weight_decay": _decay(weight_decay),
        }
        self._make(optim.SGD.__init__, parameters, grad_clip, options)


class SGD(_Names, optim.SGD):
    """p <- p - learning_rate g."""

    def __init__(
        self,
        learning_rate: float = 0.001,
        parameters: Iterable[Any] | None = None,
        weight_decay: Any = None,
        grad_clip: Any = None,
    ) -> None:
        options = {"lr": learning_rate, "weight_decay": _decay(weight_decay)}
        self._make(optim.SGD.__init__, parameters, grad_clip, options)


class Adam(_Names, optim.Adam):
    """Adam with Paddle's option names."""

    def __init__(
        self,
        learning_rate: float = 0.001,
        beta1: float = 0.9,
        beta2: float = 0.999,
        epsilon: float = 1e-8,
        parameters: Iterable[Any] | None = None,
        weight_decay: Any = None,
        grad_clip: Any = None,
    ) -> None:
        options = {"lr": learning_rate, "betas": (beta1, beta2), "eps": epsilon, "weight_decay": _decay(weight_decay)}
        self._make(optim.Adam.__init__, parameters, grad_clip, options)


class AdamW(_Names, optim.AdamW):
    """Adam with decoupled decay, 0.01 when not given."""

    def __init__(
        self,
        learning_rate: float = 0.001,
        beta1: float = 0.9,
        beta2: float = 0.999,
        epsilon: float = 1e-8,
        parameters: Iterable[Any] | None = None,
        weight_decay: Any = 0.01,
        grad_clip: Any = None,
    ) -> None:
        options = {"lr": learning_rate, "betas": (beta1, beta2), "eps": epsilon, "weight_decay": _decay(weight_decay)}
        self._make(optim.AdamW.__init__, parameters, grad_clip, options)
