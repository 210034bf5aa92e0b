"""torch.multiprocessing's names: the standard library's processes, and spawn()."""

from __future__ import annotations

import multiprocessing
import multiprocessing.connection
from collections.abc import Callable
from multiprocessing import Process, Queue, get_context, set_start_method
from typing import Any

__all__ = ["Process", "Queue", "get_context", "set_start_method", "spawn"]


def spawn(
    fn: Callable[..., Any], args: tuple[Any, ...] = (), nprocs: int = 1, join: bool = True, start_method: str = "spawn"
) -> list[Any] | None:
    """Runs fn(i, *args) in processes i = 0 ... nprocs - 1.

    Inside, init_process_group(rank=i, world_size=nprocs) brings them together. `qdist.spawn` does both, and gives back
    what the function returned.

    Args:
        join: wait for them; otherwise the processes are returned.

    Raises RuntimeError, once the others are ended, when one fails.
    """
    if nprocs < 1:
        raise ValueError(f"nprocs={nprocs}: at least one process")
    context: Any = multiprocessing.get_context(start_method)
    processes = [context.Process(target=fn, args=(i, *args), daemon=False) for i in range(nprocs)]
    for process in processes:
        process.start()
    if not join:
        return processes
    running = {process.sentinel: process for process in processes}
    try:
        while running:
            for sentinel in multiprocessing.connection.wait(list(running)):
                process = running.pop(sentinel)  # type: ignore[call-overload]
                process.join()
                if process.exitcode != 0:
                    raise RuntimeError(f"process {processes.index(process)} ended with exit code {process.exitcode}")
    finally:
        for process in running.values():
            process.terminate()
            process.join(5)
            process.kill()
    return None
