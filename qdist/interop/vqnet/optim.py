"""VQNet's optimisers, which name some options differently."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ... import optim

__all__ = ["SGD", "Adam"]


class Adam(optim.Adam):
    """Adam with VQNet's option names; as there, the learning rate is 0.01 when not given."""

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 0.01,
        beta1: float = 0.9,
        beta2: float = 0.999,
        epsilon: float = 1e-8,
        weight_decay: float = 0.0,
    ) -> None:
        super().__init__(params, lr, (beta1, beta2), epsilon, weight_decay)


class SGD(optim.SGD):
    """SGD with VQNet's option names; as there, the learning rate is 0.01 when not given."""

    def __init__(self, params: Iterable[Any], lr: float = 0.01, momentum: float = 0.0, nesterov: bool = False) -> None:
        super().__init__(params, lr, momentum, nesterov=nesterov)
