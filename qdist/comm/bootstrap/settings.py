"""What init() was asked for: whether its arguments go together, and whether a second call asks for something else."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from qdist.comm.communicator import Communicator
from qdist.comm.errors import CommError

__all__ = ["Settings"]


@dataclass(frozen=True, slots=True)
class Settings:
    """The arguments of init(), None where one was not given."""

    backend: str = "auto"
    init_method: str | None = None
    comm: Any = None
    rank: int | None = None
    world_size: int | None = None
    timeout: float | None = None
    debug: bool | None = None

    def check(self, is_launched: bool) -> None:
        """Raises ValueError for arguments of which one would be ignored. is_launched: whether this process was started
        as one of several."""
        if self.comm is not None:
            ranks = (self.comm.Get_rank(), self.comm.Get_size()) if hasattr(self.comm, "Get_rank") else None
            if self.rank is not None and ranks is not None and ranks != (self.rank, self.world_size):
                raise ValueError(
                    f"rank={self.rank} and world_size={self.world_size}, but comm has this process as rank {ranks[0]} "
                    f"of {ranks[1]}: leave them out"
                )
            if self.backend == "solo" or self.init_method is not None:
                what = "backend='solo'" if self.backend == "solo" else f"init_method={self.init_method!r}"
                raise ValueError(f"comm and {what} do not go together: comm says which ranks there are")
        elif self.backend == "solo" and (self.world_size or 1) > 1:
            raise ValueError(f"backend='solo' is one process alone, not one of world_size={self.world_size}")
        elif self.init_method not in (None, "env://") and self.rank is None and not is_launched:
            raise ValueError(f"init_method={self.init_method!r} needs rank and world_size: nothing else tells them")

    def check_again(self, world: Communicator, first: Settings) -> None:
        """Raises CommError if init() was called before, with ``first``, and this asks for something else."""
        differences: list[tuple[str, Any, Any]] = []
        if self.backend not in ("auto", world.backend):
            differences.append(("backend", self.backend, world.backend))
        if self.rank is not None and self.rank != world.rank:
            differences.append(("rank", self.rank, world.rank))
        if self.world_size is not None and self.world_size != world.size:
            differences.append(("world_size", self.world_size, world.size))
        if self.timeout is not None and self.timeout != world.timeout:
            differences.append(("timeout", self.timeout, world.timeout))
        if self.debug is not None and self.debug != world.debug:
            differences.append(("debug", self.debug, world.debug))
        if self.init_method is not None and self.init_method != (first.init_method or "env://"):
            differences.append(("init_method", self.init_method, first.init_method or "env://"))
        if self.comm is not None and self.comm is not first.comm:
            differences.append(("comm", self.comm, first.comm))
        if differences:
            asked = ", ".join(f"{name}={wanted!r}" for name, wanted, _ in differences)
            has = ", ".join(f"{name}={current!r}" for name, _, current in differences)
            raise CommError(
                f"qdist.comm is initialised already, with {has} and not {asked}: call qdist.comm.shutdown() on all "
                "ranks before such an init(), or make it the first (world() and whatever needs ranks calls init())"
            )
