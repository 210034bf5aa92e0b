"""A part of PennyLane's own tests of devices, pl-device-test; all of them are run by hand before a release:

pl-device-test --device qdist.qubit --shots=None
pl-device-test --device qdist.qubit --shots=10000
"""

import os
import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path

import pytest

pytest.importorskip("pennylane")
pytest.importorskip("flaky")
pytest.importorskip("pytest_mock")

import pennylane.devices.tests as device_tests

FOLDER = Path(device_tests.__file__).parent


FILES = {
    "None": ["test_gates.py", "test_compare_default_qubit.py"],
    "10000": ["test_return_system.py", "test_wires.py"],
}
"""By the number of shots."""


def test_pennylanes_tests_of_devices_pass(tmp_path):
    """One after the other in one process: half of its time goes into what both import."""
    if not any(point.name == "qdist.qubit" for point in entry_points(group="pennylane.plugins")):
        pytest.skip("qdist was installed before it had the entry point")
    options = ["-q", "-p", "no:cacheprovider", "-p", "no:xdist", "--no-flaky-report", "--tb=short"]
    runs = [
        [*options, *(str(FOLDER / file) for file in files), "--device=qdist.qubit", f"--shots={shots}"]
        for shots, files in FILES.items()
    ]
    program = f"import sys, pytest; sys.exit(max([pytest.main(run) for run in {runs}]))"
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env=environment,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-3000:]
    assert done.stdout.count(" passed") == len(FILES)
