"""Lint, formatting and types are part of the tests."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

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


def run(*command: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", *map(str, command)], cwd=ROOT, capture_output=True, text=True)


@pytest.mark.parametrize("command", [["check"], ["format", "--check"]], ids=" ".join)
def test_the_tree_is_clean(command: list[str]) -> None:
    done = run("ruff", *command, ".")
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture(scope="module")
def typed(tmp_path_factory: pytest.TempPathFactory) -> str:
    """What mypy says of qdist and of the calls above: in one run, since most of its time goes into what both import."""
    scratch = tmp_path_factory.mktemp("calls") / "calls.py"
    head = "import numpy as np\nfrom qdist.native import kernels\n"
    arrays = "single, double, real = np.zeros(8, np.complex64), np.zeros(8, np.complex128), np.zeros(8)\n"
    scratch.write_text(head + arrays + "\n".join(CALLS))
    done = run("mypy", "qdist", scratch)
    assert done.returncode == 1, done.stdout + done.stderr
    return done.stdout


def test_types_are_right(typed: str) -> None:
    wrong = [line for line in typed.splitlines() if "calls.py:" not in line]
    assert len(wrong) == 1, typed
    assert re.match(r"Found \d+ errors in 1 file \(checked \d{3,} source files\)", wrong[0]), typed


def test_calls_of_kernels_are_checked_by_the_stub(typed: str) -> None:
    found = dict(re.findall(r"calls\.py:(\d+): error: .*\[([\w-]+)\]$", typed, re.MULTILINE))
    assert found == {str(4 + k): code for k, code in enumerate(CALLS.values()) if code}, typed
