"""Notebooks run from the first cell to the last, and what is stored in them is what they show."""

import importlib.util
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

FOLDER = Path(__file__).parents[2] / "circuits/notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))


@pytest.fixture(scope="module")
def execute() -> Any:
    spec = importlib.util.spec_from_file_location("execute_notebooks", FOLDER / "execute.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def cell(source: str, kind: str = "code", **more: Any) -> dict[str, Any]:
    return {"cell_type": kind, "source": source.splitlines(keepends=True), "metadata": {}} | more


def kinds(outputs: list[dict[str, Any]]) -> list[list[str]]:
    return [sorted(output.get("data", {output["output_type"]: ""})) for output in outputs]


def texts(outputs: list[dict[str, Any]]) -> list[str]:
    return ["".join(output["text"] if "text" in output else output["data"]["text/plain"]) for output in outputs]


def pairs(notebook: dict[str, Any], execute: Any) -> Iterator[tuple[int, dict[str, Any], list[dict[str, Any]]]]:
    for number, (stored, fresh) in enumerate(zip(execute.code_cells(notebook), execute.execute(notebook)), 1):
        yield number, stored, fresh


def test_there_are_notebooks_for_each_task() -> None:
    tasks = ["first_circuit", "hybrid_classifier", "on_a_gpu", "on_ranks", "reading_plans", "vqe"]
    assert [path.stem for path in NOTEBOOKS] == tasks


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_shows_what_is_stored_in_it(path: Path, execute: Any) -> None:
    """After a change: python circuits/notebooks/execute.py circuits/notebooks/*.ipynb --write"""
    pytest.importorskip("matplotlib", reason="notebooks draw with matplotlib: pip install 'qdist[plot]'")
    notebook = json.loads(path.read_text(encoding="utf-8"))
    assert notebook["nbformat"] == 4
    assert len(execute.code_cells(notebook)) >= 4
    for number, stored, fresh in pairs(notebook, execute):
        assert stored["execution_count"] == number
        # What depends on the machine (its caches, a GPU) may differ from what another has stored.
        if "machine" not in stored["metadata"].get("tags", ()):
            assert kinds(fresh) == kinds(stored["outputs"]), f"code cell {number}"
            assert texts(fresh) == texts(stored["outputs"]), f"code cell {number}"


def test_cells_share_names_and_show_their_last_expression(execute: Any) -> None:
    class Drawn:
        def _repr_svg_(self) -> str:
            return "<svg/>"

        def __repr__(self) -> str:
            return "drawn"

    notebook = {
        "cells": [
            cell("# text", "markdown"),
            cell("a = 2\nprint('one')"),
            cell("print(a)\na * 21"),
            cell("a;None"),
            cell("import builtins\nbuiltins.drawn_for_test"),
        ]
    }
    import builtins

    builtins.drawn_for_test = Drawn()  # type: ignore[attr-defined]
    try:
        one, two, three, four = execute.execute(notebook)
    finally:
        del builtins.drawn_for_test  # type: ignore[attr-defined]
    assert texts(one) == ["one\n"]
    assert texts(two) == ["2\n", "42"]
    assert three == []
    assert four[0]["data"] == {"text/plain": ["drawn"], "image/svg+xml": ["<svg/>"]}


def test_an_error_names_its_cell(execute: Any) -> None:
    with pytest.raises(ZeroDivisionError) as caught:
        execute.execute({"cells": [cell("a = 1"), cell("a / 0")]})
    assert caught.value.__notes__ == ["in code cell 2"]
