"""Runs a program of the source documents inside this process and gives its variables.

BACKEND and DEVICE (VQNet's number) or PLACE stand in the programs where a document names NCCL and a GPU: "nccl" and
this rank's GPU on ranks that a test started for NCCL, "mpi" and the CPU elsewhere.
"""

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from qdist.comm import cuda_devices
from qdist.comm.bootstrap.environment import launch_of_this_process
from qdist.tensor import manual_seed

HERE = Path(__file__).parent
CIRCUITS = HERE.parents[1] / "circuits"
BACKEND = os.environ.get("QDIST_TEST_BACKEND", "mpi")

# Device lines of the programs in circuits/, which are written for the CPU.
ON_GPU = [
    ('CommController("mpi")', 'CommController("nccl")'),
    ('"backend": "mpi"', '"backend": "nccl"'),
    ("pyvqnet.DEV_CPU", "DEVICE"),
]


def run(
    program: Path, changes: Sequence[tuple[str, str]] = (), arguments: Sequence[Any] = (), name: str = "__main__"
) -> dict[str, Any]:
    """The variables of a program that ran with these changes of its text, each of which must be found."""
    text = program.read_text()
    for old, new in changes:
        assert old in text, f"{program.name} has no {old!r}"
        text = text.replace(old, new)
    if BACKEND == "nccl":
        for old, new in ON_GPU:
            text = text.replace(old, new)
    manual_seed(0)  # As in a process of its own.
    variables: dict[str, Any] = {"__name__": name, "__file__": str(program), "BACKEND": BACKEND, **device()}
    before = sys.argv
    sys.argv = [str(program), *map(str, arguments)]
    try:
        exec(compile(text, str(program), "exec"), variables)
    finally:
        sys.argv = before
    return variables


def device() -> dict[str, Any]:
    """This rank's device under the names of both documents.

    Its number comes from the launcher, which starts all ranks on this machine: world() would bring the ranks together
    over MPI, and the programs do that themselves, over NCCL.
    """
    if BACKEND != "nccl":
        return {"DEVICE": 0, "PLACE": "cpu"}
    launch = launch_of_this_process()
    gpu = (0 if launch is None else launch.rank) % max(1, cuda_devices())
    return {"DEVICE": 1000 + gpu, "PLACE": f"cuda:{gpu}"}
