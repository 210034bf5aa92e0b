"""spawn(): runs a function on ranks that it starts, and gives back what each returned."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from qdist.comm.bootstrap.environment import launch_of_this_process
from qdist.comm.errors import CommError
from qdist.comm.launch.command import environment_of_ranks, mpirun_command
from qdist.comm.launch.job import Job, Signalled
from qdist.comm.transports.libmpi import find_mpirun
from qdist.hints import hinted

__all__ = ["spawn"]


@hinted
def spawn(
    fn: Callable[..., Any],
    nprocs: int,
    args: Iterable[Any] = (),
    *,
    timeout: float | None = None,
) -> list[Any]:
    """Runs ``fn(*args)`` on ``nprocs`` ranks of this machine and returns what each rank returned, in order.

    Works from scripts and notebooks; inside ``fn``, ``qdist.comm.init()`` gives the communicator. The first exception
    of any rank ends all ranks and is raised here, with that rank's traceback as a note.

    fn, args: the function and its arguments, which are pickled. nprocs: how many ranks. timeout: seconds for
    everything; None means no limit. Raises CommError when a rank dies or the time is up.
    However it ends, also by an exception here, Ctrl-C, SIGTERM or SIGHUP, no rank is left.

    >>> spawn(lambda text: (text, init().rank), 2, ("rank",))
    [('rank', 0), ('rank', 1)]
    """
    try:
        return _spawn(fn, nprocs, tuple(args), timeout)
    except Signalled as signalled:
        # All is cleaned up: now the signal does what it would have done.
        os.kill(os.getpid(), signalled.number)
        raise


def _spawn(fn: Callable[..., Any], nprocs: int, args: tuple[Any, ...], timeout: float | None) -> list[Any]:
    if not callable(fn):
        raise TypeError(f"spawn takes a function, then how many ranks run it; got {fn!r}")
    if not hasattr(nprocs, "__index__"):
        raise TypeError(f"nprocs={nprocs!r}: a whole number")
    if nprocs < 1:
        raise ValueError(f"nprocs={nprocs}: at least one rank")
    if (launch := launch_of_this_process()) is not None and launch.size > 1:
        raise CommError(f"spawn() inside rank {launch.rank} of {launch.size}: the ranks are there already")
    import cloudpickle

    launcher = find_mpirun()
    with tempfile.TemporaryDirectory(prefix="qdist-spawn-") as folder:
        job = Path(folder) / "job"
        # The call by itself: a rank can read it only when it looks for modules where this process does.
        call = cloudpickle.dumps((fn, args))
        job.write_bytes(call)
        (Path(folder) / "path").write_text(json.dumps(sys.path))
        # By its path and with -P: with -m a folder named qdist in the current one would come before the installed one.
        program = Path(__file__).with_name("spawned.py")
        command = [*mpirun_command(launcher, nprocs), sys.executable, "-P", str(program), folder]
        with Job(command, os.environ | environment_of_ranks(nprocs, (), None), folder) as ranks:
            try:
                code = ranks.wait(timeout)
            except subprocess.TimeoutExpired:
                raise CommError(f"spawn: {nprocs} ranks were not done within {timeout:g} s") from None
        _raise_first_error(Path(folder))
        results = [Path(folder) / f"result.{rank}" for rank in range(nprocs)]
        if code != 0 or not all(r.exists() for r in results):
            missing = [rank for rank, r in enumerate(results) if not r.exists()]
            raise CommError(f"spawn: ranks {missing} ended without a result (exit code {code})")
        return [cloudpickle.loads(r.read_bytes()) for r in results]


def _raise_first_error(folder: Path) -> None:
    import cloudpickle

    errors = [cloudpickle.loads(path.read_bytes()) for path in folder.glob("error.*")]
    if not errors:
        return
    first = min(errors, key=lambda e: e["time"])
    error = first["error"] if first["error"] is not None else RuntimeError(first["summary"])
    error.add_note(f"raised on rank {first['rank']}:\n{first['traceback']}")
    raise error
