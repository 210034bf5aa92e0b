"""Communicator: every collective and point-to-point call, the same on every transport."""

from __future__ import annotations

from collections.abc import Sequence
from threading import get_ident
from typing import Any

import numpy as np

from qdist.comm.endpoint import Endpoint, deliver
from qdist.comm.errors import CommError
from qdist.comm.guard.mismatch import check_counts, check_same
from qdist.comm.messages import arguments, headers, objects
from qdist.comm.messages.arrays import Array, as_input, as_output, copy_if_overlapping
from qdist.comm.messages.call import Call
from qdist.comm.messages.reduction import ReduceOp
from qdist.comm.transports.transport import Transport
from qdist.comm.work import Work

__all__ = ["Communicator"]


class Communicator(Endpoint):
    """A group of ranks and all they can say to each other.

    Arrays are NumPy or CuPy arrays (anything NumPy can turn into one is accepted as input). Every call returns its
    result and leaves the input alone, unless ``out=`` is given the input's own memory. ``out`` has the result's shape
    and dtype and lives where the input does; it may be strided and may overlap the input in any way: ``out=x`` works
    in place where the result has the input's shape, and another overlap costs a copy of the input. With
    ``async_op=True`` a call returns a Work whose ``wait()`` gives the result. Where a result has one row a rank, the
    rows are its leading axis.

    Wrong arguments raise TypeError or ValueError before anything is sent; failures of the transport raise CommError.

    All ranks of a group enter the same collectives in the same order, with the same shapes, dtypes, reductions and
    roots. One that does not raises CollectiveMismatch, which names both calls, before it sends anything, and the group
    can no longer be used; the job ends where nobody catches that, and where ranks wait for the one that raised. What is
    not found so: messages (``send``, ``recv`` and their kin) that do not fit each other, beyond what MPI itself finds;
    counts of a ragged ``all_to_all`` that do not fit each other; ``new_group``; and, between ranks that share no
    memory because they are on different nodes, differences until the next comparison, which is made at each of the
    first 32 collectives of a group and then after every 32. ``init(debug=True)`` compares before each collective, and
    counts too.
    """

    def __repr__(self) -> str:
        return f"<Communicator {self.name!r} ({self.backend}): rank {self.rank} of {self.size}>"

    def __deepcopy__(self, memo: Any) -> Communicator:
        return self  # A copy of a model talks to the same ranks.

    # Collectives -----------------------------------------------------------------------------------------------------

    def all_reduce(
        self, x: Any, op: str | ReduceOp = "sum", *, out: Array | None = None, async_op: bool = False
    ) -> Any:
        """The reduction of every rank's ``x``, on every rank. Result: shape and dtype of ``x``."""
        direct = self._direct_sum
        if direct is not None and op == "sum" and out is not None and not async_op:
            try:
                done = direct(x, out)
            except CommError:
                raise
            except RuntimeError as error:
                raise self._explain(Call("all_reduce", self, x.shape, x.dtype, "sum"), error) from error
            if done is not None:
                return done
        op = ReduceOp.of(op)
        x = as_input(x)
        op.check(x.dtype)
        target, result = as_output(out, x.shape, x.dtype, x)
        call = self._call("all_reduce", x.shape, x.dtype, op.name)
        x, target_view, op, divisor = self._lower(x, target, op)
        return self._collective(
            call, self._of(target).all_reduce, (x, target_view, op), target, result, async_op, divisor
        )

    def reduce(
        self,
        x: Any,
        root: int = 0,
        op: str | ReduceOp = "sum",
        *,
        out: Array | None = None,
        async_op: bool = False,
    ) -> Any:
        """The reduction of every rank's ``x`` on ``root``; None on the others, whose ``out`` is only checked."""
        x = as_input(x)
        op = ReduceOp.of(op)
        op.check(x.dtype)
        arguments.rank(self, "root", root)
        if self.rank == root or out is not None:
            target, result = as_output(out, x.shape, x.dtype, x)
        call = self._call("reduce", x.shape, x.dtype, op.name, root)
        transport = self._of(x)
        if self.rank != root:
            x, _, op, _ = self._lower(x, None, op)
            return self._collective(call, transport.reduce, (x, None, op, root), None, None, async_op)
        x, target_view, op, divisor = self._lower(x, target, op)
        return self._collective(call, transport.reduce, (x, target_view, op, root), target, result, async_op, divisor)

    def reduce_scatter(
        self, x: Any, op: str | ReduceOp = "sum", *, out: Array | None = None, async_op: bool = False
    ) -> Any:
        """Row ``rank`` of the reduction of every rank's ``x``, which has shape (size, ...). Result: x.shape[1:]."""
        x = as_input(x)
        op = ReduceOp.of(op)
        op.check(x.dtype)
        arguments.rows(self, "reduce_scatter", x)
        target, result = as_output(out, x.shape[1:], x.dtype, x)
        call = self._call("reduce_scatter", x.shape, x.dtype, op.name)
        x = copy_if_overlapping(x, target)
        x, target_view, op, divisor = self._lower(x, target, op)
        return self._collective(
            call, self._of(target).reduce_scatter, (x, target_view, op), target, result, async_op, divisor
        )

    def broadcast(self, x: Any, root: int = 0, *, out: Array | None = None, async_op: bool = False) -> Any:
        """``root``'s ``x`` on every rank. The others pass an array of the same shape and dtype."""
        x = as_input(x)
        arguments.rank(self, "root", root)
        target, result = as_output(out, x.shape, x.dtype, x)
        if self.rank == root and target is not x:
            target[...] = copy_if_overlapping(x, target)
        call = self._call("broadcast", x.shape, x.dtype, None, root)
        return self._collective(call, self._of(target).broadcast, (target, root), target, result, async_op)

    def all_gather(self, x: Any, *, out: Array | None = None, async_op: bool = False) -> Any:
        """Every rank's ``x``, stacked: shape (size, *x.shape), on every rank."""
        x = as_input(x)
        target, result = as_output(out, (self.size, *x.shape), x.dtype, x)
        call = self._call("all_gather", x.shape, x.dtype)
        x = copy_if_overlapping(x, target)
        return self._collective(call, self._of(x).all_gather, (x, target), target, result, async_op)

    def gather(self, x: Any, root: int = 0, *, out: Array | None = None, async_op: bool = False) -> Any:
        """Every rank's ``x``, stacked: shape (size, *x.shape), on ``root``; None on the others, whose ``out`` is only
        checked."""
        x = as_input(x)
        arguments.rank(self, "root", root)
        if self.rank == root or out is not None:
            target, result = as_output(out, (self.size, *x.shape), x.dtype, x)
        call = self._call("gather", x.shape, x.dtype, None, root)
        if self.rank != root:
            return self._collective(call, self._of(x).gather, (x, None, root), None, None, async_op)
        x = copy_if_overlapping(x, target)
        return self._collective(call, self._of(x).gather, (x, target, root), target, result, async_op)

    def scatter(self, x: Any = None, root: int = 0, *, out: Array | None = None, async_op: bool = False) -> Any:
        """Row ``rank`` of ``root``'s ``x``, which has shape (size, ...). The others' ``x`` is not looked at."""
        arguments.rank(self, "root", root)
        if out is not None:
            arguments.array("out", out)
        if self.rank == root:
            x = as_input(x)
            arguments.rows(self, "scatter", x)
            shape, dtype = headers.of_root(self, x.shape[1:], x.dtype, root)
        else:
            x = None
            shape, dtype = headers.of_root(self, () if out is None else out.shape, getattr(out, "dtype", None), root)
        like = out if out is not None else (x if x is not None else np.empty(0))
        target, result = as_output(out, shape, dtype, like)
        if x is not None:
            x = copy_if_overlapping(x, target)
        call = self._call("scatter", shape, dtype, None, root)
        return self._collective(call, self._of(target).scatter, (x, target, root), target, result, async_op)

    def all_to_all(
        self,
        x: Any,
        *,
        send_counts: Sequence[int] | None = None,
        recv_counts: Sequence[int] | None = None,
        out: Array | None = None,
        async_op: bool = False,
    ) -> Any:
        """Row s of the result is what rank s had in row ``rank`` of its ``x``, which has shape (size, ...).

        Ragged, in two forms: ``x`` a list of ``size`` arrays of one dtype and any shapes gives the list of what the
        others had for this rank (shapes travel first). Or ``x`` flat with ``send_counts`` and ``recv_counts``, both
        of length ``size``: the parts lie one behind the other, nothing but the data travels.
        """
        direct = self._direct_all_to_all
        if direct is not None and out is not None and send_counts is None is recv_counts and not async_op:
            try:
                done = direct(x, out)
            except CommError:
                raise
            except RuntimeError as error:
                raise self._explain(Call("all_to_all", self, x.shape, x.dtype), error) from error
            if done is not None:
                return done
        if isinstance(x, (list, tuple)):
            if out is not None or send_counts is not None or recv_counts is not None:
                raise TypeError("all_to_all of a list takes neither out nor counts: the shapes travel with it")
            return headers.all_to_all_of_list(self, x, async_op)
        x = as_input(x)
        if send_counts is None and recv_counts is None:
            arguments.rows(self, "all_to_all", x)
            target, result = as_output(out, x.shape, x.dtype, x)
            call = self._call("all_to_all", x.shape, x.dtype)
            x = copy_if_overlapping(x, target)
            return self._collective(call, self._of(x).all_to_all, (x, target), target, result, async_op)
        sends, receives = arguments.counts(self, x, send_counts, recv_counts)
        target, result = as_output(out, (sum(receives),), x.dtype, x)
        call = self._call("all_to_all (ragged)", None, x.dtype, elements=(x.size, sends))
        if self.debug:
            check_counts(call, self._host, self._guard, sends, receives)
        x = copy_if_overlapping(x, target)
        return self._collective(
            call, self._of(x).all_to_all_ragged, (x, sends, target, receives), target, result, async_op
        )

    def barrier(self, *, async_op: bool = False) -> Any:
        """Returns once every rank has entered."""
        call = self._call("barrier", None, None)
        return self._collective(call, self._host.barrier, (), None, None, async_op)

    # Point to point --------------------------------------------------------------------------------------------------

    def send(self, x: Any, dest: int, tag: int = 0) -> None:
        """Sends ``x`` to ``dest``; returns when ``x`` may be changed again."""
        x = as_input(x)
        arguments.peer(self, "dest", dest, tag)
        self._launch(self._message("send", x, dest), self._of(x).send, x, dest, tag, True)

    def recv(self, out: Array, source: int, tag: int = 0) -> Array:
        """Receives from ``source`` into ``out``, of the message's dtype and at least its size; returns ``out``, whose
        elements after the message stay as they were. Over NCCL, of its very size."""
        target, result = arguments.receiver(self, out, source, tag)
        call = self._message("recv", out, source)
        self._launch(call, self._of(target).recv, target, source, tag, True)
        return deliver(target, result)

    def isend(self, x: Any, dest: int, tag: int = 0) -> Work:
        """Starts sending ``x`` to ``dest``.

        Over NCCL, isend and irecv only put a message down: all of them start together when one is waited for or asked
        whether it is done, so that ranks which send and receive in any order do not wait for each other.
        """
        x = as_input(x)
        arguments.peer(self, "dest", dest, tag)
        call = self._message("isend", x, dest)
        request = self._launch(call, self._of(x).send, x, dest, tag, False)
        return Work(request, lambda: None, call, self._guard)

    def irecv(self, out: Array, source: int, tag: int = 0) -> Work:
        """Starts receiving from ``source`` into ``out``; ``wait()`` returns ``out``."""
        target, result = arguments.receiver(self, out, source, tag)
        call = self._message("irecv", out, source)
        request = self._launch(call, self._of(target).recv, target, source, tag, False)
        return Work(request, lambda: deliver(target, result), call, self._guard)

    def sendrecv(self, x: Any, dest: int, out: Array, source: int, tag: int = 0) -> Array:
        """Sends ``x`` to ``dest`` while a message of ``out``'s size comes from ``source``; returns ``out``, which may
        be ``x`` or overlap it. Raises CommError where MPI finds a message of another size."""
        return self.isendrecv(x, dest, out, source, tag).wait()

    def isendrecv(self, x: Any, dest: int, out: Array, source: int, tag: int = 0) -> Work:
        """Starts what ``sendrecv`` does; ``wait()`` returns ``out``. Two ranks that trade with each other both do so by
        sendrecv or isendrecv, and wait in the order in which they started."""
        x, target, result = arguments.trade(self, x, dest, out, source, tag)
        call = self._message("isendrecv", x, dest)
        request = self._launch(call, self._of(x).sendrecv, x, dest, target, source, tag)
        return Work(request, lambda: deliver(target, result), call, self._guard)

    # Small Python values ---------------------------------------------------------------------------------------------

    def broadcast_object(self, value: Any = None, root: int = 0) -> Any:
        """``root``'s value on every rank. For small values: they are pickled."""
        arguments.rank(self, "root", root)
        return objects.broadcast(self, value, root)

    def all_gather_object(self, value: Any) -> list[Any]:
        """Every rank's value, in a list, on every rank. For small values: they are pickled."""
        return objects.all_gather(self, value)

    def gather_object(self, value: Any, root: int = 0) -> list[Any] | None:
        """Every rank's value, in a list, on ``root``; None on the others. For small values: they are pickled."""
        arguments.rank(self, "root", root)
        values = self.all_gather_object(value)
        return values if self.rank == root else None

    # Groups ----------------------------------------------------------------------------------------------------------

    def split(self, groups: Sequence[Sequence[int]], name: str | None = None) -> Communicator | None:
        """Every rank calls, with the same lists; each gets the communicator of the list it is in, or None.

        Ranks are this communicator's own; those of a new communicator count in the order listed.
        """
        seen: set[int] = set()
        for ranks in groups:
            arguments.group(self, ranks)
            twice = seen & set(ranks)
            if twice:
                raise ValueError(f"split: rank {min(twice)} stands in two groups of {list(map(list, groups))}")
            seen |= set(ranks)
        mine = next((tuple(ranks) for ranks in groups if self.rank in ranks), None)
        call = self._call("split", None, None, str([list(g) for g in groups]) if self.debug else None)
        if self.debug:
            check_same(call, self._host, self._guard)
        if self._agreement is not None:
            with self._guard.watching(call):
                self._agreement.enter(call, False, False, [list(map(int, g)) for g in groups])
        host = self._launch(call, self._host.split, groups)
        device = None if self._device is None else self._device.split(groups)
        return None if mine is None else self._child(host, device, mine, name)

    def new_group(self, ranks: Sequence[int], name: str | None = None) -> Communicator | None:
        """The communicator of these ranks. The ranks listed call; others may, and get None."""
        arguments.group(self, ranks)
        if self.rank not in ranks:
            return None
        host = self._launch(Call("new_group", self, None, None, thread=get_ident()), self._host.subgroup, ranks)
        device = None if self._device is None else self._device.subgroup(ranks)
        return self._child(host, device, tuple(ranks), name)

    def close(self) -> None:
        """Frees what the transport holds for this group. Collective over the group; not for the world."""
        self._agreement = self._direct_sum = self._direct_all_to_all = None
        for transport in {id(t): t for t in (self._host, self._device) if t is not None}.values():
            transport.close()

    def _child(
        self, host: Transport, device: Transport | None, ranks: tuple[int, ...], name: str | None
    ) -> Communicator:
        return Communicator(
            host,
            device,
            guard=self._guard,
            place=self._place,
            group=tuple(self.group[r] for r in ranks),
            name=name or f"{self.name}{list(map(int, ranks))}",
            debug=self.debug,
        )
