"""mypy beside the tests. It takes half a minute of one core, and workers leave more than that idle while ranks wait for
time-outs: started with the first tests, at the lowest priority, it has ended when the last ones ask what it says."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]
ANSWER = "QDIST_TEST_TYPES"
"""The file that will have what it says, where a run of tests has started it."""

CALLS = {
    "kernels.squared_norm(single)": "",
    "kernels.inner(single, double)": "type-var",
    "kernels.squared_norm(real)": "type-var",
    "kernels.add_probabilities(single, 0, [0], single)": "arg-type",
    "kernels.pack(single, 0, 7)": "call-arg",
    "kernels.Program64(3).run_from_zero(real)": "arg-type",
    "kernels.no_such_kernel(single)": "attr-defined",
}
"""Calls of native functions, and the mistake in each."""


def start(folder: Path) -> subprocess.Popen[bytes]:
    """Starts it; processes that this one starts find its answer."""
    os.environ[ANSWER] = str(folder / "answer.json")
    return subprocess.Popen([sys.executable, __file__, str(folder)], cwd=ROOT)


def answer(folder: Path, patience: float = 300.0) -> tuple[int, str]:
    """mypy's status and what it says: of the run that has been started, else of one that is started now."""
    if ANSWER not in os.environ:
        start(folder)
    path, end = Path(os.environ[ANSWER]), time.monotonic() + patience
    while not path.exists():
        if time.monotonic() > end:
            raise TimeoutError(f"mypy has not ended within {patience:.0f} s of being waited for")
        time.sleep(0.1)
    status, said = json.loads(path.read_text())
    return status, said


def main(folder: Path) -> None:
    """Checks qdist and the calls: in one run, since most of its time goes into what both import."""
    from mypy import api

    os.nice(19)
    head = "import numpy as np\nfrom qdist.native import kernels\n"
    arrays = "single, double, real = np.zeros(8, np.complex64), np.zeros(8, np.complex128), np.zeros(8)\n"
    calls = folder / "calls.py"
    calls.write_text(head + arrays + "\n".join(CALLS))
    said, wrong, status = api.run(["qdist", str(calls)])
    part = folder / "part.json"
    part.write_text(json.dumps([status, said + wrong]))
    part.rename(folder / "answer.json")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
