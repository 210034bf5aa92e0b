"""Strategy: what an Engine does besides placing tensors. Every part is off until it is enabled."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from difflib import get_close_matches
from typing import Any

import numpy as np

from qdist.parallel.auto.planner.step_cost import Machine
from qdist.parallel.loss_scale import LossScale
from qdist.tensor.arrays import as_dtype, kind_of

__all__ = ["Amp", "Pipeline", "Recompute", "Sharding", "Strategy"]

_SCHEDULES = ("naive", "f-then-b", "1f1b")
_SEARCH_MODES = ("dynamic_programming", "recursive_programming", "sharding_propagation")
_DATASET_STRATEGIES = ("full_batch", "data_parallel")


class _Options:
    """Refuses, when it is set, an option that does not exist."""

    def __setattr__(self, name: str, value: Any) -> None:
        known = [f.name for f in fields(self)]  # type: ignore[arg-type]
        if name not in known:
            near = get_close_matches(name, known, 1, 0.5)
            hint = f"did you mean {near[0]}? It" if near else "It"
            raise AttributeError(f"{type(self).__name__} has no option {name!r}: {hint} has {', '.join(known)}")
        object.__setattr__(self, name, value)


@dataclass
class Sharding(_Options):
    """ZeRO: parameters that data-parallel ranks would all hold are stored in slices (Rajbhandari, arXiv 1910.02054).

    Attributes:
        enable: switch it on.
        stage: 1 or 2: every parameter is gathered once a step, its gradient reduce-scattered, and the optimiser
            updates the slice. As a gradient is scattered as soon as it is complete, nothing is kept that stage 2
            would free, and the two are the same program. 3: a parameter is gathered for each use, freed, and gathered
            again in the backward pass.
        degree: how many ranks share a parameter: the size of a mesh axis; None for the data axis.
    """

    enable: bool = False
    stage: int = 1
    degree: int | None = None


@dataclass
class Pipeline(_Options):
    """Stages of the graph along the mesh's axis "pp"; annotations with stages name rows of it, the first axis.

    Attributes:
        enable: switch it on.
        micro_batch_size: rows of a micro-batch.
        accumulate_steps: number of micro-batches; either of the two is enough.
        schedule: "naive", "f-then-b" or "1f1b".
    """

    enable: bool = False
    micro_batch_size: int | None = None
    accumulate_steps: int | None = None
    schedule: str = "1f1b"


@dataclass
class Recompute(_Options):
    """Results inside a segment are not kept but computed again in the backward pass (Chen et al., arXiv 1604.06174).

    Attributes:
        enable: switch it on.
        segments: into how many the graph is cut; None for the square root of its length.
    """

    enable: bool = False
    segments: int | None = None


@dataclass
class Amp(_Options):
    """Mixed precision: products in half precision, the rest and the parameters as they are.

    Attributes:
        enable: switch it on.
        dtype: of the products.
        loss_scale: the factor of the loss in the backward pass, so that small gradients do not vanish; a step whose
            gradients are not finite on every rank is left out.
    """

    enable: bool = False
    dtype: Any = np.float16
    loss_scale: LossScale = field(default_factory=LossScale)


@dataclass
class Strategy(_Options):
    """How an Engine parallelises.

    Attributes:
        auto: search over all placements instead of following the annotations; in a pipeline inside of every stage, on
            the ranks that have it.
        search_mode: how: "dynamic_programming" tries all of them, "recursive_programming" divides axis by axis and the
            most work first, "sharding_propagation" spreads the annotations and leaves no axis idle.
        machine: what the search takes a rank to be able to do.
        fully_use_devices: leave no mesh axis idle while propagating: cut something wherever an operation can be cut.
        dataset_strategy: "full_batch": every rank passes the same whole batch, and takes its part; "data_parallel":
            ranks along the mesh axis "dp", or along all axes of a mesh without names, pass rows of their own, equally
            many, which together are the batch.

    An option that does not exist is an AttributeError when it is set; those of a part that is off are a ValueError of
    the Engine, as they would change nothing.
    """

    auto: bool = False
    search_mode: str = "dynamic_programming"
    machine: Machine = field(default_factory=Machine)
    fully_use_devices: bool = False
    dataset_strategy: str = "full_batch"
    sharding: Sharding = field(default_factory=Sharding)
    pipeline: Pipeline = field(default_factory=Pipeline)
    recompute: Recompute = field(default_factory=Recompute)
    amp: Amp = field(default_factory=Amp)

    def check(self) -> None:
        """Raise ValueError for values that do not exist, do not go together, or would change nothing."""
        if self.dataset_strategy not in _DATASET_STRATEGIES:
            raise ValueError(f"dataset_strategy={self.dataset_strategy!r}: {' or '.join(_DATASET_STRATEGIES)}")
        if self.search_mode not in _SEARCH_MODES:
            raise ValueError(f"search_mode={self.search_mode!r}: {', '.join(_SEARCH_MODES)}")
        if self.search_mode != _SEARCH_MODES[0] and not self.auto:
            raise ValueError(f"search_mode={self.search_mode!r} changes nothing while auto is off: set auto = True")
        parts = {name: getattr(self, name) for name in ("sharding", "pipeline", "recompute", "amp")}
        for name, part in parts.items():
            if not isinstance(part, _Options):
                raise TypeError(f"strategy.{name} = {part!r}: set its options, such as strategy.{name}.enable = True")
        if self.pipeline.schedule not in _SCHEDULES:
            raise ValueError(
                f"pipeline.schedule={self.pipeline.schedule!r}: {', '.join(_SCHEDULES)}; "
                "qdist.parallel.Pipeline has others, for models that are given as layers"
            )
        for name, part in parts.items():
            self._check_off(name, part)
        if self.sharding.enable and self.sharding.stage not in (1, 2, 3):
            raise ValueError(f"sharding.stage={self.sharding.stage}: 1, 2 or 3")
        if self.recompute.enable and self.recompute.segments is not None and self.recompute.segments < 1:
            raise ValueError(f"recompute.segments={self.recompute.segments}: at least 1")
        if self.recompute.enable and self.sharding.enable and self.sharding.stage == 3:
            raise ValueError("sharding stage 3 recomputes already: leave recompute off, or use stage 1 or 2")
        if self.amp.enable and kind_of(as_dtype(self.amp.dtype)) != "f":
            raise ValueError(f"amp.dtype={self.amp.dtype}: a real floating dtype")
        if self.auto and self.fully_use_devices:
            raise ValueError("fully_use_devices belongs to propagation; the search of auto=True decides by cost")
        if self.pipeline.enable:
            given = self.pipeline.micro_batch_size, self.pipeline.accumulate_steps
            if given == (None, None) or any(n is not None and n < 1 for n in given):
                raise ValueError("pipeline: give micro_batch_size or accumulate_steps, at least 1")

    def _check_off(self, name: str, part: Any) -> None:
        if part.enable:
            return
        default = type(part)()
        for option in (f.name for f in fields(part)):
            given, usual = getattr(part, option), getattr(default, option)
            if given != usual and not (isinstance(given, LossScale) and vars(given) == vars(usual)):
                raise ValueError(
                    f"{name}.{option}={given!r} changes nothing while {name} is off: set {name}.enable = True"
                )
