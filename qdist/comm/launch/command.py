"""How mpirun is called: its command line, and what every rank finds in its environment."""

from __future__ import annotations

import os
from collections.abc import Sequence

from qdist.comm.launch.hosts import Host, check_hosts
from qdist.comm.place import cores
from qdist.comm.transports.libmpi import Mpirun

__all__ = ["environment_of_ranks", "mpirun_command"]


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
            for name in ("QDIST_LAUNCHER", "QDIST_OUTPUT", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
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
