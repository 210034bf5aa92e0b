"""Every code block of every text runs as it stands: the blocks of a guide are one program, in an empty folder."""

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
RANKS = {"README.md": 8, "qdist/comm/README.md": 4, "qdist/parallel/README.md": 4}
"""Guides that tell of so many ranks; the others are run in one process."""
GUIDES = sorted(
    str(path.relative_to(ROOT))
    for pattern in ("*.md", "qdist/**/*.md", "circuits/**/*.md", "benchmarks/*.md", "papers/**/*.md")
    for path in ROOT.glob(pattern)
    if "```python" in path.read_text()
)


def program(guide: str, folder: Path) -> Path:
    blocks = re.findall(r"^```python\n(.*?)^```$", (ROOT / guide).read_text(), re.MULTILINE | re.DOTALL)
    assert blocks
    path = folder / "guide.py"
    path.write_text("\n".join(blocks))
    return path


def test_the_guides_are_found() -> None:
    assert {"circuits/README.md", *RANKS} <= set(GUIDES)


@pytest.mark.parametrize("guide", GUIDES)
def test_the_blocks_of_a_guide_run(
    guide: str,
    tmp_path: Path,
    run_ranks: Callable[..., subprocess.CompletedProcess[str]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    script = program(guide, tmp_path)
    if guide in RANKS:
        done = run_ranks(RANKS[guide], [script])
    else:
        done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
