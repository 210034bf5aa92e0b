"""What stands in the place of a transport in a forked child, which is no rank: whatever is asked of it is refused."""

from __future__ import annotations

from typing import Any, NoReturn, Protocol

from qdist.comm.errors import CommError

__all__ = ["ForkedTransport"]


class _Ranked(Protocol):
    name: str
    rank: int
    size: int


class ForkedTransport:
    """Every primitive raises CommError. parent: the transport, or the communicator, that the parent uses."""

    direct: dict[str, Any]

    def __init__(self, parent: _Ranked) -> None:
        self.name, self.rank, self.size, self.direct = parent.name, parent.rank, parent.size, {}

    def __getattr__(self, primitive: str) -> Any:
        if primitive.startswith("_"):
            raise AttributeError(primitive)
        return self._refuse

    def _refuse(self, *_: Any, **__: Any) -> NoReturn:
        raise CommError(
            f"this process was forked from rank {self.rank} and is no rank itself: it cannot communicate. Load data in "
            "forked workers, but leave collectives and states over several ranks to the ranks; or start workers with "
            "multiprocessing's 'spawn' (for PyTorch: DataLoader(multiprocessing_context='spawn'))"
        )

    def close(self) -> None:
        """Nothing of the parent's is freed here."""
