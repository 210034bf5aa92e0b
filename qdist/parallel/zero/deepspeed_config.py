"""The dictionary that DeepSpeed and VQNet configure ZeRO with, as arguments of Zero."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from qdist import optim
from qdist.comm import Communicator, world
from qdist.nn import Module
from qdist.parallel.loss_scale import LossScale

__all__ = ["check_keys", "optimizer_class", "read"]

_OPTIMIZERS: dict[str, Callable[..., optim.Optimizer]] = {
    "sgd": optim.SGD,
    "adam": optim.Adam,
    "adamw": optim.AdamW,
    "rmsprop": optim.RMSprop,
    "adagrad": optim.Adagrad,
}


def read(
    config: dict[str, Any], model: Module, optimizer: optim.Optimizer | None, comm: Communicator | None
) -> dict[str, Any]:
    """Arguments of Zero for a configuration such as

        {
            "train_batch_size": 64,
            "optimizer": {"type": "adam", "params": {"lr": 1e-3}},
            "zero_optimization": {"stage": 1},
        }

    Keys:
        zero_optimization: {"stage": 1, 2 or 3}; stage 1 when not given.
        optimizer: {"type": sgd, adam, adamw, rmsprop or adagrad, "params": its options}. Beside an optimiser that is
            given it must describe that one.
        train_batch_size: rows of all ranks that make a step. Alone it changes nothing: a rank has the rows it is given.
        train_micro_batch_size_per_gpu: rows of one rank's backward pass.
        gradient_accumulation_steps: backward passes that make a step. Any of the three follows from the other two:
            train_batch_size = micro-batch x steps x ranks. A contradiction is refused.
        gradient_clipping: the largest joint norm of the gradients.
        fp16: {"enabled": bool, "loss_scale": a fixed one, or 0 for one that adapts, which starts at two to the power of
            "initial_scale_power" (16) and grows after "loss_scale_window" (2000) steps}.

        bf16: {"enabled": bool}: bfloat16, with the package ml_dtypes.

    Raises ValueError, naming it, for a key that is none of these, and for fp16 and bf16 together.
    """
    known = {
        "zero_optimization",
        "optimizer",
        "train_batch_size",
        "train_micro_batch_size_per_gpu",
        "gradient_accumulation_steps",
        "gradient_clipping",
        "fp16",
        "bf16",
    }
    check_keys("config", config, known)
    zero = config.get("zero_optimization", {})
    check_keys("zero_optimization", zero, {"stage"})
    if optimizer is not None and "optimizer" in config:
        _check_described(optimizer, config["optimizer"])
    if optimizer is None:
        if "optimizer" not in config:
            raise ValueError('give an optimiser, or name one in the config: {"optimizer": {"type": "adam"}}')
        kind, options = optimizer_class(config["optimizer"])
        optimizer = kind(model.parameters(), **options)
    half = _half(config.get("fp16", {}))
    check_keys("bf16", config.get("bf16", {}), {"enabled"})
    brain = bool(config.get("bf16", {}).get("enabled", False))
    if brain and half is not None:
        raise ValueError("fp16 and bf16 are both enabled: choose one")
    return {
        "optimizer": optimizer,
        "stage": zero.get("stage", 1),
        "accumulate": _accumulation(config, (world() if comm is None else comm).size),
        "max_norm": config.get("gradient_clipping"),
        "precision": "bfloat16" if brain else None if half is None else "float16",
        "loss_scale": half,
    }


def check_keys(where: str, given: Mapping[str, Any], known: Iterable[str]) -> None:
    """Raises ValueError, naming it, for a key that is not known."""
    unknown = sorted(set(given) - set(known))
    if unknown:
        raise ValueError(f"{where}: unknown key {', '.join(unknown)}; there are {', '.join(sorted(known))}")


def optimizer_class(config: Mapping[str, Any]) -> tuple[Callable[..., optim.Optimizer], dict[str, Any]]:
    """The class that {"type": "adam", "params": {"lr": 1e-3}} names, and its options."""
    check_keys("optimizer", config, {"type", "params"})
    kind = str(config.get("type", "")).lower()
    if kind not in _OPTIMIZERS:
        raise ValueError(f"optimizer type {config.get('type')!r}: use one of {', '.join(_OPTIMIZERS)}")
    return _OPTIMIZERS[kind], dict(config.get("params", {}))


def _check_described(optimizer: optim.Optimizer, config: Mapping[str, Any]) -> None:
    kind, options = optimizer_class(config)
    if not isinstance(optimizer, kind):  # type: ignore[arg-type]
        raise ValueError(f"the config names optimizer {config['type']!r}, and a {type(optimizer).__name__} is given")
    for name, value in options.items():
        own = optimizer.defaults.get(name)
        if own != (tuple(value) if isinstance(value, list) else value):
            raise ValueError(f"the config's optimizer has {name}={value}, the given optimiser {name}={own}: drop one")


def _accumulation(config: dict[str, Any], ranks: int) -> int:
    names = "train_batch_size", "train_micro_batch_size_per_gpu", "gradient_accumulation_steps"
    for name in names:
        if config.get(name) is not None and config[name] < 1:
            raise ValueError(f"{name}={config[name]}: at least 1")
    total, micro, steps = (config.get(name) for name in names)
    if total is None or (micro is None and steps is None):
        return 1 if steps is None else steps
    # A rank's rows, where the config does not say how many a pass has, are any number.
    passes, rest = divmod(total, ranks * (1 if micro is None else micro))
    if rest or passes < 1 or (passes % steps if micro is None else steps not in (None, passes)):
        raise ValueError(
            f"train_batch_size={total} is not micro-batch {'of any size' if micro is None else micro} x {ranks} ranks "
            f"x {'any number of' if steps is None else steps} accumulation steps"
        )
    return passes if steps is None else steps


def _half(config: dict[str, Any]) -> LossScale | None:
    check_keys("fp16", config, {"enabled", "loss_scale", "initial_scale_power", "loss_scale_window"})
    if not config.get("enabled", False):
        return None
    fixed = config.get("loss_scale", 0)
    if fixed:
        return LossScale(fixed, dynamic=False)
    return LossScale(2.0 ** config.get("initial_scale_power", 16), interval=config.get("loss_scale_window", 2000))
