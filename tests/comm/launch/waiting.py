"""A program that waits to be ended: ``waiting.py FOLDER HOW``, run by test_endings.py on several ranks.

Once it runs, each rank leaves in FOLDER what must be gone afterwards: its process, those that it has started, the files
of its shared memory, and the launcher's with the topology of the node.
"""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path


def shared_memory() -> list[str]:
    """Files of MPICH's that this process has mapped, with or without a name."""
    maps = Path("/proc/self/maps").read_text()
    return sorted(set(re.findall(r"/dev/shm/mpich_(?:shm|vci)_\w+", maps)))


def topologies() -> list[str]:
    """The files with the node's topology that MPICH's launcher has open, with or without a name."""
    opened = (os.readlink(entry.path) for entry in os.scandir(f"/proc/{os.getppid()}/fd"))
    named = (path.removesuffix(" (deleted)") for path in opened)
    return [path for path in named if os.path.basename(path).startswith("hydra_hwloc_xmlfile_")]


def report(folder: Path, rank: int, processes: list[int]) -> None:
    beside = folder / f".rank.{rank}"
    beside.write_text(json.dumps({"processes": processes, "files": shared_memory() + topologies()}))
    os.replace(beside, folder / f"rank.{rank}")


def main(folder: Path, how: str) -> None:
    if how == "stubborn":
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
            signal.signal(number, signal.SIG_IGN)
    if how == "mpi4py":
        from mpi4py import MPI

        rank = MPI.COMM_WORLD.rank
    else:
        import qdist.comm as qc

        rank = qc.init(timeout=3 if how == "late" else 600).rank
    # mpirun waits for all that can still write to a rank's output: these cannot.
    closed = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    children = [subprocess.Popen(["sleep", "300"], start_new_session=own, **closed).pid for own in (False, True)]
    report(folder, rank, [os.getpid(), *children])
    if rank == 1 and how != "late":
        deadline = time.monotonic() + 10
        while not (folder / "rank.0").exists() and time.monotonic() < deadline:
            time.sleep(0.01)
        match how:
            case "raise":
                raise ValueError("this rank cannot go on")
            case "kill":
                os.kill(os.getpid(), signal.SIGKILL)
            case "abort":
                from mpi4py import MPI

                MPI.COMM_WORLD.Abort(5)
    if rank == 0 and how == "late":
        qc.world().barrier()
    time.sleep(300)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
