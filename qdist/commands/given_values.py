"""Parameters and observables as they are written on a command line."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from qdist.circuit import Circuit, CircuitError, PauliSum, qasm
from qdist.circuit.qasm.errors import QasmError

__all__ = ["observable", "with_values"]


def with_values(circuit: Circuit, settings: Sequence[str]) -> Circuit:
    """The circuit with the values of ``--param NAME=VALUE`` in the place of its input parameters.

    Raises ValueError, which names the option, for what is no value, for names that the circuit does not have, and for
    parameters that are left without a value.
    """
    values: dict[str, Any] = {}
    for setting in settings:
        name, equals, text = setting.partition("=")
        if not equals:
            raise ValueError(f"--param {setting}: write it as NAME=VALUE, as in --param theta=0.3")
        if name in values:
            raise ValueError(f"--param {setting}: {name} is given twice")
        values[name] = _value(setting, text)
        try:
            circuit.bind({name: values[name]}, partial=True)
        except CircuitError as error:
            raise ValueError(f"--param {setting}: {error}") from None
    given = circuit.bind(values, partial=True)
    if given.parameters:
        missing = [parameter.name for parameter in given.parameters]
        way_out = " ".join(f"--param {name}=0.3" for name in missing[:3])
        raise ValueError(f"the circuit has input parameters without a value: {', '.join(missing)}; give {way_out}")
    return given


def _value(setting: str, text: str) -> Any:
    """A number, or for a vector a list: 0.1,pi/2 or [0.1, 0.2], or what is in @FILE, as .json or .npy."""
    if text.startswith("@"):
        return _read(setting, Path(text[1:]))
    inside = text.strip()
    is_list = inside.startswith("[") and inside.endswith("]")
    parts = _split(inside[1:-1] if is_list else inside)
    numbers = [_number(setting, part) for part in parts]
    return numbers if is_list or len(numbers) > 1 else numbers[0]


def _split(text: str) -> list[str]:
    """At commas outside of parentheses."""
    parts, depth = [""], 0
    for character in text:
        depth += (character == "(") - (character == ")")
        if character == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += character
    return parts


def _number(setting: str, text: str) -> float:
    """A number, or an expression of OpenQASM that has a value."""
    try:
        (phase,) = qasm.loads(f"OPENQASM 3.0; qubit q; gphase({text});")
        return float(phase.params[0])  # type: ignore[arg-type]
    except (CircuitError, ValueError, TypeError) as error:
        if isinstance(error, QasmError) and text.strip():
            raise ValueError(f"--param {setting}: {text!r} is not a number in OpenQASM: {error.message}") from None
        raise ValueError(f"--param {setting}: {text!r} is not a number; write one as 0.3 or pi/2") from None


def _read(setting: str, path: Path) -> Any:
    if path.suffix == ".npy":
        try:
            array = np.load(path, allow_pickle=False)
        except (EOFError, ValueError):
            raise ValueError(f"--param {setting}: {path} is not an array of NumPy's; write one by numpy.save") from None
    elif path.suffix == ".json":
        try:
            array = np.asarray(json.loads(path.read_text()), float)
        except (RecursionError, TypeError, ValueError):
            raise ValueError(f"--param {setting}: {path} has no list of numbers") from None
    else:
        raise ValueError(f"--param {setting}: files of values end in .json or .npy")
    if array.dtype.kind not in "fiu" or array.ndim > 1:
        raise ValueError(f"--param {setting}: {path} has {array.dtype} of shape {array.shape}; a row of real numbers")
    return array.tolist()


def observable(text: str) -> PauliSum:
    """A sum of Pauli strings: ``Z0 Z1``, ``0.5*Z0 - 1.5 X1 X2 + 2``; with ``@FILE`` what is there, a term a line.

    Raises ValueError, which names the option and the place, for text that is none.
    """
    where = f"--observable {text}"
    if text.startswith("@"):
        path = Path(text[1:])
        try:
            lines = [line.strip() for line in path.read_text(encoding="utf-8").splitlines()]
        except UnicodeDecodeError:
            raise ValueError(f"{where}: this is no text file") from None
        text = " ".join(line if line[0] in "+-" else f"+ {line}" for line in lines if line and line[0] != "#")
    if not text.strip():
        raise ValueError(f"{where}: no term; write a sum of Pauli strings as 0.5*Z0 Z1 - X2")
    try:
        return PauliSum(text)
    except CircuitError as error:
        raise ValueError(f"{where}: {error}") from None
