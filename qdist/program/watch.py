"""What accompanies a long run: a checkpoint between two stages, and a look for corrupted amplitudes."""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from qdist.backends import Executor, StateError, on_host
from qdist.circuit.circuit import Circuit
from qdist.plan.plan import Plan
from qdist.state import storage
from qdist.state.alone import alone
from qdist.state.statevector import StateVector
from qdist.tensorfile import Replacement, agreeing

__all__ = ["Watch", "watching"]


class Watch:
    """Hooks of a run. Every rank has one, and is called at the same places."""

    done = 0
    """How many segments and instructions have run before."""

    def resumed(self, state: StateVector, bits: list[int], rng: Any) -> StateVector:
        """The state to run on, instead of the initial one."""
        return state

    def begin(self, norm: float) -> float:
        """The norm that the run restores at its end, 0 for none."""
        return norm

    def before(self, number: int, state: StateVector, executor: Executor, support: int) -> None:
        """Segment `number` is going to run."""

    def after(self, number: int, state: StateVector, bits: Sequence[int], rng: Any) -> None:
        """Segment or instruction `number` has run."""

    def end(self, state: StateVector) -> None:
        """All have run."""


class Checkpoints(Watch):
    """Saves the state between two stages whenever some seconds have passed, and goes on from there.

    Raises StateError, on all ranks, for a file of another run; CheckpointError for a damaged one.
    """

    def __init__(self, path: Path, seconds: float, run: str, comm: Any) -> None:
        self._path, self._seconds, self._run, self._comm = path, seconds, run, comm
        self._saved = time.monotonic()
        self._norm = 0.0
        self._note: dict[str, Any] = {}
        with agreeing(comm):
            if comm.rank == 0:  # What cannot be written is told now, not after so many seconds.
                Replacement(path).discard()
        exists = comm.broadcast_object(path.exists())
        if exists:
            self._note = json.loads(storage.read_description(path, comm).note or "{}")
            if self._note.get("run") != run:
                raise StateError(
                    f"checkpoint={str(path)!r} is of another circuit, of other values or of another number of ranks: "
                    "remove it, or give another file"
                )
            self.done = self._note["done"]

    def resumed(self, state: StateVector, bits: list[int], rng: Any) -> StateVector:
        if self.done:
            found = StateVector.load(self._path, self._comm, state.device)
            state.layout = found.layout
            state.local[:] = found.local
            bits[:] = self._note["bits"]
            if rng is not None:
                rng.bit_generator.state = self._note["rng"]
        return state

    def begin(self, norm: float) -> float:
        self._norm = self._note.get("norm", norm)
        return self._norm

    def after(self, number: int, state: StateVector, bits: Sequence[int], rng: Any) -> None:
        # The first rank's clock counts.
        if not self._comm.broadcast_object(time.monotonic() - self._saved >= self._seconds):
            return
        drawn = None if rng is None else rng.bit_generator.state
        note = {"run": self._run, "done": number, "bits": list(bits), "rng": drawn, "norm": self._norm}
        storage.save(state, self._path, json.dumps(note))
        self._saved = time.monotonic()

    def end(self, state: StateVector) -> None:
        with agreeing(self._comm):
            if self._comm.rank == 0:
                self._path.unlink(missing_ok=True)


class Verification(Watch):
    """Runs one stage a second time on the next rank's amplitudes, and compares a random observable; and norms."""

    def __init__(self, plan: Plan, norm: float, comm: Any) -> None:
        self._comm, self._norm = comm, norm
        # Different in every run, and the same on all ranks.
        self._seed = comm.broadcast_object(int.from_bytes(os.urandom(4)))
        self._chosen = 1 + self._seed % max(1, len(plan.segments))
        self._again: list[float] | None = None

    def before(self, number: int, state: StateVector, executor: Executor, support: int) -> None:
        if self._again is not None or number < self._chosen:
            return
        comm = state.comm
        copy = state.copy()
        first = state.bounds(comm.rank)[0]
        sizes = {b - a for a, b in (state.bounds(r) for r in range(comm.size))}
        if comm.size > 1 and len(sizes) == 1:
            peer = (comm.rank + 1) % comm.size
            comm.sendrecv(state.local, (comm.rank - 1) % comm.size, copy.local, peer)
            first = state.bounds(peer)[0]
        size = 1 << state.shard_bits
        for start in range(0, len(copy.local), size):
            executor.run(copy.local[start : start + size], first + start, support, None)
        self._again = [float(number), self._observed(copy.local, first)]
        self._moved = comm.size > 1 and len(sizes) == 1

    def after(self, number: int, state: StateVector, bits: Sequence[int], rng: Any) -> None:
        if self._again is None or self._again[0] != number:
            return
        comm = state.comm
        own = self._observed(state.local, state.bounds(comm.rank)[0])
        found = comm.all_gather_object((own, self._again[1]))
        scale = _RELATIVE[state.dtype.name] * max(1.0, self._norm) ** 2
        for rank, (_, again) in enumerate(found):
            other = (rank + 1) % comm.size if self._moved else rank
            if not abs(found[other][0] - again) <= scale:
                raise StateError(
                    f"corrupted amplitudes: stage {number} on rank {other} gave {found[other][0]!r} for a random "
                    f"observable, and {again!r} when rank {rank} ran it again"
                )

    def end(self, state: StateVector) -> None:
        norm = state.norm()
        if not abs(norm - self._norm) <= 100 * _RELATIVE[state.dtype.name] * self._norm:
            raise StateError(f"corrupted amplitudes: the state has norm {norm!r} after the circuit, not {self._norm!r}")

    def _observed(self, amplitudes: Any, first: int) -> float:
        """The expectation value of |w><w|, where w has random signs: every amplitude and every phase counts."""
        values = on_host(amplitudes).astype(np.complex128)
        signs = np.random.default_rng([self._seed, first]).choice([-1.0, 1.0], len(values))
        return float(abs(signs @ values) ** 2)


_RELATIVE = {"complex64": 1e-5, "complex128": 1e-11}
"""Rounding errors that two runs of one stage may differ by."""


class Both(Watch):
    """A checkpoint and a verification."""

    def __init__(self, first: Checkpoints, second: Verification) -> None:
        self._first, self._second, self.done = first, second, first.done
        self.resumed, self.begin, self.before = first.resumed, first.begin, second.before  # type: ignore[method-assign]

    def after(self, number: int, state: StateVector, bits: Sequence[int], rng: Any) -> None:
        self._second.after(number, state, bits, rng)
        self._first.after(number, state, bits, rng)

    def end(self, state: StateVector) -> None:
        self._second.end(state)
        self._first.end(state)


def watching(
    runner: Any, values: Any, initial: StateVector | None, path: str | Path | None, seconds: float, verify: bool
) -> Watch:
    """What accompanies a run with a checkpoint at `path`, with verification, or both."""
    if not seconds >= 0:
        raise ValueError(f"seconds={seconds}: not negative")
    verification = checkpoints = None
    plan, comm = runner.plan, runner.comm
    comm = alone() if comm is None else comm
    if verify:
        verification = Verification(plan, 1.0 if initial is None else initial.norm(), comm)
    if path is not None:
        if initial is not None:
            raise StateError("checkpoint= is for runs from |0...0>: initial= is not saved with it")
        checkpoints = Checkpoints(Path(path), seconds, _identity(runner.circuit, values, plan), comm)
    if checkpoints is not None and verification is not None:
        return Both(checkpoints, verification)
    found: Watch | None = checkpoints or verification
    assert found is not None, "one of them was asked for"
    return found


def _identity(circuit: Circuit, values: Any, plan: Plan) -> str:
    """A text that tells runs apart: the circuit with its data, the values, and the stages."""
    digest = hashlib.sha256(plan.summary().encode())
    for instruction in circuit:
        gate, qubits, params, clbits, condition = instruction
        what = (gate.name, tuple(qubits), [str(p) for p in params], tuple(clbits), str(condition))
        digest.update(repr(what).encode())
        for name in (slot for kind in type(gate).__mro__ for slot in getattr(kind, "__slots__", ())):
            if isinstance(data := getattr(gate, name, None), np.ndarray):
                digest.update(np.ascontiguousarray(data).tobytes())
    for array in (values.theta, values.angles):
        digest.update(b"none" if array is None else np.asarray(array, np.float64).tobytes())
    return digest.hexdigest()
