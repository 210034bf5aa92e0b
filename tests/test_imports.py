"""Who imports whom, read from the sources: one way between packages, no circle within, and folders one can see through.

An import inside a function, or for the sake of types alone, counts as any other: it only hides a circle.
"""

import ast
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from types import ModuleType

import pytest

import qdist

ROOT = Path(__file__).parents[1]

CHECKED = ["backends", "comm", "commands", "noise", "parallel", "plan", "program", "state", "tracing", "training"]
"""Packages without circles, of folders with few files."""

ON_DEMAND = ("qdist.circuit.circuit", "qdist.circuit.qasm")
"""Circuit.from_qasm and to_qasm import the reader and the writers when they are called, which make and read Circuits: a
quarter of the package's time to import, and the one circle that convenience is worth."""

MOST_FILES = 16
"""Of a folder, besides its __init__.py."""

MAY_IMPORT = {
    "backends": {"circuit", "comm", "native", "plan"},
    "blocks": {"native"},
    "circuit": {"hints", "native", "terminal"},
    "comm": {"hints", "native"},
    "data": {"comm", "tensor"},
    "native": set(),
    "noise": {"hints", "backends", "circuit", "comm", "plan", "program", "progress", "state"},
    "optim": {"tensor"},
    "parallel": {"checkpoint", "comm", "data", "nn", "optim", "tensor", "tensorfile", "training"},
    "plan": {"circuit", "native"},
    "plots": {"circuit"},
    "program": {"hints", "backends", "circuit", "comm", "locks", "plan", "progress", "state", "tensorfile"},
    "state": {
        "hints",
        "backends",
        "blocks",
        "circuit",
        "comm",
        "locks",
        "native",
        "plan",
        "progress",
        "statetree",
        "tensorfile",
        "terminal",
    },
    "tensor": {"locks", "native"},
    "tracing": {
        "backends",
        "checkpoint",
        "comm",
        "hints",
        "native",
        "optim",
        "plan",
        "program",
        "state",
        "tensor",
        "tensorfile",
    },
    "training": {"checkpoint", "comm", "data", "options", "progress", "tensor", "tensorfile"},
}
"""What of qdist a package may import besides itself."""

Graph = Mapping[str, Iterable[str]]


def module_of(path: Path) -> str:
    """``qdist.comm.guard`` of qdist/comm/guard/__init__.py; ``qdist.cli`` of qdist/cli.py."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


FILES = {module_of(path): path for path in sorted((ROOT / "qdist").rglob("*.py"))}


@cache
def trees() -> dict[str, ast.Module]:
    """Read where a test asks: every worker of pytest-xdist collects these tests, and one runs them."""
    return {module: ast.parse(path.read_text()) for module, path in FILES.items()}


def imported(tree: ast.Module, package: str) -> Iterator[tuple[str, list[str]]]:
    """(module, names) of every import statement, wherever it stands; package: what "." means there."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name, []) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package.split(".")[: 1 - node.level or None] if node.level else []
            yield ".".join([*above, *([node.module] if node.module else [])]), [alias.name for alias in node.names]


def package_of(module: str) -> str:
    return module if FILES[module].name == "__init__.py" else module.rpartition(".")[0]


@cache
def imported_by(module: str) -> list[tuple[str, list[str]]]:
    return list(imported(trees()[module], package_of(module)))


def modules_imported(module: str) -> set[str]:
    """What one imports of qdist: ``from qdist.comm import mesh, init`` is of qdist.comm.mesh and of qdist.comm."""
    found = set()
    for base, names in imported_by(module):
        for name in names or [""]:
            full = f"{base}.{name}" if f"{base}.{name}" in FILES else base
            sibling = f"{package_of(module)}.{base}"  # Scripts that are run by path import each other so.
            found |= {m for m in (full, sibling) if m in FILES}
    return found - {module}


@cache
def imports() -> dict[str, set[str]]:
    return {module: modules_imported(module) for module in FILES}


def circles(graph: Graph) -> list[list[str]]:
    """The sets of nodes that can all be reached from each other (Tarjan 1972), where there are two or more."""
    found: list[list[str]] = []
    number: dict[str, int] = {}
    lowest: dict[str, int] = {}
    stack: list[str] = []

    def visit(node: str) -> None:
        number[node] = lowest[node] = len(number)
        stack.append(node)
        for other in graph.get(node, ()):
            if other not in number:
                visit(other)
            if other in stack:
                lowest[node] = min(lowest[node], lowest[other])
        if lowest[node] == number[node]:
            component = stack[stack.index(node) :]
            del stack[stack.index(node) :]
            if len(component) > 1:
                found.append(sorted(component))

    for node in graph:
        if node not in number:
            visit(node)
    return found


def rooms(package: str) -> dict[str, set[str]]:
    """The graph of what lies directly in a package: a folder counts as one, and the package's __init__ not at all."""

    def room(module: str) -> str | None:
        inside = module.removeprefix(f"{package}.")
        return None if inside == module else inside.partition(".")[0]

    graph: dict[str, set[str]] = {}
    for module, others in imports().items():
        if (here := room(module)) is not None:
            graph.setdefault(here, set()).update({r for r in map(room, others) if r not in (None, here)})
    return graph


def folders(package: str) -> list[Path]:
    whole = ROOT / "qdist" / package
    return [whole, *sorted(path.parent for path in whole.rglob("*/__init__.py"))]


def test_circles_are_found() -> None:
    assert circles({"a": ["b"], "b": ["c"], "c": [], "d": ["a", "c"]}) == []
    assert circles({"a": ["b"], "b": ["c", "d"], "c": ["a"], "d": ["e"], "e": ["d"], "f": ["a"]}) == [
        ["d", "e"],
        ["a", "b", "c"],
    ]


def test_imports_of_every_kind_are_found() -> None:
    text = "import os\nfrom . import b\nfrom ..x import y\nif TYPE_CHECKING:\n    from q.z import Z\n"
    text += "def f():\n    from .late import g\n"
    assert sorted(imported(ast.parse(text), "q.p")) == [
        ("os", []),
        ("q.p", ["b"]),
        ("q.p.late", ["g"]),
        ("q.x", ["y"]),
        ("q.z", ["Z"]),
    ]
    assert "qdist.comm.communicator" in imports()["qdist.comm.mesh"]


@pytest.mark.parametrize("package", [*CHECKED, "circuit", "nn"])
def test_no_module_imports_itself_by_others(package: str) -> None:
    importer, demanded = ON_DEMAND
    assert demanded in imports()[importer]
    own = {m: others for m, others in imports().items() if f"{m}.".startswith(f"qdist.{package}.")}
    if importer in own:
        own[importer] = own[importer] - {demanded}
    assert len(own) > 5
    assert circles(own) == []


@pytest.mark.parametrize("package", CHECKED)
def test_folders_depend_on_each_other_one_way(package: str) -> None:
    found = {module_of(f / "__init__.py"): circles(rooms(module_of(f / "__init__.py"))) for f in folders(package)}
    assert {folder: circle for folder, circle in found.items() if circle} == {}


@pytest.mark.parametrize("package", MAY_IMPORT)
def test_packages_depend_on_each_other_one_way(package: str) -> None:
    inside = [m for m in FILES if f"{m}.".startswith(f"qdist.{package}.")]
    assert inside
    wrong = {
        f"{module} imports {other}"
        for module in inside
        for other in imports()[module]
        if other.split(".")[1:2] != [package] and other.split(".")[1:2] not in [[p] for p in MAY_IMPORT[package]]
    }
    assert wrong == set()


def test_the_core_imports_neither_interop_nor_the_command_line() -> None:
    outside = ("qdist.interop", "qdist.cli", "qdist.__main__")
    core = [m for m in FILES if not m.startswith(outside)]
    assert {m: other for m in core for other in imports()[m] if other.startswith(outside)} == {}


def imported_with(what: str) -> set[str]:
    """The modules that a program has which imports this."""
    code = f"import sys, {what}; print(*sys.modules)"
    return set(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split())


@pytest.mark.parametrize("what", ["qdist.comm.bootstrap.initialize", "qdist.run_command"])
def test_what_only_talks_imports_no_circuits(what: str) -> None:
    """Hundreds of ranks start at a time, and every launcher, which needs no arrays either: half of their time would go
    there."""
    modules = imported_with(what)
    parts = {module.split(".")[1] for module in modules if module.startswith("qdist.")}
    assert parts <= {"comm", "hints", "logs", "native", "run_command"}
    assert ("numpy" in modules) == (what != "qdist.run_command")


def test_models_without_circuits_import_nothing_that_simulates_them() -> None:
    """Nor the search for placements: both are a third of what a rank that trains would import."""
    late = {f"qdist.{name}" for name in ("backends", "circuit", "parallel.auto", "plan", "program", "state")}
    assert late & imported_with("qdist.nn, qdist.optim, qdist.parallel, qdist.training") == set()


@pytest.mark.parametrize("package", [qdist, qdist.comm, qdist.nn, qdist.parallel], ids=lambda p: p.__name__)
def test_a_package_has_its_names_when_they_are_asked_for(package: ModuleType) -> None:
    assert set(package.__all__) <= set(dir(package))
    for name in package.__all__:
        assert getattr(package, name) is vars(package)[name]
    with pytest.raises(AttributeError, match=f"module '{package.__name__}' has no attribute 'nothing'"):
        _ = package.nothing


def test_scripts_that_are_run_by_path_need_the_standard_library_alone() -> None:
    """They run without site-packages (-S), before or beside qdist, which imports two of them itself."""
    scripts = [m for m in FILES if m.startswith("qdist.comm.standalone.")]
    assert len(scripts) >= 5
    siblings = {m.rpartition(".")[2] for m in scripts}
    foreign = {
        (module, base)
        for module in scripts
        for base, _ in imported(trees()[module], "")
        if base.partition(".")[0] not in sys.stdlib_module_names | siblings
    }
    assert foreign == set()
    assert siblings & sys.stdlib_module_names == set()  # Their folder comes first on the path.


@pytest.mark.parametrize("package", CHECKED)
def test_a_folder_holds_few_files_and_says_what_it_is(package: str) -> None:
    for folder in folders(package):
        files = [path for path in folder.glob("*.py") if path.name != "__init__.py"]
        assert len(files) + len(list(folder.glob("*/__init__.py"))) > 0, folder
        assert len(files) <= MOST_FILES, f"{folder} has {len(files)} files"
        tree = trees()[module_of(folder / "__init__.py")]
        said = ast.get_docstring(tree) or ""
        assert re.match(r"[A-Z].+[.](\n\n|$)", said), f"{folder}/__init__.py begins with one sentence: what it is"
        assert "__all__" in ast.unparse(tree), f"{folder}/__init__.py exports its public names"


def test_every_import_of_the_repository_is_of_a_module_that_is_there() -> None:
    """Type checking does not see it: packages that are optional may be missing, so that any may."""
    places = ["benchmarks", "circuits", "papers", "qdist", "tests"]
    missing = set()
    for path in (path for place in places for path in sorted((ROOT / place).rglob("*.py"))):
        missing |= {f"{path.relative_to(ROOT)}: {base}" for base in imported_but_missing(path)}
    assert missing == set()


def imported_but_missing(path: Path) -> set[str]:
    """The modules of qdist that a file imports and that are not there."""
    module = module_of(path)
    if module in FILES:
        found = {base for base, _ in imported_by(module)}
    else:
        text = path.read_text()
        # Lines that may be imports name them all. A file is parsed where one of them is not there: few are.
        lines = re.findall(r"\b(?:from|import)\b.*", text)
        found = {base for line in lines for base in re.findall(r"\bqdist\b[\w.]*", line)}
        if found - FILES.keys():
            found = {base for base, _ in imported(ast.parse(text), "")}
    return {base for base in found if base.partition(".")[0] == "qdist" and base not in FILES}
