"""Strategy: what an Engine does besides placing tensors. Every part is off until it is enabled."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..loss_scale import LossScale
from .cost import Machine

__all__ = ["Amp", "Pipeline", "Recompute", "Sharding", "Strategy"]


@dataclass
class Sharding:
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
class Pipeline:
    """Stages of the graph on the rows of the mesh's first axis.

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
class Recompute:
    """Results inside a segment are not kept but computed again in the backward pass (Chen et al., arXiv 1604.06174).

    Attributes:
        enable: switch it on.
        segments: into how many the graph is cut; None for the square root of its length.
    """

    enable: bool = False
    segments: int | None = None


@dataclass
class Amp:
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
class Strategy:
    """How an Engine parallelises.

    Attributes:
        auto: search over all placements instead of following the annotations.
        machine: what the search takes a rank to be able to do.
        fully_use_devices: leave no mesh axis idle while propagating: cut something wherever an operation can be cut.
    """

    auto: bool = False
    machine: Machine = field(default_factory=Machine)
    fully_use_devices: bool = False
    sharding: Sharding = field(default_factory=Sharding)
    pipeline: Pipeline = field(default_factory=Pipeline)
    recompute: Recompute = field(default_factory=Recompute)
    amp: Amp = field(default_factory=Amp)

    def check(self) -> None:
        """Raise ValueError for options that do not exist or do not go together."""
        if self.sharding.enable and self.sharding.stage not in (1, 2, 3):
            raise ValueError(f"sharding.stage={self.sharding.stage}: 1, 2 or 3")
        if self.recompute.enable and self.recompute.segments is not None and self.recompute.segments < 1:
            raise ValueError(f"recompute.segments={self.recompute.segments}: at least 1")
        if self.recompute.enable and self.sharding.enable and self.sharding.stage == 3:
            raise ValueError("sharding stage 3 recomputes already: leave recompute off, or use stage 1 or 2")
        if self.amp.enable and np.dtype(self.amp.dtype).kind != "f":
            raise ValueError(f"amp.dtype={self.amp.dtype}: a real floating dtype")
        if self.auto and self.fully_use_devices:
            raise ValueError("fully_use_devices belongs to propagation; the search of auto=True decides by cost")
        if self.pipeline.enable:
            given = self.pipeline.micro_batch_size, self.pipeline.accumulate_steps
            if given == (None, None) or any(n is not None and n < 1 for n in given):
                raise ValueError("pipeline: give micro_batch_size or accumulate_steps, at least 1")
            if self.auto or self.sharding.enable or self.recompute.enable or self.amp.enable:
                raise ValueError("pipeline goes with neither auto, sharding, recompute nor amp in this version")
