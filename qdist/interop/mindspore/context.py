"""Settings of a process: how it runs, and how what it trains is divided."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ...parallel.auto import Strategy

__all__ = [
    "GRAPH_MODE",
    "PYNATIVE_MODE",
    "ParallelMode",
    "get_auto_parallel_context",
    "reset_auto_parallel_context",
    "set_auto_parallel_context",
    "set_context",
]

GRAPH_MODE = 0
PYNATIVE_MODE = 1


class ParallelMode:
    """The four ways to train."""

    STAND_ALONE = "stand_alone"
    DATA_PARALLEL = "data_parallel"
    SEMI_AUTO_PARALLEL = "semi_auto_parallel"
    AUTO_PARALLEL = "auto_parallel"


_CHOICES = {
    "mode": (GRAPH_MODE, PYNATIVE_MODE),
    "device_target": ("CPU", "GPU"),
    "parallel_mode": ("stand_alone", "data_parallel", "semi_auto_parallel", "auto_parallel"),
    "search_mode": ("dynamic_programming", "recursive_programming", "sharding_propagation"),
    "dataset_strategy": ("data_parallel", "full_batch"),
}
_DEFAULTS = {
    "parallel_mode": ParallelMode.STAND_ALONE,
    "search_mode": "recursive_programming",
    "dataset_strategy": "data_parallel",
}
_parallel = dict(_DEFAULTS)
_general: dict[str, Any] = {"mode": PYNATIVE_MODE, "device_target": "CPU", "save_graphs": 0, "save_graphs_path": "."}


def set_context(**settings: Any) -> None:
    """How a process runs.

    Args:
        mode: GRAPH_MODE or PYNATIVE_MODE. `Model.train` captures a graph in both; what is called outside of it runs as
            it is called.
        device_target: "CPU", or "GPU", where layers are then made.
        save_graphs: 0 for no files; 1 or more has `Model.train` write a folder rank_<number> for each rank.
        save_graphs_path: where to.
    """
    _check(settings, _general)
    _general.update(settings)


def set_auto_parallel_context(**settings: Any) -> None:
    """How what is trained is divided.

    Args:
        parallel_mode: "stand_alone" trains on each rank by itself; "data_parallel" cuts rows; "semi_auto_parallel"
            keeps to the operators' strategies; "auto_parallel" searches for those that are not given.
        search_mode: "dynamic_programming", "recursive_programming" or "sharding_propagation".
        dataset_strategy: "data_parallel" for rows of each rank's own, "full_batch" for the same rows on every rank.
    """
    _check(settings, _parallel)
    _parallel.update(settings)


def get_auto_parallel_context(name: str) -> Any:
    """One of the settings of set_auto_parallel_context."""
    _check({name: _parallel.get(name)}, _parallel)
    return _parallel[name]


def reset_auto_parallel_context() -> None:
    """The settings as they were at first: stand_alone."""
    _parallel.update(_DEFAULTS)


def strategy() -> Strategy:
    """This library's form of the settings."""
    auto = _parallel["parallel_mode"] == ParallelMode.AUTO_PARALLEL
    made = Strategy(auto=auto, dataset_strategy=_parallel["dataset_strategy"])
    if auto:
        made.search_mode = _parallel["search_mode"]
    return made


def follows_strategies() -> bool:
    """Whether operators are divided as their strategies say."""
    return _parallel["parallel_mode"] in (ParallelMode.SEMI_AUTO_PARALLEL, ParallelMode.AUTO_PARALLEL)


def device() -> str:
    """This library's name of the device."""
    return "cpu" if _general["device_target"] == "CPU" else "cuda"


def graph_folder() -> Path | None:
    """Where graphs are written to; None where they are not."""
    return Path(_general["save_graphs_path"]) if _general["save_graphs"] else None


def _check(settings: dict[str, Any], known: dict[str, Any]) -> None:
    if unknown := sorted(set(settings) - set(known)):
        raise ValueError(f"unknown setting {', '.join(unknown)}; there are {', '.join(known)}")
    for name, value in settings.items():
        if name in _CHOICES and value not in _CHOICES[name]:
            raise ValueError(f"{name}={value!r}: {', '.join(map(str, _CHOICES[name]))}")
