"""One process: every collective is a copy."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, ClassVar

from qdist.comm.errors import CommError
from qdist.comm.messages.reduction import ReduceOp

__all__ = ["SoloTransport"]


class SoloTransport:
    """A group of one. Messages to oneself are kept until they are received."""

    name = "solo"
    direct: ClassVar[dict[str, Any]] = {}
    rank = 0
    size = 1

    def __init__(self) -> None:
        self._mailbox: dict[int, list[Any]] = {}

    def all_reduce(self, x: Any, out: Any, op: ReduceOp, block: bool) -> _Done | None:
        return _copy(x, out, block)

    def reduce(self, x: Any, out: Any, op: ReduceOp, root: int, block: bool) -> _Done | None:
        return _copy(x, out, block)

    def reduce_scatter(self, x: Any, out: Any, op: ReduceOp, block: bool) -> _Done | None:
        return _copy(x[0, ...], out, block)

    def broadcast(self, out: Any, root: int, block: bool) -> _Done | None:
        return _copy(None, out, block)

    def all_gather(self, x: Any, out: Any, block: bool) -> _Done | None:
        return _copy(x, out[0, ...], block)

    def gather(self, x: Any, out: Any, root: int, block: bool) -> _Done | None:
        return _copy(x, out[0, ...], block)

    def scatter(self, x: Any, out: Any, root: int, block: bool) -> _Done | None:
        return _copy(x[0, ...], out, block)

    def all_to_all(self, x: Any, out: Any, block: bool) -> _Done | None:
        return _copy(x, out, block)

    def all_to_all_ragged(
        self, x: Any, send_counts: Sequence[int], out: Any, recv_counts: Sequence[int], block: bool
    ) -> _Done | None:
        return _copy(x, out, block)

    def barrier(self, block: bool) -> _Done | None:
        return None if block else _DONE

    def send(self, x: Any, dest: int, tag: int, block: bool) -> _Done | None:
        self._mailbox.setdefault(tag, []).append(x.copy())
        return None if block else _DONE

    def recv(self, out: Any, source: int, tag: int, block: bool) -> _Pending | None:
        pending = _Pending(self._mailbox, tag, out)
        if not block:
            return pending
        pending.wait()
        return None

    def sendrecv(self, x: Any, dest: int, out: Any, source: int, tag: int) -> _Pending:
        self.send(x, dest, tag, True)
        return _Pending(self._mailbox, tag, out, exact=True)

    def split(self, groups: Sequence[Sequence[int]]) -> SoloTransport | None:
        return SoloTransport() if any(0 in group for group in groups) else None

    def subgroup(self, ranks: Sequence[int]) -> SoloTransport:
        return SoloTransport()

    def abort(self, code: int) -> None:
        os._exit(code)

    def close(self) -> None:
        self._mailbox.clear()


class _Done:
    def wait(self) -> None:
        pass

    def test(self) -> bool:
        return True


class _Pending:
    """A message expected from oneself; it may be sent after this was posted."""

    def __init__(self, mailbox: dict[int, list[Any]], tag: int, out: Any, exact: bool = False) -> None:
        """exact: whether the message must have the size of ``out``, not at most that."""
        self._mailbox, self._tag, self._out, self._exact = mailbox, tag, out, exact

    def test(self) -> bool:
        letters = self._mailbox.get(self._tag)
        if not letters:
            return False
        x, out = letters.pop(0), self._out
        if x.dtype != out.dtype or x.size > out.size or (self._exact and x.size != out.size):
            raise CommError(f"recv: a message of {x.dtype}[{x.size}] does not fit into {out.dtype}[{out.size}]")
        out.reshape(-1)[: x.size] = x.reshape(-1)
        return True

    def wait(self) -> None:
        if not self.test():
            raise CommError(f"recv(tag={self._tag}) from rank 0 by rank 0: nothing was sent, so nothing can come")


_DONE = _Done()


def _copy(x: Any, out: Any, block: bool) -> _Done | None:
    if x is not None:
        out[...] = x
    return None if block else _DONE
