"""Endpoint: one process's end of a group: where it is, and how a call gets to the transport."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cached_property
from threading import get_ident
from typing import Any

import numpy as np

from qdist.comm.errors import CommError, explained
from qdist.comm.forks import refuse_in_forks
from qdist.comm.guard.call_agreement import OPS, REDUCTIONS, CallAgreement
from qdist.comm.guard.mismatch import check_same
from qdist.comm.guard.watch import Guard
from qdist.comm.messages.arrays import Array, copy_if_overlapping, module_of
from qdist.comm.messages.call import Call, forget
from qdist.comm.messages.reduction import NATIVE, ReduceOp
from qdist.comm.messages.traffic import Message, message_of
from qdist.comm.place import Place
from qdist.comm.transports.forked import ForkedTransport
from qdist.comm.transports.pinned import device_arrays_over
from qdist.comm.transports.transport import Transport
from qdist.comm.work import Work
from qdist.native import kernels

__all__ = ["Endpoint", "deliver"]

_SAFE_IN_FORKS = ("solo", "counting")
"""Transports that are this process's memory and nothing else."""


class Endpoint:
    """What Communicator's calls stand on: each is recorded, watched by the guard, and its errors explained."""

    def __init__(
        self,
        host: Transport,
        device: Transport | None,
        *,
        guard: Guard,
        place: Place,
        group: tuple[int, ...],
        name: str = "world",
        debug: bool = False,
    ) -> None:
        self._host = host
        self._device = device
        self._guard = guard
        self._active = guard.active
        self._place = place
        self._count = [0]  # Of collectives so far; in a list, so that the fast path shares it.
        self.rank = host.rank
        self.size = host.size
        self.group = group
        """World ranks of this group, in the order of its own ranks."""
        self.name = name
        self.debug = debug
        self.messages: list[Message] | None = [] if host.name == "counting" else None
        """What was sent, while recording: see ``recording()``. Always recorded by a counting communicator."""
        self._agreement: CallAgreement | None = None
        if host.size > 1 and host.name == "mpi" and not debug:
            with guard.watching(Call("new group", self, None, None, thread=get_ident())):
                self._agreement = CallAgreement(self, guard, host, place.node)
        self._direct_sum = self._direct_call("all_reduce", 0, False, "sum")
        self._direct_all_to_all = self._direct_call("all_to_all", self.size, True)
        refuse_in_forks(self)

    # Where this process is -------------------------------------------------------------------------------------------

    @property
    def backend(self) -> str:
        """mpi, nccl, solo or counting."""
        return (self._device or self._host).name

    @property
    def local_rank(self) -> int:
        """This process's number among the job's processes on its node."""
        return self._place.local_rank

    @property
    def local_size(self) -> int:
        """How many of the job's processes run on this node."""
        return self._place.local_size

    @property
    def node(self) -> int:
        """This node's number in the job."""
        return self._place.node

    @property
    def num_nodes(self) -> int:
        """How many nodes the ranks of this group are on."""
        nodes = self._place.nodes
        return len({nodes[rank] for rank in self.group}) if nodes else 1

    @property
    def host(self) -> str:
        """This node's host name."""
        return self._place.host

    @property
    def devices(self) -> int:
        """CUDA devices that this process can see on its node."""
        return self._place.devices

    @property
    def cores(self) -> int:
        """Cores for this process's threads, when the job's processes on its node share them fairly."""
        return self._place.cores

    @property
    def timeout(self) -> float:
        """Seconds after which a call that other ranks do not join ends the job."""
        return self._guard.timeout

    @property
    def agreement_number(self) -> int | None:
        """A number that all ranks of the group know it by, where they compare their calls."""
        return None if self._agreement is None else self._agreement.number

    def cut_off(self) -> None:
        """In a forked child, which is no rank: from now on every communication raises CommError."""
        if self._host.name in _SAFE_IN_FORKS:
            return
        self._host = ForkedTransport(self._host)
        self._device = None if self._device is None else ForkedTransport(self._device)
        self.__dict__.pop("_device_over_host", None)
        # The table of calls is in memory that the parent shares with the other ranks.
        self._agreement = self._direct_sum = self._direct_all_to_all = None
        self._guard.forget_parent()

    # Counting --------------------------------------------------------------------------------------------------------

    @contextmanager
    def recording(self) -> Iterator[list[Message]]:
        """Within it, every message of this communicator is also noted: op, group, bytes. Yields the list. What is noted
        in a recording within another is noted in both."""
        messages: list[Message] = []
        before = self.messages, self._direct_sum, self._direct_all_to_all
        self.messages, self._direct_sum, self._direct_all_to_all = messages, None, None
        try:
            yield messages
        finally:
            self.messages, self._direct_sum, self._direct_all_to_all = before
            if self.messages is not None:
                self.messages += messages

    # From a call to the transport ------------------------------------------------------------------------------------

    def _of(self, x: Array) -> Transport:
        if type(x) is np.ndarray:
            return self._host
        return self._device or self._device_over_host

    @cached_property
    def _device_over_host(self) -> Transport:
        if self._host.name != "mpi":
            return self._host
        return device_arrays_over(self._host, self._place.cuda_aware_mpi)

    def _call(
        self,
        op: str,
        shape: tuple[int, ...] | None,
        dtype: Any,
        reduction: str | None = None,
        root: int | None = None,
        elements: tuple[int, list[int]] | None = None,
    ) -> Call:
        """The record of the next collective. Made through tuple.__new__, which halves what a record costs."""
        self._count[0] += 1
        fields = (op, self, shape, dtype, reduction, root, None, elements, self._count[0], get_ident())
        return tuple.__new__(Call, fields)

    def _direct_call(
        self, op: str, rows: int, bools: bool, reduction: str | None = None
    ) -> Callable[[Any, Any], Any] | None:
        """The fast path for (x, out), if there is one; it gives None where the arrays need more than a look."""
        primitive = self._host.direct.get(op)
        if primitive is None or self.debug:
            return None
        agreement = self._agreement
        table, settle = (None, None) if agreement is None else (agreement.table, agreement.settle)
        noted = (table, OPS[op], REDUCTIONS[reduction], settle)
        return kernels.direct_call((op, self, primitive, self._active, self._count, np.ndarray, rows, bools, *noted))

    def _message(self, op: str, x: Array, peer: int) -> Call:
        return Call(op, self, x.shape, x.dtype, peer=peer, thread=get_ident())

    def _collective(
        self,
        call: Call,
        primitive: Any,
        args: tuple[Any, ...],
        target: Array | None,
        result: Array | None,
        async_op: bool,
        divisor: int | None = None,
    ) -> Any:
        if self.debug:
            check_same(call, self._host, self._guard)
        if self.messages is not None:
            self.messages.append(message_of(call))
        active = self._active
        active.append(call)
        try:
            if self._agreement is not None:
                device = self._device
                on_device = device is not None and primitive.__self__ is device
                self._agreement.enter(call, async_op, on_device)
            request = primitive(*args, not async_op)
        except CommError:
            raise
        except RuntimeError as error:
            raise self._explain(call, error) from error
        finally:
            forget(active, call)
        if async_op:
            return Work(request, lambda: deliver(target, result, divisor), call, self._guard)
        if divisor is None and result is target:
            return result
        return deliver(target, result, divisor)

    def _launch(self, call: Call, primitive: Any, *args: Any) -> Any:
        """Calls a transport outside of the collectives: recorded, watched, its errors explained."""
        if self.messages is not None:
            self.messages.append(message_of(call))
        with self._guard.watching(call):
            try:
                return primitive(*args)
            except RuntimeError as error:
                raise self._explain(call, error) from error

    def _explain(self, call: Call, error: RuntimeError) -> CommError:
        return explained(f"rank {self.rank}: {call.describe()}", error)

    def _lower(self, x: Array, target: Array | None, op: ReduceOp) -> tuple[Any, Any, ReduceOp, int | None]:
        """Reductions that transports do not know, in terms of those they do; in place as x=None."""
        if op.name in NATIVE and x.dtype.kind != "b":
            return (None if x is target else x if target is None else copy_if_overlapping(x, target)), target, op, None
        divisor = None
        if op.name == "premul_sum":
            # Into an array: without one, the product of a 0-d array is a scalar, which has no memory to send.
            xp = module_of(x)
            x, op = xp.multiply(x, op.factor, out=xp.empty_like(x), dtype=x.dtype), ReduceOp.SUM
        elif op.name == "avg":
            op, divisor = ReduceOp.SUM, self.size
        if target is None:
            return (x.view(np.uint8) if x.dtype.kind == "b" else x), None, op, divisor
        send = None if target is x else copy_if_overlapping(x, target)
        if x.dtype.kind == "b":
            return None if send is None else send.view(np.uint8), target.view(np.uint8), op, divisor
        return send, target, op, divisor


def deliver(target: Array | None, result: Array | None, divisor: int | None = None) -> Array | None:
    """The result that the caller gets: what arrived in `target`, divided for an average, copied where it belongs."""
    if divisor is not None and target is not None:
        target /= divisor
    if result is not target and result is not None:
        result[...] = target
    return result
