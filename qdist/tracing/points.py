"""Where a trace looks: the functions that it replaces by timed ones while it is on, and puts back when it ends.

Nothing in the rest of the library asks whether there is a trace, so that it costs nothing while there is none.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import wraps
from time import perf_counter_ns as now
from types import ModuleType
from typing import Any

from qdist import checkpoint
from qdist.backends.cpu.executor import CpuExecutor
from qdist.backends.cuda.executor import CudaExecutor
from qdist.backends.cuda.sweep import CudaSweep
from qdist.comm.endpoint import Endpoint
from qdist.optim.optimizer import Optimizer
from qdist.program import one_row
from qdist.program.compiled import Compiled
from qdist.program.rows import RowProgram
from qdist.program.runner import Runner
from qdist.program.source import Source
from qdist.state import storage, unplanned
from qdist.state.measuring import expectation
from qdist.state.moves import exchange
from qdist.tensor import Tensor
from qdist.tracing import messages
from qdist.tracing.gpu import GpuClock
from qdist.tracing.point import Point, Wrapper
from qdist.tracing.recorder import Recorder
from qdist.tracing.stages import backward_batch, forward, forward_batch, from_zero, undone, undone_on_gpu

__all__ = ["POINTS", "install"]


def timed(name: str, category: str, describe: Callable[..., dict[str, Any]] | None = None) -> Wrapper:
    """One event for each call; describe: its args, from the call's arguments."""

    def wrapper(recorder: Recorder, gpu: GpuClock, original: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            start = now()
            try:
                return original(*args, **kwargs)
            finally:
                recorder.add(name, category, start, now(), {} if describe is None else describe(*args, **kwargs))

        return call

    return wrapper


def _on_device(name: str, describe: Callable[..., dict[str, Any]]) -> Wrapper:
    """The same for what copies amplitudes of a state, its first argument; on a GPU its kernel is timed too."""

    def wrapper(recorder: Recorder, gpu: GpuClock, original: Callable[..., Any]) -> Callable[..., Any]:
        def call(state: Any, *args: Any) -> None:
            begin = None if state.backend.is_host else gpu.mark()
            start = now()
            original(state, *args)
            found = describe(state, *args)
            recorder.add(name, "pack", start, now(), found if begin is None else {})
            if begin is not None:
                gpu.note(name, begin, gpu.mark(), found)

        return call

    return wrapper


def _bound(recorder: Recorder, gpu: GpuClock, original: Callable[..., Any]) -> Callable[..., Any]:
    def hold(self: Compiled, values: Any) -> bool:
        if self._held is values:
            return original(self, values)
        start = now()
        found = original(self, values)
        recorder.add("bind", "bind", start, now(), {"angles": len(self._affine.constants)})
        return found

    return hold


def _of_run(self: Runner, *args: Any, **kwargs: Any) -> dict[str, Any]:
    return {"qubits": self.num_qubits, "sweeps": self.plan.sweeps, "exchanges": self.plan.exchanges}


def _of_unplanned(program: Any, circuit: Any, *args: Any) -> dict[str, Any]:
    return {"qubits": circuit.num_qubits, "sweeps": program.num_stages}


def _of_rows(states: int) -> Callable[..., dict[str, Any]]:
    """Row programs keep their states in cache: what counts is arithmetic, some 6 flops an amplitude and operation."""

    def describe(self: RowProgram, rows: Any, *args: Any, **kwargs: Any) -> dict[str, Any]:
        flops = 6.0 * states * self.num_operations * len(rows) * 2.0**self.num_qubits
        return {"rows": len(rows), "flops": flops, "double": self._dtype.itemsize == 16, "touched": 1.0}

    return describe


def _alone(name: str, states: int) -> Wrapper:
    """One event for each call that went as a batch of one row; others have events of their own."""

    def wrapper(recorder: Recorder, gpu: GpuClock, original: Callable[..., Any]) -> Callable[..., Any]:
        def call(program: Runner, *args: Any) -> Any:
            start = now()
            found = original(program, *args)
            if found is not None:
                recorder.add(name, "stage", start, now(), _of_rows(states)(program.row_programs.of(()), [args]))
            return found

        return call

    return wrapper


def _of_observables(states: int) -> Callable[..., dict[str, Any]]:
    """Each pass reads the state, and with a second one reads and writes that."""

    def describe(sv: Any, *args: Any, **kwargs: Any) -> dict[str, Any]:
        return {"bytes": states * sv.local.nbytes, "touched": 1.0}

    return describe


def _of_pack(state: Any, shard: Any, base: int, within: int, outgoing: Any) -> dict[str, Any]:
    return {"bytes": 2 * outgoing.nbytes, "touched": 1.0}


def _of_unpack(state: Any, incoming: Any, *args: Any) -> dict[str, Any]:
    return {"bytes": 2 * incoming.nbytes, "touched": 1.0}


def _of_swap(state: Any, own: Any, base: int, other: Any, other_base: int, rest: int) -> dict[str, Any]:
    return {"bytes": 4 * (own.itemsize << rest.bit_count()), "touched": 1.0}


def _of_exchange(trades: Any, rest: int, size: int) -> dict[str, Any]:
    nbytes = sum(trade.state.dtype.itemsize << rest.bit_count() for trade in trades)
    return {"sent": nbytes, "ranks": sorted({trade.peer for trade in trades})}


POINTS: list[Point] = [
    Point(Source, "compiled", timed("plan", "plan")),
    Point(Compiled, "hold", _bound),
    Point(Runner, "run_with", timed("run", "run", _of_run)),
    Point(unplanned, "_run", timed("run without a plan", "run", _of_unplanned)),
    Point(CpuExecutor, "run", forward),
    Point(CpuExecutor, "run_from_zero", from_zero),
    Point(CpuExecutor, "run_back", undone),
    Point(CpuExecutor, "run_batch", forward_batch),
    Point(CpuExecutor, "run_back_batch", backward_batch),
    Point(CudaExecutor, "run", forward),
    Point(CudaExecutor, "run_back", undone),
    Point(CudaExecutor, "run_batch", forward_batch),
    Point(CudaExecutor, "run_back_batch", backward_batch),
    Point(CudaSweep, "_undo", undone_on_gpu),
    Point(RowProgram, "values", timed("rows", "stage", _of_rows(1))),
    Point(RowProgram, "vjp", timed("rows and their gradients", "stage", _of_rows(3))),
    Point(RowProgram, "states", timed("states of rows", "stage", _of_rows(1))),
    Point(one_row, "value", _alone("rows", 1)),
    Point(one_row, "gradient", _alone("rows and their gradients", 3)),
    Point(exchange, "_carry_out", timed("exchange", "exchange", _of_exchange)),
    Point(exchange, "_swap_inside", _on_device("swap within the rank", _of_swap)),
    Point(exchange, "_pack", _on_device("pack", _of_pack)),
    Point(exchange, "_unpack", _on_device("unpack", _of_unpack)),
    Point(expectation, "expectations", timed("expectation values", "measure", _of_observables(1))),
    Point(expectation, "apply_and_expect", timed("observables", "measure", _of_observables(2))),
    Point(expectation, "pull_back", timed("observables and the bra", "measure", _of_observables(2))),
    Point(Endpoint, "_collective", messages.collective),
    Point(Endpoint, "_launch", messages.point_to_point),
    *messages.DIRECT,
    Point(messages.Work, "wait", messages.waited),
    Point(Tensor, "backward", timed("backward", "train")),
    Point(Optimizer, "step", timed("optimiser step", "train")),
    Point(checkpoint.Saving, "commit", timed("commit checkpoint", "file")),
    Point(storage, "save", timed("save state", "file")),
    Point(storage, "read_amplitudes", timed("read state", "file")),
]


def install(recorder: Recorder, gpu: GpuClock) -> Callable[[], None]:
    """Puts the timed functions in place; what it returns puts the others back."""
    replaced: list[tuple[Any, str, Any]] = []
    for owner, name, wrapper in POINTS:
        original = vars(owner)[name]
        made = wraps(original)(wrapper(recorder, gpu, original))
        places = [(owner, name)] if not isinstance(owner, ModuleType) else _places(original)
        for place, as_name in places:
            replaced.append((place, as_name, original))
            setattr(place, as_name, made)

    def put_back() -> None:
        for place, as_name, original in reversed(replaced):
            setattr(place, as_name, original)

    return put_back


def _places(function: Any) -> list[tuple[ModuleType, str]]:
    """Every module that has imported a function by name."""
    modules = [module for name, module in list(sys.modules.items()) if name.startswith("qdist") and module is not None]
    return [(module, name) for module in modules for name, value in list(vars(module).items()) if value is function]
