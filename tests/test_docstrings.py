"""Every public name says what it is: what `pdoc` makes the reference of."""

import doctest
import importlib
import inspect
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import qdist as qd

MODULES = [
    "qdist",
    "qdist.circuit.library",
    *(f"qdist.{name}" for name in ("checkpoint", "circuit", "comm", "data", "nn", "noise", "optim")),
    *(
        f"qdist.{name}"
        for name in ("parallel", "parallel.auto", "plan", "plots", "program", "state", "tensor", "training")
    ),
]
"""What programs import."""

INTERFACES = {
    "torch": "torch",
    "jax": "jax",
    "pennylane": "pennylane",
    "qiskit": "qiskit",
    "torch_distributed": "torch",
}
"""Interfaces to other packages, and which those are."""

WITHOUT_THE_PACKAGE = ("mindspore", "paddle", "vqnet")
"""Interfaces that stand in the place of theirs."""

WITH_EXAMPLES = [
    "Circuit",
    "Hermitian",
    "Parameter",
    "ParameterVector",
    "PauliString",
    "PauliSum",
    "Probabilities",
    "Program",
    "StateVector",
    "Tensor",
    "compile",
    "generator_gate",
    "matrix_gate",
    "simulate",
    "spawn",
]
"""Names of qdist with which programs begin."""


def members(owner: type) -> Iterator[tuple[str, Any]]:
    """Public methods and properties of a class that are written in qdist."""
    for name in dir(owner):
        member = inspect.getattr_static(owner, name)
        function = member.fget if isinstance(member, property) else getattr(member, "__func__", member)
        home = getattr(inspect.unwrap(function) if callable(function) else function, "__module__", "") or ""
        if (
            not name.startswith("_")
            and home.startswith("qdist")
            and (callable(function) or isinstance(member, property))
        ):
            yield name, getattr(owner, name)


@pytest.mark.parametrize("name", MODULES)
def test_every_public_name_has_a_docstring(name: str) -> None:
    assert undocumented(name) == []


@pytest.mark.parametrize("name", [*INTERFACES, *WITHOUT_THE_PACKAGE])
def test_every_name_of_an_interface_has_a_docstring(name: str) -> None:
    if name in INTERFACES:
        pytest.importorskip(INTERFACES[name])
    assert undocumented(f"qdist.interop.{name}") == []


def undocumented(name: str) -> list[str]:
    """Public names of a module, and of its classes, that say nothing of themselves."""
    module = importlib.import_module(name)
    missing = [] if inspect.getdoc(module) else [name]
    for public in module.__all__:
        given = getattr(module, public)
        if not (inspect.isclass(given) or callable(given)) or not str(given.__module__).startswith("qdist"):
            continue
        # A class without one of its own would show that of dict, tuple or its base class.
        if not (given.__doc__ if inspect.isclass(given) else inspect.getdoc(given)):
            missing.append(public)
        if inspect.isclass(given):
            missing += [f"{public}.{member}" for member, found in members(given) if not inspect.getdoc(found)]
    return missing


@pytest.mark.parametrize("name", WITH_EXAMPLES)
def test_what_programs_begin_with_has_an_example_that_runs(name: str) -> None:
    public = {own: getattr(qd, own) for own in qd.__all__}  # Not vars(qd): what nobody has asked for is not there yet.
    names = public | vars(qd.comm) | {"qd": qd, "np": np, "__name__": "__main__"}
    example = doctest.DocTestParser().get_doctest(inspect.getdoc(getattr(qd, name)) or "", names, name, None, 0)
    assert example.examples
    output: list[str] = []
    doctest.DocTestRunner(verbose=False).run(example, out=output.append)
    assert output == []
