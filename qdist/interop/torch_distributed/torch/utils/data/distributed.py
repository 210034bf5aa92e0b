"""torch.utils.data.distributed: the sampler, with torch's names of its arguments."""

from __future__ import annotations

from typing import Any

from ...... import data

__all__ = ["DistributedSampler"]


class DistributedSampler(data.DistributedSampler):
    """Each rank's share of a dataset: `qdist.data.DistributedSampler`.

    Args:
        num_replicas, rank: of all ranks when not given.
        shuffle, seed, drop_last: as there; call set_epoch at the start of every epoch.
    """

    def __init__(
        self,
        dataset: Any,
        num_replicas: int | None = None,
        rank: int | None = None,
        shuffle: bool = True,
        seed: int = 0,
        drop_last: bool = False,
    ) -> None:
        super().__init__(dataset, rank, num_replicas, shuffle=shuffle, seed=seed, drop_last=drop_last)
