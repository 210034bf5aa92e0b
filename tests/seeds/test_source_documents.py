"""The table of the source documents' names: each leads to something that is there."""

import importlib
import re
from pathlib import Path
from typing import Any

import pytest

from qdist.cli import main
from qdist.run_command import vqnetrun

TABLE = Path(__file__).parents[2] / "papers" / "source_documents.md"
ROWS = [
    [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
    for line in TABLE.read_text().splitlines()
    if line.startswith("| ") and not line.startswith("| there |")
]
COMMANDS = ("qdist run", "vqnetrun")


def found(name: str) -> Any:
    """What a dotted name leads to: a module, or something in one."""
    words = name.split(".")
    for end in range(len(words), 0, -1):
        try:
            value: Any = importlib.import_module(".".join(words[:end]))
        except ModuleNotFoundError as error:
            if error.name is None or not ".".join(words[:end]).startswith(error.name):
                raise
            continue
        for word in words[end:]:
            value = getattr(value, word)
        return value
    raise AssertionError(name)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_every_name_is_there(row: list[str]) -> None:
    there, here, differs = row
    assert there
    assert differs
    assert "missing" not in " ".join(row).lower()
    names = re.findall(r"`([^`]+)`", here)
    assert names
    for name in names:
        assert name.startswith(("qdist.", "circuits/", "python -m qdist.", *COMMANDS)), name
        if name.startswith("circuits/"):
            assert (TABLE.parents[1] / name).is_file()
        elif name.startswith(("qdist.", "python -m ")):
            found(name.removeprefix("python -m "))
    for name in re.findall(r"`(qdist\.[\w.]+)`", differs):
        found(name)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_option_is_there(
    command: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.argv", ["vqnetrun", "-h"])
    with pytest.raises(SystemExit):
        main(["run", "-h"]) if command == "qdist run" else vqnetrun()
    known = capsys.readouterr().out
    named = [name for _, here, _ in ROWS for name in re.findall(rf"`{command}([^`]*)`", here)]
    assert named
    options = {option for text in named for option in text.split()}
    assert {option for option in options if option not in re.split(r"[\s,\[\]|]+", known)} == set()


def test_a_name_that_is_not_there_is_found_out() -> None:
    with pytest.raises((AttributeError, AssertionError)):
        found("qdist.comm.no_such_name")
    assert len(ROWS) > 200


@pytest.mark.parametrize("document", ["VQNet", "torch.distributed", "Paddle", "MindSpore", "The notes"])
def test_every_document_has_its_part(document: str) -> None:
    part = TABLE.read_text().partition(f"\n## {document}\n")[2].partition("\n## ")[0]
    assert part.count("\n| `") >= 17
    for test in re.findall(r"`(tests/[\w./]+)`", part):
        assert (TABLE.parents[1] / test).is_file(), test
