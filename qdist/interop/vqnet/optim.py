"""VQNet's optimisers, which name some options differently."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ... import optim

__all__ = ["SGD", "Adam", "plain_options"]


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


def plain_options(config: Mapping[str, Any]) -> dict[str, Any]:
    """A configuration whose {"optimizer": {"params": ...}} may have VQNet's names, with this library's in their place.

    beta1 and beta2 become betas, epsilon becomes eps. Raises ValueError where both names of an option are given.
    """
    described = config.get("optimizer")
    if not isinstance(described, Mapping) or not isinstance(described.get("params"), Mapping):
        return dict(config)
    params = dict(described["params"])
    for theirs, ours in (("beta1", "betas"), ("beta2", "betas"), ("epsilon", "eps")):
        if theirs in params and ours in described["params"]:
            raise ValueError(f"the optimizer's params have both {theirs!r} and {ours!r}: drop one")
    if "beta1" in params or "beta2" in params:
        params["betas"] = (params.pop("beta1", 0.9), params.pop("beta2", 0.999))
    if "epsilon" in params:
        params["eps"] = params.pop("epsilon")
    return {**config, "optimizer": {**described, "params": params}}
