"""Fuzzing: many random inputs for a reader, which takes each or refuses it with a documented exception.

A target makes inputs and reads them (see `Target`); each lives in a file `target_*.py` beside this one. Inputs come in
chunks, each in a process of its own with a limit on its memory, so that a crash ends only a chunk and is reported, and
the inputs of a chunk follow from its number alone. Each input has a limit of processor time, far beyond what its size
should take. `run.py` runs millions of inputs, `test_fuzz.py` some thousands.
"""

from __future__ import annotations

import importlib
import random
import resource
import signal
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import asdict, dataclass, field
from multiprocessing import get_context
from pathlib import Path
from typing import Any, ClassVar

CHUNK = 20_000
# No input is larger than some kilobytes. A reader that needs this long or this much has lost its bounds.
SECONDS = 5.0
MEMORY = 2 << 30
SHOWN = 2000
MAX_FINDINGS = 20


class Target:
    """What is fuzzed. One object serves a chunk; it may keep a folder of its own."""

    name: ClassVar[str]
    documented: ClassVar[tuple[type[Exception], ...]]
    """What the reader may raise."""

    def make(self, rng: random.Random) -> Any:
        """A random input."""
        raise NotImplementedError

    def read(self, given: Any) -> None:
        """Read an input. Raises a documented exception to refuse it; any other is a finding."""
        raise NotImplementedError

    def close(self) -> None:
        """Remove what the target has made."""


class OverBudget(BaseException):
    """An input took longer than any may. No reader catches it, since it is not an Exception."""


@dataclass
class Summary:
    """What came of the inputs of one target."""

    inputs: int = 0
    accepted: int = 0
    refused: dict[str, int] = field(default_factory=dict)
    seconds: float = 0.0
    """Of processor time, for making and reading."""
    slowest_seconds: float = 0.0
    slowest_input: str = ""
    findings: list[dict[str, str]] = field(default_factory=list)
    """Inputs that ended in anything else, with what they ended in."""
    num_findings: int = 0

    def found(self, error: BaseException | str, given: Any) -> None:
        self.num_findings += 1
        if len(self.findings) < MAX_FINDINGS:
            self.findings.append({"error": error if isinstance(error, str) else repr(error), "input": shown(given)})

    def add(self, other: Summary) -> None:
        self.inputs += other.inputs
        self.accepted += other.accepted
        for kind, count in other.refused.items():
            self.refused[kind] = self.refused.get(kind, 0) + count
        self.seconds += other.seconds
        if other.slowest_seconds > self.slowest_seconds:
            self.slowest_seconds, self.slowest_input = other.slowest_seconds, other.slowest_input
        self.num_findings += other.num_findings
        self.findings = (self.findings + other.findings)[:MAX_FINDINGS]

    def as_json(self) -> dict[str, Any]:
        figures = asdict(self)
        figures["seconds"] = round(self.seconds, 1)
        figures["slowest_seconds"] = round(self.slowest_seconds, 4)
        figures["slowest_input"] = self.slowest_input[:400]
        return figures


def shown(given: Any) -> str:
    text = given if isinstance(given, str) else repr(given)
    return text if len(text) <= SHOWN else f"{text[:SHOWN]} ... ({len(text)} characters)"


def target_names() -> list[str]:
    return sorted(path.stem.removeprefix("target_") for path in Path(__file__).parent.glob("target_*.py"))


def load_target(name: str) -> Target:
    """The target in `target_NAME.py`, whose class is called `Fuzzed`."""
    target: Target = importlib.import_module(f"target_{name}").Fuzzed()
    return target


def _over(*_: object) -> None:
    raise OverBudget


def fuzz(target: Target, count: int, seed: str) -> Summary:
    """Make and read so many inputs, in this process, whose virtual timer it uses."""
    summary = Summary()
    rng = random.Random(f"{target.name} {seed}")
    handler = signal.signal(signal.SIGVTALRM, _over)
    started = time.process_time()
    for _ in range(count):
        given = target.make(rng)
        before = time.process_time()
        try:
            signal.setitimer(signal.ITIMER_VIRTUAL, SECONDS)
            try:
                target.read(given)
            finally:
                signal.setitimer(signal.ITIMER_VIRTUAL, 0)
            summary.accepted += 1
        except target.documented as error:
            kind = type(error).__name__
            summary.refused[kind] = summary.refused.get(kind, 0) + 1
        except (Exception, OverBudget) as error:
            summary.found(error, given)
        summary.inputs += 1
        taken = time.process_time() - before
        if taken > summary.slowest_seconds:
            summary.slowest_seconds, summary.slowest_input = taken, shown(given)
    summary.seconds = time.process_time() - started
    signal.signal(signal.SIGVTALRM, handler)
    return summary


def _chunk(name: str, count: int, seed: str) -> Summary:
    """A chunk, in a process of its own."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    target = load_target(name)
    # Address space, beyond what the interpreter and its libraries have mapped.
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    most = pages * resource.getpagesize() + MEMORY
    resource.setrlimit(resource.RLIMIT_AS, (most, most))
    try:
        return fuzz(target, count, seed)
    finally:
        target.close()


def fuzz_in_chunks(name: str, count: int, seed: int, jobs: int, done: int = 0) -> Iterator[Summary]:
    """The summaries of a target's chunks, in order, behind the first `done` inputs.

    A chunk that crashed has one finding, and its inputs count as read.
    """
    chunks = [(min(CHUNK, count - first), f"{seed} {first // CHUNK}") for first in range(done, count, CHUNK)]
    for start in range(0, len(chunks), jobs):
        # Processes of their own for each round: what one leaves behind cannot slow down the next.
        pool = ProcessPoolExecutor(jobs, mp_context=get_context("spawn"))
        with pool:
            waiting = [(chunk, pool.submit(_chunk, name, *chunk)) for chunk in chunks[start : start + jobs]]
            for (size, seed_text), running in waiting:
                try:
                    yield running.result()
                except BrokenProcessPool:
                    crashed = Summary(inputs=size)
                    crashed.found("the process ended", f"chunk {seed_text}")
                    yield crashed
