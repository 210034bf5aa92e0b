"""Everything that a training needs to go on: the states of its parts, and what is drawn at random next."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from qdist import checkpoint
from qdist.tensor import random

__all__ = ["restoring", "stored", "whole_in"]


def whole_in(part: Any) -> str | None:
    """What saves a part whole, where its state_dict() has what this rank alone has; None where that is all."""
    if hasattr(part, "stored_state"):
        return None
    if hasattr(part, "named_parameters"):
        parameters = [p for _, p in part.named_parameters()]
    else:
        parameters = [p for group in getattr(part, "param_groups", ()) for p in group["params"]]
    named: str | None = getattr(part, "whole_in", None)
    if named is None and any(getattr(p, "partition", None) is not None or p.dispatch is not None for p in parameters):
        return "a ParallelModel (see parallel.parallelize) or an Engine"
    return named


def stored(parts: Mapping[str, Any], rank: int) -> dict[str, Any]:
    """The state of all parts, as this rank has it, for `checkpoint.save`. Collective where a part's is."""
    own = {"generator": random.get_state(), "modules": dict(_random_states(parts))}
    states = {name: _state(part) for name, part in parts.items()}
    # Ranks may draw different numbers, so each has its own entry.
    return {"parts": states, "random": {str(rank): own}}


def _state(part: Any) -> Any:
    return part.stored_state() if hasattr(part, "stored_state") else part.state_dict()


def restoring(parts: Mapping[str, Any], state: Mapping[str, Any], rank: int) -> Callable[[], None]:
    """Reads what `stored` gave; what it returns then puts all parts into that state. Nothing is changed before.

    state: of `checkpoint.reading`, inside of its block. Raises ValueError for other parts, CheckpointError for damage.
    """
    found = state["parts"]
    if found.keys() != parts.keys():
        raise ValueError(f"the checkpoint has the parts {sorted(found)}, and this training has {sorted(parts)}")
    ready = [_restoring(part, found[name]) for name, part in parts.items()]
    # Of a rank that was not there, the numbers of the first are as good as any.
    own = checkpoint.read_all(state["random"].get(str(rank), state["random"]["0"]))

    def restore() -> None:
        for take_over in ready:
            take_over()
        random.set_state(own["generator"])
        for name, module in _modules(parts):
            if name in own["modules"]:
                module.load_random_state(own["modules"][name])

    return restore


def _restoring(part: Any, state: Any) -> Callable[[], Any]:
    if hasattr(part, "restoring"):
        return part.restoring(state)
    values = checkpoint.read_all(state)
    return lambda: part.load_state_dict(values)


def _modules(parts: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """(name, module) of all modules that draw from generators of their own."""
    for name, part in parts.items():
        whole: Any = part if hasattr(part, "named_modules") else getattr(part, "module", getattr(part, "model", None))
        if hasattr(whole, "named_modules"):
            for inner, module in whole.named_modules():
                if hasattr(module, "random_state") and module.random_state() is not None:
                    yield f"{name}.{inner}", module


def _random_states(parts: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for name, module in _modules(parts):
        yield name, module.random_state()
