"""trace(): the block that is traced, and how the ranks' events come together in one file."""

from __future__ import annotations

import json
import os
import sys
import threading
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter_ns
from typing import Any

import numpy as np

from qdist.comm import Communicator, is_initialized, world
from qdist.comm.bootstrap.environment import Launch, launch_of_this_process
from qdist.hints import hinted
from qdist.tensorfile import Replacement
from qdist.tracing import roofline
from qdist.tracing.chrome import document
from qdist.tracing.clocks import offset_to_first
from qdist.tracing.gpu import GpuClock
from qdist.tracing.points import install
from qdist.tracing.recorder import Event, Recorder
from qdist.tracing.summary import summary
from qdist.tracing.waits import attribute

__all__ = ["trace", "trace_program"]

_one_at_a_time = threading.Lock()
_TAG = 32_000


@hinted
def trace(path: str | Path, *, comm: Communicator | None = None, table: bool = True) -> Any:
    """A ``with`` block of which a timeline is written: what every rank did when, in Chrome's trace format.

    Args:
        path: the JSON file; open it in ui.perfetto.dev or chrome://tracing, or draw it by ``qdist.plots.plot_trace``.
            With several ranks all of them leave the block, and the first one writes the file for all.
        comm: the ranks, where they are not those of ``qdist.comm.init()``.
        table: whether the first rank prints on stderr where the time went, and who waited for whom.

    Events are of planning, binding, runs, stages (on a GPU by CUDA events), packing, messages, waits, observables,
    optimiser steps and files. Each has bytes, flops, and the share of the roofline that was reached: the least time
    that bytes and flops take on this machine, over the time they took. The machine's figures, of one rank alone on its
    node, are measured when the block ends, which takes some tenths of a second.
    Without a trace nothing of this costs anything; with one some microseconds an event.

    A block that ends by an exception writes this rank's events alone, on several ranks to path.rank<N>. Raises
    RuntimeError for a trace within a trace.

    >>> with trace("run.json", table=False):  # doctest: +SKIP
    ...     qdist.simulate(circuit)
    """
    return _traced(Path(path), comm, table)


def trace_program(path: str | Path) -> Any:
    """As `trace`, around a program of which every rank was given the same path: where it never calls init(), the first
    writes what it did itself and says so."""
    return _traced(Path(path), None, True, launch_of_this_process())


@contextmanager
def _traced(path: Path, comm: Communicator | None, table: bool, launch: Launch | None = None) -> Iterator[None]:
    if not path.absolute().parent.is_dir():
        raise ValueError(f"trace {path}: there is no folder {path.absolute().parent}")
    if path.is_dir():
        raise ValueError(f"trace {path}: this is a folder; name a file in it")
    if not _one_at_a_time.acquire(blocking=False):
        raise RuntimeError("a trace is on already: one block at a time")
    try:
        recorder, gpu = Recorder(), GpuClock()
        put_back = install(recorder, gpu)
        try:
            yield
        except BaseException:
            put_back()
            _write_alone(path, recorder, gpu, launch)
            raise
        put_back()
        gpu.collect(recorder)
        ranks = comm if comm is not None else world() if is_initialized() else None
        if ranks is None and launch is not None and launch.size > 1:
            if launch.rank > 0:
                return
            print(
                f"trace: the program never called qdist.comm.init(), so each of the {launch.size} ranks did all of it: "
                "this is what the first one did",
                file=sys.stderr,
            )
        _write_together(path, recorder, ranks, table)
    finally:
        _one_at_a_time.release()


def _write_alone(path: Path, recorder: Recorder, gpu: GpuClock, launch: Launch | None) -> None:
    """What this rank has, without the others, who may never come."""
    ranks = world() if is_initialized() else launch
    rank, several = (0, False) if ranks is None else (ranks.rank, ranks.size > 1)
    gpu.collect(recorder)
    own = path.with_name(f"{path.name}.rank{rank}") if several else path
    _annotate(recorder.events, None)
    _write(own, {rank: recorder.events}, {rank: os.uname().nodename}, recorder.left_out)


def _annotate(events: Sequence[Event], comm: Communicator | None) -> None:
    """Notes shares of the roofline. Of a node's ranks the first measures for all, while the others wait."""
    kernels = [event for event in events if event.category == "gpu"]
    on_gpu = roofline.measured(roofline.sizes_of(kernels), -1 - kernels[0].thread) if kernels else None
    sizes = roofline.sizes_of(event for event in events if event.category != "gpu")
    if comm is None:
        host = roofline.measured(sizes)
    else:
        nodes, wanted = zip(*comm.all_gather_object((comm.node, sizes)))
        sizes = sorted(set().union(*wanted))
        # Of the ranks that trace: a group need not have the node's own first rank.
        leader = nodes.index(comm.node)
        host = comm.all_gather_object(roofline.measured(sizes) if comm.rank == leader else None)[leader]
    roofline.annotate(events, host, on_gpu, comm is None or comm.num_nodes == 1)


def _write_together(path: Path, recorder: Recorder, comm: Communicator | None, table: bool) -> None:
    # Ranks of a group are known by their numbers in the world, as in what messages note.
    if comm is None or comm.size == 1:
        _annotate(recorder.events, None)
        rank = 0 if comm is None else comm.group[0]
        events, hosts, left_out = {rank: recorder.events}, {rank: os.uname().nodename}, recorder.left_out
    else:
        offset = offset_to_first(comm, perf_counter_ns)
        _annotate(recorder.events, comm)
        own = [(*event[:2], event.start + offset, event.end + offset, *event[4:]) for event in recorder.events]
        shares = _gathered(comm, {"host": comm.host, "events": own, "left_out": recorder.left_out})
        if shares is None:
            return
        events = {rank: [Event(*event) for event in share["events"]] for rank, share in zip(comm.group, shares)}
        hosts = {rank: share["host"] for rank, share in zip(comm.group, shares)}
        left_out = sum(share["left_out"] for share in shares)
    text = _write(path, events, hosts, left_out)
    if table:
        print(f"trace: {path} (open it in ui.perfetto.dev or chrome://tracing)\n{text}", file=sys.stderr, flush=True)


def _write(path: Path, events: Mapping[int, Sequence[Event]], hosts: Mapping[int, str], left_out: int) -> str:
    """Writes the file; returns the table."""
    waits = attribute(events)
    text = summary(events, waits)
    if left_out:
        text += f"\n{left_out} events came after the first million of a rank, and are left out"
    other = {"summary": text, "waits": {str(rank): {str(r): s for r, s in of.items()} for rank, of in waits.items()}}
    file = Replacement(path)
    try:
        file.commit_with(json.dumps(document(events, hosts, other)).encode())
    except BaseException:
        file.discard()
        raise
    return text


def _gathered(comm: Communicator, share: dict[str, Any]) -> list[dict[str, Any]] | None:
    """Every rank's share on the first one; None on the others. As compressed JSON, one rank after the other."""
    packed = np.frombuffer(zlib.compress(json.dumps(share).encode(), 1), np.uint8)
    sizes = comm.all_gather(np.array([packed.size], np.int64)).ravel()
    if comm.rank != 0:
        comm.send(packed, 0, _TAG)
        return None
    found = [share]
    for rank in range(1, comm.size):
        other = np.empty(int(sizes[rank]), np.uint8)
        comm.recv(other, rank, _TAG)
        found.append(json.loads(zlib.decompress(other.tobytes())))
    return found
