"""What a transport must do: move contiguous arrays between the ranks of one group. Communicator does all the rest."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from qdist.comm.messages.reduction import ReduceOp

__all__ = ["Request", "Transport"]


class Request(Protocol):
    """A communication under way."""

    def wait(self) -> None: ...

    def test(self) -> bool: ...


class Transport(Protocol):
    """The ranks of one group and the primitives between them.

    Arrays are C-contiguous, checked, and of one dtype a call; reductions are sum, product, min, max, band, bor or
    bxor, never on bool. ``x=None`` means in place: the input stands in ``out``. With ``block`` a primitive returns
    None when it is done; without, a Request. Leading axes of length ``size`` run over the ranks.
    """

    name: str
    rank: int
    size: int

    @property
    def direct(self) -> Mapping[str, Callable[[Any, Any], Any]]:
        """all_reduce (sum) and all_to_all of (x, out) as bare calls that block, where there are such."""

    def all_reduce(self, x: Any, out: Any, op: ReduceOp, block: bool) -> Request | None: ...
    def reduce(self, x: Any, out: Any, op: ReduceOp, root: int, block: bool) -> Request | None: ...
    def reduce_scatter(self, x: Any, out: Any, op: ReduceOp, block: bool) -> Request | None: ...
    def broadcast(self, out: Any, root: int, block: bool) -> Request | None: ...
    def all_gather(self, x: Any, out: Any, block: bool) -> Request | None: ...
    def gather(self, x: Any, out: Any, root: int, block: bool) -> Request | None: ...
    def scatter(self, x: Any, out: Any, root: int, block: bool) -> Request | None: ...
    def all_to_all(self, x: Any, out: Any, block: bool) -> Request | None: ...
    def all_to_all_ragged(
        self, x: Any, send_counts: Sequence[int], out: Any, recv_counts: Sequence[int], block: bool
    ) -> Request | None: ...
    def barrier(self, block: bool) -> Request | None: ...
    def send(self, x: Any, dest: int, tag: int, block: bool) -> Request | None: ...
    def recv(self, out: Any, source: int, tag: int, block: bool) -> Request | None: ...

    def sendrecv(self, x: Any, dest: int, out: Any, source: int, tag: int) -> Request:
        """Both at once, so that two ranks may trade. ``out`` has the size of the message that comes."""

    def split(self, groups: Sequence[Sequence[int]]) -> Transport | None:
        """Every rank calls; each gets the transport of the group it is in, ranks in the order listed, or None."""

    def subgroup(self, ranks: Sequence[int]) -> Transport:
        """Only the ranks listed call."""

    def abort(self, code: int) -> None:
        """Ends every process of the job, not only of this group. Does not return."""

    def close(self) -> None: ...
