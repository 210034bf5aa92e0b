"""Timed executors: an event for every stage, on a GPU also by CUDA events."""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter_ns as now
from typing import Any

from qdist.tracing.gpu import GpuClock
from qdist.tracing.recorder import Recorder
from qdist.tracing.work import work_of

__all__ = ["backward_batch", "forward", "forward_batch", "from_zero", "undone", "undone_on_gpu"]

Original = Callable[..., Any]


def _is_host(array: Any) -> bool:
    return type(array).__module__.startswith("numpy")


def forward(recorder: Recorder, gpu: GpuClock, original: Original) -> Original:
    """Executor.run: stage by stage."""

    def run(
        self: Any, shard: Any, offset: int = 0, support: int = -1, after_stage: Callable[[], None] | None = None
    ) -> None:
        bits = shard.size.bit_length() - 1
        host = _is_host(shard)
        marks: list[Any] = [now() if host else gpu.mark()]
        start = now()

        def after() -> None:
            marks.append(now() if host else gpu.mark())
            if after_stage is not None:
                after_stage()

        original(self, shard, offset, support, after)
        if not host:
            recorder.add("queue stages", "stage", start, now(), {})
        live = support & (1 << bits) - 1
        for work, begin, end in zip(work_of(self, bits), marks, marks[1:]):
            args = work.args(work.touched(live, bits))
            live = work.spread(live)
            if host:
                recorder.add(work.name, "stage", begin, end, args)
            else:
                gpu.note(work.name, begin, end, args)

    return run


def from_zero(recorder: Recorder, gpu: GpuClock, original: Original) -> Original:
    """Executor.run_from_zero, as the run that it is short for, of which the stages are seen."""

    def run_from_zero(self: Any, shard: Any) -> None:
        shard.fill(0)
        shard[0] = 1
        self.run(shard, 0, 0)

    return run_from_zero


def undone(recorder: Recorder, gpu: GpuClock, original: Original) -> Original:
    """Executor.run_back: one event for all stages of a segment, on ket and bra. The sums by which derivatives are found
    are not counted as flops."""

    def run_back(self: Any, ket: Any, bra: Any, gradient: Any, *args: Any, **kwargs: Any) -> None:
        start = now()
        original(self, ket, bra, gradient, *args, **kwargs)
        found = work_of(self, ket.size.bit_length() - 1)
        counts = {
            "bytes": 2 * sum(work.bytes for work in found),
            "flops": 2 * sum(work.flops for work in found),
            "touched": 1.0,
            "double": any(work.in_double for work in found),
        }
        name = f"undo {len(found)} stages on ket and bra"
        recorder.add(name, "stage", start, now(), counts if _is_host(ket) else {})

    return run_back


def undone_on_gpu(recorder: Recorder, gpu: GpuClock, original: Original) -> Original:
    """CudaSweep._undo: a stage of the adjoint sweep."""

    def undo(self: Any, number: int, kets: Any, bras: Any, *args: Any) -> None:
        begin = gpu.mark()
        original(self, number, kets, bras, *args)
        gpu.note(f"undo stage {number}", begin, gpu.mark(), {"bytes": 2 * (kets.nbytes + bras.nbytes), "touched": 1.0})

    return undo


def forward_batch(recorder: Recorder, gpu: GpuClock, original: Original) -> Original:
    """Executor.run_batch: all rows in one event."""

    def run_batch(self: Any, states: Any, angles: Any) -> None:
        _batch(recorder, gpu, self, "run", states, 1, lambda: original(self, states, angles))

    return run_batch


def backward_batch(recorder: Recorder, gpu: GpuClock, original: Original) -> Original:
    """Executor.run_back_batch: all rows in one event."""

    def run_back_batch(self: Any, kets: Any, *args: Any) -> None:
        _batch(recorder, gpu, self, "undo", kets, 2, lambda: original(self, kets, *args))

    return run_back_batch


def _batch(
    recorder: Recorder, gpu: GpuClock, executor: Any, verb: str, states: Any, count: int, call: Callable[[], None]
) -> None:
    rows = len(states)
    found = work_of(executor, max(1, states.size // max(1, rows)).bit_length() - 1)
    counts = {
        "bytes": count * rows * sum(work.bytes for work in found),
        "flops": count * rows * sum(work.flops for work in found),
        "touched": 1.0,
        "double": any(work.in_double for work in found),
    }
    host = _is_host(states)
    begin = None if host else gpu.mark()
    start = now()
    call()
    name = f"{verb} {rows} rows"
    recorder.add(name, "stage", start, now(), counts if host else {})
    if not host:
        gpu.note(name, begin, gpu.mark(), counts)
