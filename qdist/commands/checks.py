"""What can be told to be impossible before a command starts its work."""

from __future__ import annotations

import os
from pathlib import Path

from qdist.circuit import Circuit
from qdist.comm.bootstrap.environment import launch_of_this_process
from qdist.program.source import FEWEST_CLOSE

__all__ = ["check_can_be_written", "check_ranks", "most_ranks", "program_in"]


def program_in(path: str) -> Circuit:
    """The circuit in an OpenQASM file, or in stdin for "-". Raises ValueError for one without qubits, such as an empty
    file."""
    launch = launch_of_this_process()
    if path == "-" and launch is not None and launch.size > 1:
        raise ValueError(f"-: not all {launch.size} ranks have a stdin; write the program to a file")
    circuit = Circuit.from_file("/dev/stdin" if path == "-" else path)
    if circuit.num_qubits == 0:
        raise ValueError(f"{path}: the program has no qubits; declare some, as in `qubit[2] q;`")
    return circuit


def check_can_be_written(name: str, option: str = "--output") -> None:
    """Raises ValueError for a file that an option names and that cannot be: work of hours would end without it."""
    path = Path(name)
    folder = path.absolute().parent
    if not folder.is_dir():
        raise ValueError(f"{option} {name}: there is no folder {folder}")
    if path.is_dir():
        raise ValueError(f"{option} {name}: this is a folder; name a file in it")
    if not os.access(path if path.exists() else folder, os.W_OK):
        raise ValueError(f"{option} {name}: no permission to write it")


def check_ranks(num_qubits: int, ranks: int) -> None:
    """Raises ValueError for a state that is too small to be split over so many ranks."""
    far = (ranks - 1).bit_length()
    if far and num_qubits - far < FEWEST_CLOSE:
        most = most_ranks(num_qubits)
        raise ValueError(
            f"--ranks {ranks}: {num_qubits} qubits leave each rank fewer than {FEWEST_CLOSE}; use at most "
            f"{most} rank{'s' if most > 1 else ''}"
        )


def most_ranks(num_qubits: int) -> int:
    """Over how many ranks a state can be split."""
    return 1 << max(0, num_qubits - FEWEST_CLOSE)
