"""Work: the handle of a communication that goes on in the background."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from qdist.comm.errors import explained
from qdist.comm.guard.watch import Guard
from qdist.comm.messages.call import Call
from qdist.comm.transports.forked import ForkedTransport
from qdist.comm.transports.transport import Request

__all__ = ["Work"]

# Work that nobody waited for yet. Its buffers must live until the transport is done with them, whether or not the
# caller keeps the handle.
in_flight: set[Work] = set()


class Work:
    """A communication started with ``async_op=True``, ``isend`` or ``irecv``.

    Do not touch its arrays before ``wait()`` returned or ``is_completed()`` gave True.
    """

    __slots__ = ("__weakref__", "_call", "_done", "_finish", "_guard", "_request", "_result")

    def __init__(self, request: Request, finish: Callable[[], Any], call: Call, guard: Guard) -> None:
        self._request: Request | None = request
        self._finish: Callable[[], Any] | None = finish
        self._result: Any = None
        self._done = False
        self._call = call
        self._guard = guard
        if len(in_flight) >= 64:
            for work in list(in_flight):
                work.is_completed()
        in_flight.add(self)

    def wait(self) -> Any:
        """Blocks until done and returns the result. Raises CommError where the communication failed."""
        if not self._done:
            assert self._request is not None
            try:
                with self._guard.watching(self._call):
                    self._request.wait()
            except RuntimeError as error:
                raise explained(self._call.describe(), error) from error
            self._complete()
        return self._result

    def is_completed(self) -> bool:
        """Whether it is done; never blocks."""
        if not self._done and self._request is not None and self._request.test():
            self._complete()
        return self._done

    def result(self) -> Any:
        """The result of finished work. Raises RuntimeError while it is under way."""
        if not self.is_completed():
            raise RuntimeError(f"{self._call.describe()} is still under way: call wait()")
        return self._result

    def then(self, change: Callable[[Any], Any]) -> Work:
        """Has ``change`` applied to the result once, when it is there; returns this Work."""
        before = self._finish
        assert before is not None, "then() comes before completion"
        self._finish = lambda: change(before())
        return self

    def cut_off(self) -> None:
        """In a forked child: waiting for this communication, which is the parent's, raises CommError."""
        if self._request is not None:
            self._request = ForkedTransport(self._call.comm)

    def _complete(self) -> None:
        in_flight.discard(self)
        self._done = True
        if self._finish is not None:
            self._result = self._finish()
        self._request = self._finish = None
