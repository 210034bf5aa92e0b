"""Staging: GPU arrays over a transport that moves host memory, copied there before it and back after it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from qdist.comm.messages.reduction import ReduceOp
from qdist.comm.transports.transport import Request, Transport

__all__ = ["StagedTransport"]


class StagedTransport:
    """Runs ``inner`` on copies of the arrays, made by ``over``, ``fresh`` and ``back``.

    over(array) -> the array on inner's side; fresh(array) -> room for it there; back(there, array) copies home.
    """

    direct: ClassVar[dict[str, Any]] = {}

    def __init__(
        self,
        inner: Transport,
        over: Callable[[Any], Any],
        fresh: Callable[[Any], Any],
        back: Callable[[Any, Any], None],
    ) -> None:
        self._inner = inner
        self._over, self._fresh, self._back = over, fresh, back
        self.name, self.rank, self.size = inner.name, inner.rank, inner.size

    def _through(self, primitive: Callable[..., Request | None], x: Any, out: Any, *args: Any) -> Any:
        block = args[-1]
        there_x = None if x is None else self._over(x)
        there_out = None
        if out is not None:
            there_out = self._over(out) if x is None else self._fresh(out)
        request = primitive(there_x, there_out, *args)
        if request is not None:
            return _StagedRequest(request, lambda: self._home(there_out, out))
        self._home(there_out, out)
        return _StagedRequest(None, None) if not block else None

    def _home(self, there: Any, out: Any) -> None:
        if out is not None:
            self._back(there, out)

    def all_reduce(self, x: Any, out: Any, op: ReduceOp, block: bool) -> Any:
        return self._through(self._inner.all_reduce, x, out, op, block)

    def reduce(self, x: Any, out: Any, op: ReduceOp, root: int, block: bool) -> Any:
        return self._through(self._inner.reduce, x, out, op, root, block)

    def reduce_scatter(self, x: Any, out: Any, op: ReduceOp, block: bool) -> Any:
        return self._through(self._inner.reduce_scatter, x, out, op, block)

    def broadcast(self, out: Any, root: int, block: bool) -> Any:
        return self._through(lambda _, o, r, b: self._inner.broadcast(o, r, b), None, out, root, block)

    def all_gather(self, x: Any, out: Any, block: bool) -> Any:
        return self._through(self._inner.all_gather, x, out, block)

    def gather(self, x: Any, out: Any, root: int, block: bool) -> Any:
        return self._through(self._inner.gather, x, out, root, block)

    def scatter(self, x: Any, out: Any, root: int, block: bool) -> Any:
        return self._through(self._inner.scatter, x, out, root, block)

    def all_to_all(self, x: Any, out: Any, block: bool) -> Any:
        return self._through(self._inner.all_to_all, x, out, block)

    def all_to_all_ragged(
        self, x: Any, send_counts: Sequence[int], out: Any, recv_counts: Sequence[int], block: bool
    ) -> Any:
        def primitive(there_x: Any, there_out: Any, b: bool) -> Request | None:
            return self._inner.all_to_all_ragged(there_x, send_counts, there_out, recv_counts, b)

        return self._through(primitive, x, out, block)

    def barrier(self, block: bool) -> Any:
        return self._inner.barrier(block)

    def send(self, x: Any, dest: int, tag: int, block: bool) -> Any:
        return self._through(lambda t, _, d, g, b: self._inner.send(t, d, g, b), x, None, dest, tag, block)

    def recv(self, out: Any, source: int, tag: int, block: bool) -> Any:
        return self._through(lambda _, o, s, g, b: self._inner.recv(o, s, g, b), None, out, source, tag, block)

    def sendrecv(self, x: Any, dest: int, out: Any, source: int, tag: int) -> Request:
        there = self._fresh(out)
        request = self._inner.sendrecv(self._over(x), dest, there, source, tag)
        return _StagedRequest(request, lambda: self._home(there, out))

    def split(self, groups: Sequence[Sequence[int]]) -> StagedTransport | None:
        part = self._inner.split(groups)
        return None if part is None else self.over(part)

    def subgroup(self, ranks: Sequence[int]) -> StagedTransport:
        return self.over(self._inner.subgroup(ranks))

    def over(self, inner: Transport) -> StagedTransport:
        """The same staging over another transport."""
        return type(self)(inner, self._over, self._fresh, self._back)

    def abort(self, code: int) -> None:
        self._inner.abort(code)

    def close(self) -> None:
        self._inner.close()


class _StagedRequest:
    """A request whose result has to be copied home once, when it is done."""

    __slots__ = ("_home", "_request")

    def __init__(self, request: Request | None, home: Callable[[], None] | None) -> None:
        self._request, self._home = request, home

    def wait(self) -> None:
        if self._request is not None:
            self._request.wait()
        self._finish()

    def test(self) -> bool:
        done = self._request is None or self._request.test()
        if done:
            self._finish()
        return done

    def _finish(self) -> None:
        home, self._home = self._home, None
        if home is not None:
            home()
