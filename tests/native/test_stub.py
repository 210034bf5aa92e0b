"""The stub of the native module says what was built: the same names, arguments, types and defaults.

That mypy checks calls by it is seen in tests/test_style.py, where mypy runs.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import MemberDescriptorType
from typing import Any, NamedTuple

import pytest

from qdist import native

STUB = Path(native.__file__).with_name("_kernels.pyi")

VAGUE = {"object", "list", "tuple", "dict"}
"""What a binding says where C++ has no better type; the stub may say more."""


class Signature(NamedTuple):
    kind: str
    parameters: list[tuple[str, str, str]]
    """Name, type and default, the last two empty where there are none."""
    returns: str

    def agrees(self, stub: Signature) -> bool:
        """Whether the stub's signature says the same as this one, which was built, or more where this one is vague."""
        if self.kind != stub.kind or len(self.parameters) != len(stub.parameters):
            return False
        types = [(self.returns, stub.returns)]
        for (name, kind, default), (stub_name, stub_kind, stub_default) in zip(self.parameters, stub.parameters):
            if (name, default) != (stub_name, stub_default):
                return False
            types.append((kind, stub_kind))
        return all(mine == theirs or mine.split(" | ")[0] in VAGUE for mine, theirs in types)


def signature(node: ast.FunctionDef, kind: str) -> Signature:
    def text(part: ast.expr | None) -> str:
        return "" if part is None else ast.unparse(part)

    arguments = node.args.args  # All are by position or by name: nanobind has no others here.
    defaults = [None] * (len(arguments) - len(node.args.defaults)) + node.args.defaults
    parameters = [(a.arg, text(a.annotation), text(default)) for a, default in zip(arguments, defaults)]
    return Signature(kind, parameters, text(node.returns))


# What was built


def built_signatures(item: Any, kind: str) -> list[Signature]:
    """Those of all overloads, in the words of the stub."""
    found = []
    for text, _, defaults in item.__nb_signature__:
        text = re.sub(r"^def \(", "def get(", text)
        text = re.sub(r"\bndarray\[dtype=(\w+), shape=\(\*\)[^\]]*\]", r"_Vector[np.\1]", text)
        text = re.sub(r"\bndarray\[dtype=(\w+), shape=\(\*, \*\)[^\]]*\]", r"_Rows[np.\1]", text)
        text = re.sub(r"\bndarray\[dtype=(\w+), shape=\(\*, \*, \*\)[^\]]*\]", r"_Matrices[np.\1]", text)
        text = re.sub(r"\bndarray\[dtype=(\w+), shape=\(\*, \*, \*, \*\)[^\]]*\]", r"_Images[np.\1]", text)
        text = re.sub(r"\bndarray\[shape=\(\*\)[^\]]*\]", "_Vector[np.float32 | np.float64]", text)
        text = re.sub(r"\bndarray\[shape=\(\*, \*\)[^\]]*\]", "_Rows[np.float32 | np.float64]", text)
        text = re.sub(r"\bnp\.bool\b", "np.bool_", text)
        text = re.sub(r"\b(collections\.abc|typing|qdist\.native\._kernels_\w+)\.", "", text)
        for k, default in enumerate(defaults or ()):
            text = text.replace(f"= \\{k}", f"= {default!r}")
        (node,) = ast.parse(f"{text}: ...").body
        assert isinstance(node, ast.FunctionDef)
        found.append(signature(node, kind))
    return found


def built_names() -> dict[str, list[Signature] | None]:
    """Functions, classes, their members and constants; signatures of those that have them."""
    found: dict[str, list[Signature] | None] = {}
    for name, item in vars(native.kernels).items():
        if name.startswith("_"):
            continue
        found[name] = None
        if isinstance(item, type):
            # Of its bases too: what both precisions share is bound once.
            members = {m: v for base in reversed(item.__mro__[:-1]) for m, v in vars(base).items()}
            for member, value in members.items():
                if member.startswith("_") and member != "__init__":
                    continue
                if isinstance(value, MemberDescriptorType):
                    found[f"{name}.{member}"] = None  # a field
                elif isinstance(value, property):
                    found[f"{name}.{member}"] = built_signatures(value.fget, "property")
                else:
                    is_static = type(value).__name__ == "nb_func"
                    found[f"{name}.{member}"] = built_signatures(value, "static" if is_static else "function")
        elif hasattr(item, "__nb_signature__"):
            found[name] = built_signatures(item, "function")
    return found


# What the stub says


class Stub:
    def __init__(self, text: str) -> None:
        self.tree = ast.parse(text)
        self.classes = {node.name: node for node in self.tree.body if isinstance(node, ast.ClassDef)}
        self.aliases = {
            node.target.id: ast.unparse(node.value)
            for node in self.tree.body
            if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.value is not None
        }
        # These stand for arrays on both sides.
        for name in ("_Vector", "_Rows", "_Matrices", "_Images"):
            del self.aliases[name]

    def names(self) -> dict[str, list[Signature] | None]:
        found: dict[str, list[Signature] | None] = {}
        for node in self.tree.body:
            if isinstance(node, ast.FunctionDef):
                real = "[_R]" in ast.unparse(node)
                types = ["np.float32", "np.float64"] if real else ["np.complex64", "np.complex128"]
                found[node.name] = list(self.overloads(node, "function", "_R" if real else "_C", types))
            elif isinstance(node, ast.ClassDef):
                found |= {node.name: None, **{f"{node.name}.{n}": s for n, s in self.members(node).items()}}
            elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                found[node.target.id] = None
        return {name: signatures for name, signatures in found.items() if not name.startswith("_")}

    def members(self, node: ast.ClassDef) -> dict[str, list[Signature] | None]:
        """Of a class, and of what it derives from with a type of amplitudes in brackets."""
        variable, types = "_C", ["np.complex64", "np.complex128"]
        bodies = list(node.body)
        for base in node.bases:
            assert isinstance(base, ast.Subscript)
            if ast.unparse(base.value) != "Generic":
                variable, types = "_Stored", ast.unparse(base.slice).split(" | ")
                bodies += self.classes[ast.unparse(base.value)].body
        found: dict[str, list[Signature] | None] = {}
        for member in bodies:
            if isinstance(member, ast.AnnAssign):
                found[ast.unparse(member.target)] = None
            elif isinstance(member, ast.FunctionDef):
                marks = [ast.unparse(mark) for mark in member.decorator_list]
                kind = {"property": "property", "staticmethod": "static"}[marks[0]] if marks else "function"
                found[member.name] = list(self.overloads(member, kind, variable, types))
        return found

    def overloads(self, node: ast.FunctionDef, kind: str, variable: str, types: Sequence[str]) -> Iterator[Signature]:
        """One signature, or one for each type that the variable stands for."""
        plain = signature(node, kind)
        for chosen in types if variable in ast.unparse(node) else [""]:
            words = {**self.aliases, variable: chosen}
            parameters = [(name, self.spelt(kind, words), default) for name, kind, default in plain.parameters]
            yield Signature(plain.kind, parameters, self.spelt(plain.returns, words))

    def spelt(self, text: str, words: dict[str, str]) -> str:
        """A type without aliases and variables."""
        text = text.replace("builtins.", "")
        return re.sub(
            r"\b_\w+", lambda match: self.spelt(words[match[0]], words) if match[0] in words else match[0], text
        )


BUILT = built_names()
WRITTEN = Stub(STUB.read_text()).names()


def test_the_stub_has_the_names_that_were_built() -> None:
    assert set(WRITTEN) == set(BUILT)


@pytest.mark.parametrize("name", [name for name, signatures in BUILT.items() if signatures is not None])
def test_the_stub_has_the_signatures_that_were_built(name: str) -> None:
    built, written = BUILT[name], WRITTEN.get(name)
    assert built is not None
    assert written is not None
    assert len(written) == len(built)
    for one in built:
        assert any(one.agrees(other) for other in written), f"built: {one}\nstub: {written}"
