"""How mpirun is called: its command line, and what every rank finds in its environment."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Sequence

from qdist.comm.launch.hosts import Host, check_hosts
from qdist.comm.place import cores
from qdist.comm.transports.libmpi import Mpirun

__all__ = ["check_output", "environment_of_ranks", "mpirun_command", "with_python"]

_HANDED_ON = (
    "QDIST_LAUNCHER", "QDIST_ENDINGS", "QDIST_OUTPUT", "QDIST_LOCAL_RANK_OPTION", "MASTER_ADDR", "MASTER_PORT",
    "QDIST_RESTART", "QDIST_RESTART_REASON", "QDIST_LOG",
    "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS",
)  # fmt: skip


def mpirun_command(launcher: Mpirun, ranks: int, hosts: Sequence[Host] = ()) -> list[str]:
    """The command line, up to the program, that starts so many ranks. Raises ValueError for hosts that are none."""
    hosts = check_hosts(hosts)
    command = [launcher.path, "-n", str(ranks)]
    if launcher.family == "openmpi":
        # More ranks than cores is for the user to decide, and so is being root. Bound to a core, a rank's threads would
        # share it.
        command += ["--oversubscribe", "--bind-to", "none"]
        if os.geteuid() == 0:
            command += ["--allow-run-as-root"]
        if hosts:
            command += ["--host", ",".join(f"{name}:{slots}" for name, slots in hosts)]
            # MPICH's launcher hands the whole environment on, Open MPI's only what is named.
            for name in _HANDED_ON:
                command += ["-x", name]
    elif hosts:
        command += ["-hosts", ",".join(f"{name}:{slots}" for name, slots in hosts)]
    return command


def environment_of_ranks(ranks: int, hosts: Sequence[Host], output: str | None) -> dict[str, str]:
    """What every rank finds set: its share of the cores, unless the user has decided."""
    a_node = max((slots for _, slots in hosts), default=ranks)
    threads = str(max(1, cores() // min(ranks, a_node)))
    environ = {name: threads for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS") if name not in os.environ}
    # Set even where nothing is to be redirected: this process may have inherited a value.
    environ["QDIST_OUTPUT"] = "" if output is None else os.path.abspath(output)
    return environ


def check_output(output: str | None) -> None:
    """Raises ValueError if files cannot be made there because the folder is missing."""
    if output is not None and not os.path.isdir(folder := os.path.dirname(os.path.abspath(output))):
        raise ValueError(f"--output-filename {output}: there is no folder {folder}")


def with_python(program: Sequence[str]) -> list[str]:
    """``script.py`` and ``python script.py`` both run under this environment's Python. Raises ValueError for what
    cannot be run."""
    if not program:
        raise ValueError("nothing to run: `qdist run -n 4 script.py`")
    first = program[0]
    if first.endswith(".py"):
        return [sys.executable, *program]
    if first in ("python", "python3"):
        return [sys.executable, *program[1:]]
    if shutil.which(first) is None:
        raise ValueError(f"{first!r} is neither a Python script nor a program on PATH")
    return list(program)
