"""Documents name what is there: no benchmark and no result without a line, no link to a file or a name that is gone."""

import importlib
import re
from operator import attrgetter
from pathlib import Path

import pytest

import qdist

ROOT = Path(__file__).parents[1]
DOCUMENTS = [
    path
    for pattern in ("*.md", "benchmarks/**/*.md", "circuits/*.md", "papers/**/*.md", "qdist/*/README.md")
    for path in sorted(ROOT.glob(pattern))
]


def test_every_benchmark_and_result_is_in_the_benchmarks_readme() -> None:
    text = (ROOT / "benchmarks/README.md").read_text()
    programs = [path.name for path in (ROOT / "benchmarks").iterdir() if path.suffix in (".py", ".md")]
    results = [path.name for path in (ROOT / "benchmarks/results").iterdir() if path.suffix != ".png"]
    assert [name for name in sorted(programs + results) if name != "README.md" and f"`{name}`" not in text] == []


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_paths_in_documents_exist(document: Path) -> None:
    text = document.read_text()
    links = [document.parent / link for link in re.findall(r"\]\(([^)#:]+)\)", text)]
    named = [
        ROOT / path
        for path in re.findall(r"\b(?:qdist|tests|benchmarks|circuits|papers)/[\w/.]*\w(?![\w/.]*[*{])", text)
    ]
    assert [str(path) for path in links + named if not path.exists()] == []


def test_options_of_benchmarks_in_their_readme_exist() -> None:
    for program, rest in re.findall(r"benchmarks/(\w+\.py)([^`|]*)`", (ROOT / "benchmarks/README.md").read_text()):
        source = (ROOT / "benchmarks" / program).read_text()
        assert [option for option in re.findall(r"--[a-z]+", rest) if f'"{option}"' not in source] == [], program


def test_paths_in_the_map_of_the_code_exist() -> None:
    text = (ROOT / "qdist/ARCHITECTURE.md").read_text()
    named = re.findall(r"`([\w/]+(?:/|\.py|\.hpp|\.pyi)[\w/]*)`", text)
    assert len(named) > 40
    missing = [path for path in named if not any((base / path).exists() for base in (ROOT / "qdist", ROOT))]
    # Files that are named after their folder in the same sentence.
    assert [path for path in missing if "/" in path and not path.startswith("lowering/")] == []


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_names_of_the_library_in_documents_exist(document: Path) -> None:
    missing = []
    for name in sorted(set(re.findall(r"\bqd\.([a-zA-Z_]\w*(?:\.[a-zA-Z_]\w*)*)", document.read_text()))):
        first, _, rest = name.partition(".")
        try:
            found = qdist.__getattr__(first)  # as after `import qdist`: what else was imported here does not help
            found = attrgetter(rest)(found) if rest else found
        except AttributeError:
            missing.append(f"qd.{name}")
    assert missing == []


def test_as_many_families_are_told_of_as_the_benchmarks_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    families = importlib.import_module("families").FAMILIES
    words = re.findall(r"(\w+) families of circuits", (ROOT / "benchmarks/README.md").read_text())
    # One of them is for gradients alone.
    assert set(words) == {{18: "eighteen", 19: "nineteen", 20: "twenty", 21: "twenty-one"}[len(families) - 1]}
