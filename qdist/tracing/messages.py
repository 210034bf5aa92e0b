"""Timed communication: who sends what to whom, and who waits; with what is needed to find the other ranks' side."""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter_ns as now
from typing import Any

from qdist.comm.communicator import Communicator
from qdist.comm.messages.traffic import message_of
from qdist.comm.work import Work
from qdist.tracing.gpu import GpuClock
from qdist.tracing.point import Point, Wrapper
from qdist.tracing.recorder import Recorder

__all__ = ["DIRECT", "Work", "collective", "point_to_point", "waited"]

Original = Callable[..., Any]
_ENDS = {"send": "to", "isend": "to", "recv": "from", "irecv": "from"}


def _of_collective(call: Any) -> dict[str, Any]:
    return _of_group(call.comm) | {"op": call.op, "sequence": call.sequence, "sent": message_of(call).bytes}


def _of_group(comm: Any) -> dict[str, Any]:
    """By which all ranks of a group know it."""
    return {"group": list(comm.group), "comm": f"{comm.name} {comm.agreement_number}"}


def _of_message(call: Any, args: tuple[Any, ...]) -> dict[str, Any]:
    """Ends and tag of a message: isendrecv passes (x, dest, out, source, tag), the others end in tag and blocking."""
    group, found = call.comm.group, _of_group(call.comm) | {"op": call.op}
    if call.op == "isendrecv":
        _, dest, _, source, tag = args
        found |= {"to": group[dest], "from": group[source], "tag": tag}
    else:
        found |= {_ENDS[call.op]: group[call.peer], "tag": args[-2]}
    if "send" in call.op:
        found["sent"] = message_of(call).bytes
    return found


def collective(recorder: Recorder, gpu: GpuClock, original: Original) -> Original:
    """Endpoint._collective: from entering it to its end; of one in the background, its start."""

    def call(self: Any, record: Any, *rest: Any) -> Any:
        start, background = now(), rest[4]
        try:
            return original(self, record, *rest)
        finally:
            recorder.collectives += 1
            found = _of_collective(record) | {"enters": True, "waits": not background}
            recorder.add(record.op, "message" if background else "wait", start, now(), found)

    return call


def point_to_point(recorder: Recorder, gpu: GpuClock, original: Original) -> Original:
    """Endpoint._launch: a message; those in the background are over at once, and waited for later."""

    def call(self: Any, record: Any, primitive: Any, *args: Any) -> Any:
        start = now()
        try:
            return original(self, record, primitive, *args)
        finally:
            if record.peer is not None:
                waits = record.op in ("send", "recv")
                found = _of_message(record, args) | {"enters": True, "waits": waits, "number": recorder.number()}
                if not waits:
                    recorder.under_way[id(record)] = found
                recorder.add(record.op, "wait" if waits else "message", start, now(), found)

    return call


def waited(recorder: Recorder, gpu: GpuClock, original: Original) -> Original:
    """Work.wait."""

    def wait(self: Work) -> Any:
        if self._done:
            return original(self)
        call = self._call
        start = now()
        try:
            return original(self)
        finally:
            found = recorder.under_way.pop(id(call), None) if call.peer is not None else _of_collective(call)
            if found is not None:
                found = {key: value for key, value in found.items() if key != "sent"}
                recorder.add(f"wait for {call.op}", "wait", start, now(), found | {"enters": False, "waits": True})

    return wait


def _direct(op: str) -> Wrapper:
    """Communicator's calls that may go directly to MPI, past ``_collective``."""

    def wrapper(recorder: Recorder, gpu: GpuClock, original: Original) -> Original:
        def call(self: Any, x: Any, *args: Any, **kwargs: Any) -> Any:
            before, start = recorder.collectives, now()
            found = original(self, x, *args, **kwargs)
            if recorder.collectives == before:
                recorder.collectives += 1
                told = _of_group(self) | {"op": op, "sequence": self._count[0], "sent": x.nbytes}
                recorder.add(op, "wait", start, now(), told | {"enters": True, "waits": True})
            return found

        return call

    return wrapper


DIRECT = [Point(Communicator, op, _direct(op)) for op in ("all_reduce", "all_to_all")]
