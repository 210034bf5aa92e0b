"""What messages need to know of a communicator, so that they are below it: where this rank is, and what it can call."""

from __future__ import annotations

from typing import Any, Protocol

__all__ = ["Collectives", "Group"]


class Group(Protocol):
    """One rank's place in a group of ranks."""

    name: str
    rank: int
    size: int
    group: tuple[int, ...]
    """World ranks of this group, in the order of its own ranks."""

    @property
    def agreement_number(self) -> int | None:
        """A number that all ranks of the group know it by, where they compare their calls (guard/call_agreement.py)."""


class Collectives(Group, Protocol):
    """The collectives that headers and pickled values travel by: Communicator's."""

    @property
    def backend(self) -> str: ...
    def broadcast(self, x: Any, root: int = 0) -> Any: ...
    def all_gather(self, x: Any) -> Any: ...
    def all_to_all(
        self, x: Any, *, send_counts: Any = None, recv_counts: Any = None, async_op: bool = False
    ) -> Any: ...
