"""Lint, formatting and types are part of the tests."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
import types_beside

ROOT = Path(__file__).parents[1]


def run(*command: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", *map(str, command)], cwd=ROOT, capture_output=True, text=True)


@pytest.mark.parametrize("command", [["check"], ["format", "--check"]], ids=" ".join)
def test_the_tree_is_clean(command: list[str]) -> None:
    done = run("ruff", *command, ".")
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture(scope="module")
def typed(tmp_path_factory: pytest.TempPathFactory) -> str:
    """What mypy says of qdist and of some calls."""
    status, said = types_beside.answer(tmp_path_factory.mktemp("calls"))
    assert status == 1, said
    return said


def test_types_are_right(typed: str) -> None:
    wrong = [line for line in typed.splitlines() if "calls.py:" not in line]
    assert len(wrong) == 1, typed
    assert re.match(r"Found \d+ errors in 1 file \(checked \d{3,} source files\)", wrong[0]), typed


def test_calls_of_kernels_are_checked_by_the_stub(typed: str) -> None:
    found = dict(re.findall(r"calls\.py:(\d+): error: .*\[([\w-]+)\]$", typed, re.MULTILINE))
    assert found == {str(4 + k): code for k, code in enumerate(types_beside.CALLS.values()) if code}, typed
