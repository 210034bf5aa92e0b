"""One process: every collective is a copy."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from qdist.comm.errors import CommError
from qdist.comm.reduction import ReduceOp

__all__ = ["SoloTransport"]


class SoloTransport:
    """A group of one. Messages to oneself are kept until they are received."""

    name = "solo"
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

    def recv(self, out: Any, source: int, tag: int, block: bool) -> _Done | None:
        letters = self._mailbox.get(tag)
        if not letters:
            raise CommError(
                f"recv(tag={tag}) from rank 0 by rank 0: nothing was sent before, so nothing can come"
            )
        x = letters.pop(0)
        if x.dtype != out.dtype or x.size > out.size:
            raise CommError(
                f"recv: a message of {x.dtype}[{x.size}] does not fit into {out.dtype}[{out.size}]"
            )
        out.reshape(-1)[: x.size] = x.reshape(-1)
        return None if block else _DONE

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


_DONE = _Done()


def _copy(x: Any, out: Any, block: bool) -> _Done | None:
    if x is not None:
        out[...] = x
    return None if block else _DONE
