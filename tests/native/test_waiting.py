"""How long threads of OpenMP spin before they sleep: briefly, unless the user says otherwise."""

import os
import subprocess
import sys

import pytest


def said(**given: str) -> tuple[str, str]:
    """What OpenMP says of its settings when it is loaded, and what a child of the process would find."""
    environment = {k: v for k, v in os.environ.items() if k not in ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY")}
    code = "import os, qdist.native; print(os.environ.get('GOMP_SPINCOUNT'))"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**environment, **given, "OMP_DISPLAY_ENV": "verbose"},
        capture_output=True,
        text=True,
        check=True,
    )
    lines = [line for line in done.stderr.splitlines() if "GOMP_SPINCOUNT" in line]
    if not lines:
        pytest.skip("built without GCC's OpenMP")
    return lines[-1].partition("'")[2].rstrip("'"), done.stdout.strip()


def test_threads_spin_briefly_and_children_are_not_told() -> None:
    assert said() == ("2000", "None")


def test_what_the_user_has_set_holds() -> None:
    assert said(GOMP_SPINCOUNT="77") == ("77", "77")
    spins, left = said(OMP_WAIT_POLICY="active")
    assert int(spins) > 1_000_000
    assert left == "None"
