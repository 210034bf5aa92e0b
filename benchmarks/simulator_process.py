"""A simulator in a process of its own, and the handle that compare_cpu.py holds of it.

Libraries bring their own OpenMP runtimes (GNU's, LLVM's, Kokkos' and Numba's thread pools): loaded into one process
they clash, read their numbers of threads from the environment once and keep spinning on each other's cores. So each
gets a process, started with the environment set, that answers one pickled request at a time; the benchmark goes round
them, so that they are still measured alternately, and whatever kills one is reported and leaves the others alone.

Run as a program (`simulator_process.py NAME THREADS`) this file is the process.
"""

from __future__ import annotations

import gc
import os
import pickle
import select
import statistics
import subprocess
import sys
import time
import traceback
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).parent

# A turn repeats a run until this many seconds have passed, and counts the median.
TURN_SECONDS = 0.05
# LLVM's OpenMP threads spin for 0.2 s after their work; the next process should not share cores with them.
PAUSE = 0.25


class Failed(RuntimeError):
    """A request that the simulator could not do; the text says why."""


class SimulatorProcess:
    """Starts a simulator; raises Failed with the reason if it cannot be (its library is missing, say)."""

    def __init__(self, name: str, threads: int, timeout: float) -> None:
        self.name = name
        self.timeout = timeout
        count = str(threads)
        variables = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")
        self._process = subprocess.Popen(
            [sys.executable, __file__, name, count],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd=HERE,
            env=os.environ | dict.fromkeys(variables, count) | {"OMP_PROC_BIND": "false"},
        )
        self.version, self.dtypes, self.modes = self._answer()

    def prepare(self, key: tuple[Any, ...], tune: Any, work: Any, dtype: str, mode: str) -> dict[str, Any]:
        """Builds the circuit at the best setting, which is found with the circuit `tune` once a `key`."""
        return self._ask("prepare", key, tune, work, dtype, mode)

    def seconds(self, theta_shape: tuple[int, ...] | None = None) -> float:
        """One turn: the median seconds of its runs, each with new random parameters of this shape if it is given."""
        time.sleep(PAUSE)
        return self._ask("seconds", theta_shape)

    def states(self, work: Any, dtype: str, mode: str, theta: Any) -> dict[str, Any]:
        """The amplitudes after a run of each setting of a mode, by setting."""
        return self._ask("states", work, dtype, mode, theta)

    def derivatives(self, work: Any, dtype: str) -> Any:
        """Derivatives of the work's energy by its parameters."""
        return self._ask("derivatives", work, dtype)

    def release(self) -> None:
        """Frees the memory of the last circuit."""
        self._ask("release")

    @property
    def ended(self) -> bool:
        return self._process.poll() is not None

    def close(self) -> None:
        self._process.kill()
        self._process.wait()

    def _ask(self, *request: Any) -> Any:
        if self.ended:
            raise Failed(f"the process ended with code {self._process.returncode}")
        assert self._process.stdin is not None
        pickle.dump(request, self._process.stdin)
        self._process.stdin.flush()
        return self._answer()

    def _answer(self) -> Any:
        assert self._process.stdout is not None
        ready, _, _ = select.select([self._process.stdout], [], [], self.timeout)
        if not ready:
            self.close()
            raise Failed(f"no answer after {self.timeout:.0f} s")
        try:
            good, value = pickle.load(self._process.stdout)
        except EOFError:
            raise Failed(f"the process ended with code {self._process.wait()}") from None
        if not good:
            raise Failed(value)
        return value


class Server:
    """The other end: does the requests with one simulator."""

    def __init__(self, name: str, threads: int) -> None:
        from peers import SIMULATORS

        self.kind = SIMULATORS[name]
        self.threads = threads
        self.simulator = self.kind(threads)
        self.best: dict[tuple[Any, ...], str] = {}
        self.rng = np.random.default_rng(1)

    def prepare(self, key: tuple[Any, ...], tune: Any, work: Any, dtype: str, mode: str) -> dict[str, Any]:
        self.mode = mode
        settings = self.simulator.settings(mode)
        if key not in self.best and len(settings) > 1:
            self.best[key] = min(settings, key=lambda setting: self._tried(tune, dtype, mode, setting))
        setting = self.best.get(key, settings[0])
        facts = self.simulator.prepare(work, dtype, mode, setting)
        if mode not in ("bind", "batch"):
            self.simulator.run()
        return {"setting": setting, **facts}

    def _tried(self, work: Any, dtype: str, mode: str, setting: str) -> float:
        """Seconds of a run at a setting, after one that warms up; a setting that fails is never the best."""
        count = work.num_parameters
        shape = {"bind": (count,), "batch": (16, count)}.get(mode)
        try:
            self.simulator.prepare(work, dtype, mode, setting)
            self._run(shape)
            return min(self._run(shape) for _ in range(2))
        except Exception:
            traceback.print_exc()
            return float("inf")

    def _run(self, shape: tuple[int, ...] | None) -> float:
        theta = None if shape is None else self.rng.uniform(-np.pi, np.pi, shape)
        started = time.perf_counter()
        if theta is not None and theta.ndim == 2:
            counted = self.simulator.run_batch(theta)
        else:
            counted = self.simulator.run(theta)
        return time.perf_counter() - started if counted is None else counted

    def seconds(self, shape: tuple[int, ...] | None) -> float:
        # The first run after others had the cores finds cold caches and sleeping threads.
        first = self._run(shape)
        if first > 20 * TURN_SECONDS:
            return first
        runs, end = [], time.perf_counter() + TURN_SECONDS
        while not runs or time.perf_counter() < end:
            runs.append(self._run(shape))
        return statistics.median(runs)

    def states(self, work: Any, dtype: str, mode: str, theta: Any) -> dict[str, Any]:
        found = {}
        for setting in self.simulator.settings(mode):
            try:
                self.simulator.prepare(work, dtype, mode, setting)
            except NotImplementedError:
                continue  # Not for these gates; it is not chosen for them either.
            self.simulator.run(theta)
            found[setting] = np.array(self.simulator.amplitudes())
        return found

    def derivatives(self, work: Any, dtype: str) -> Any:
        self.simulator.prepare(work, dtype, "gradient", self.simulator.settings("gradient")[0])
        self.simulator.run()
        return np.array(self.simulator.derivatives())

    def release(self) -> None:
        # What a prepared circuit left in the simulator goes; the library stays loaded, and its settings known.
        self.simulator = self.kind(self.threads)
        gc.collect()


def serve(name: str, threads: int) -> None:
    """Answers requests from stdin until it is closed."""
    answers = os.fdopen(os.dup(1), "wb")
    # Whatever a library prints must not end up among the answers.
    os.dup2(2, 1)

    def answer(good: bool, value: Any) -> None:
        pickle.dump((good, value), answers)
        answers.flush()

    try:
        server = Server(name, threads)
    except ImportError as error:
        answer(False, f"not installed ({error})")
        return
    except Exception as error:
        answer(False, f"does not start ({type(error).__name__}: {error})")
        return
    answer(True, (server.simulator.version(), tuple(server.simulator.dtypes), tuple(server.simulator.modes)))
    while True:
        try:
            method, *arguments = pickle.load(sys.stdin.buffer)
        except EOFError:
            return
        try:
            answer(True, getattr(server, method)(*arguments))
        except Exception as error:
            traceback.print_exc()
            answer(False, f"{type(error).__name__}: {error}".split("\n")[0][:200])


if __name__ == "__main__":
    serve(sys.argv[1], int(sys.argv[2]))
