"""Runs notebooks without Jupyter, each in this process, and stores what their cells show.

    python circuits/notebooks/execute.py circuits/notebooks/vqe.ipynb --write

A notebook is JSON: code cells run one after the other in one namespace; what they print, and the value of a last line
that is an expression, are their outputs, as Jupyter has them: text, and a picture where the value can draw itself.
"""

from __future__ import annotations

import argparse
import ast
import base64
import contextlib
import io
import json
import sys
from pathlib import Path
from typing import Any

_KINDS = {
    "_repr_png_": "image/png",
    "_repr_svg_": "image/svg+xml",
    "_repr_html_": "text/html",
    "_repr_latex_": "text/latex",
}


def execute(notebook: dict[str, Any]) -> list[list[dict[str, Any]]]:
    """The outputs of each code cell, in Jupyter's format (nbformat 4); the notebook stays as it is.

    Raises what a cell raises, with a note that names the cell.
    """
    namespace: dict[str, Any] = {"__name__": "__main__"}
    found = []
    for number, cell in enumerate(code_cells(notebook), 1):
        try:
            found.append(_run("".join(cell["source"]), namespace, number))
        except Exception as error:
            error.add_note(f"in code cell {number}")
            raise
    return found


def code_cells(notebook: dict[str, Any]) -> list[dict[str, Any]]:
    """The cells of a notebook that hold code."""
    return [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]


def _run(source: str, namespace: dict[str, Any], number: int) -> list[dict[str, Any]]:
    tree = ast.parse(source, f"cell {number}")
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    printed = _Printed()
    with contextlib.redirect_stdout(printed):
        exec(compile(tree, f"cell {number}", "exec"), namespace)
        value = eval(compile(ast.Expression(last.value), f"cell {number}", "eval"), namespace) if last else None
    outputs: list[dict[str, Any]] = []
    if printed.getvalue():
        outputs.append({"output_type": "stream", "name": "stdout", "text": _lines(printed.getvalue())})
    if value is not None:
        shown = {"output_type": "execute_result", "execution_count": number, "metadata": {}, "data": _displayed(value)}
        outputs.append(shown)
    return outputs


def _displayed(value: Any) -> dict[str, Any]:
    """What a value shows, by kind; text always, and for code hosts the first picture it has."""
    data: dict[str, Any] = {"text/plain": _lines(repr(value))}
    for method, kind in _KINDS.items():
        drawn = getattr(value, method)() if hasattr(value, method) else None
        if drawn is not None:
            data[kind] = base64.b64encode(drawn).decode() if isinstance(drawn, bytes) else _lines(drawn)
            break
    return data


class _Printed(io.StringIO):
    """What cells print; programs that ask may use all letters, as in Jupyter."""

    encoding = "utf-8"


def _lines(text: str) -> list[str]:
    return text.splitlines(keepends=True)


def main(arguments: list[str] | None = None) -> None:
    """Runs the notebooks that are named."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("notebooks", nargs="+", type=Path)
    parser.add_argument("--write", action="store_true", help="store the outputs in the files")
    options = parser.parse_args(arguments)
    for path in options.notebooks:
        notebook = json.loads(path.read_text(encoding="utf-8"))
        outputs = execute(notebook)
        for number, (cell, found) in enumerate(zip(code_cells(notebook), outputs), 1):
            cell["execution_count"], cell["outputs"] = number, found
        if options.write:
            path.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        print(f"{path.name}: {len(outputs)} code cells ran", file=sys.stderr)


if __name__ == "__main__":
    main()
