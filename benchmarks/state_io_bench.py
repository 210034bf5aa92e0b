"""How fast is a split state saved and loaded, beside plain dd on the same disk?

    python benchmarks/state_io_bench.py --qubits 28 --ranks 8 --save state_io

Saving is `StateVector.save` of a complex64 state: all ranks write, with checksums, until the file is on the disk
(fsync); beside it `dd conv=fsync` of as many bytes. Loading verifies all checksums; beside it `dd` to /dev/null. Both
read with the file in memory (cached), and from the disk (the kernel is asked to forget the file first).
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path


def forget(path: Path) -> None:
    """Has the kernel drop its copy of a file."""
    file = os.open(path, os.O_RDONLY)
    os.fsync(file)
    os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(file)


def plain_copies(place: Path, repeats: int) -> dict[str, list[float]]:
    """Seconds of dd."""
    path, copy = place / "state", place / "copy"
    times: dict[str, list[float]] = {}

    def dd(name: str, *arguments: str) -> None:
        start = time.perf_counter()
        subprocess.run(["dd", "bs=4M", "status=none", f"if={path}", *arguments], check=True)
        times.setdefault(name, []).append(time.perf_counter() - start)

    for _ in range(repeats):
        dd("dd write", f"of={copy}", "conv=fsync")
        dd("dd read, cached", "of=/dev/null")
        forget(path)
        dd("dd read, from disk", "of=/dev/null")
        copy.unlink()
    return times


def rank(place: Path, qubits: int, repeats: int) -> None:
    """What each rank runs."""
    import numpy as np

    import qdist as qd
    from qdist.state import StateVector

    comm = qd.comm.init(timeout=600)
    state = StateVector(qubits, comm=comm)
    state.local.view(np.float32)[:] = np.random.default_rng(comm.rank).random(2 * len(state.local), np.float32)
    path = place / "state"
    times: dict[str, list[float]] = {}

    def timed(name: str, what: Callable[[], object]) -> None:
        comm.barrier()
        start = time.perf_counter()
        what()
        comm.barrier()
        times.setdefault(name, []).append(time.perf_counter() - start)

    def drop(path: Path) -> None:
        if comm.rank == 0:
            forget(path)

    for _ in range(repeats):
        timed("save", lambda: state.save(path))
        timed("load, cached", lambda: StateVector.load(path, comm))
        drop(path)
        timed("load, from disk", lambda: StateVector.load(path, comm))
    again = StateVector.load(path, comm)
    assert np.array_equal(again.local, state.local)
    if comm.rank == 0:
        (place / "times.json").write_text(json.dumps(times))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--qubits", type=int, default=24)
    parser.add_argument("--ranks", type=int, default=8)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--folder", type=Path, help="on which disk (default: where temporary files are)")
    parser.add_argument("--save", help="write results/NAME.json")
    parser.add_argument("--rank", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.rank:
        rank(args.folder, args.qubits, args.repeats)
        return
    from common import machine_line, save

    print(machine_line())
    place = Path(tempfile.mkdtemp(prefix="state-io-", dir=args.folder))
    own = [__file__, "--rank", "--folder", place, "--qubits", args.qubits, "--repeats", args.repeats]
    launch = [sys.executable, "-m", "qdist", "run", "-n", args.ranks, "--start-timeout", "200"]
    try:
        subprocess.run([str(word) for word in [*launch, *own]], check=True)
        times = json.loads((place / "times.json").read_text()) | plain_copies(place, args.repeats)
    finally:
        shutil.rmtree(place)
    size = 8 << args.qubits
    rates = {name: round(size / statistics.median(seconds) / 1e9, 3) for name, seconds in times.items()}
    for name, rate in rates.items():
        spread = ", ".join(f"{size / seconds / 1e9:.2f}" for seconds in times[name])
        print(f"{name:20} {rate:6.2f} GB/s   ({spread})")
    result = {"qubits": args.qubits, "ranks": args.ranks, "GB": round(size / 1e9, 3), "GB/s": rates, "seconds": times}
    if args.save:
        print(save(args.save, result))


if __name__ == "__main__":
    main()
