"""Checks of qubit and classical-bit numbers, and the broadcast of sequences of them."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from .errors import CircuitError
from .gate import Gate


def check_count(number: Any, what: str) -> int:
    try:
        count = operator.index(number)
    except TypeError:
        count = -1
    if count < 0:
        raise CircuitError(f"the number of {what} must be an int >= 0; got {number!r}")
    return count


def as_tuple(wires: Any) -> tuple[Any, ...]:
    if type(wires) is tuple:
        return wires
    return tuple(wires) if _is_sequence(wires) else (wires,)


def _is_sequence(wires: Any) -> bool:
    # Arrays without axes (of NumPy, CuPy, torch) have the methods of a sequence, and are numbers.
    return isinstance(wires, Iterable) and getattr(wires, "ndim", None) != 0


def check_wires(wires: Sequence[Any], limit: int, what: str, user: str, way_out: str = "") -> tuple[int, ...]:
    """`wires` as ints. Raises CircuitError where one is no int, out of range (then with the way out), or repeated."""
    checked = []
    for wire in wires:
        try:
            number = operator.index(wire)
        except TypeError:
            raise CircuitError(f"a {what} of {user} must be an int; got {wire!r}") from None
        if not 0 <= number < limit:
            valid = f"{what}s 0 to {limit - 1}" if limit else f"no {what}s"
            raise CircuitError(f"{what} {number} of {user} is out of range: the circuit has {valid}{way_out}")
        checked.append(number)
    if len(set(checked)) != len(checked):
        raise CircuitError(f"the {what}s of {user} must be different; got {checked}")
    return tuple(checked)


def broadcast(gate: Gate, wires: tuple[Any, ...]) -> Iterator[tuple[Any, ...]]:
    """One tuple of wires for each application of the gate: sequences in step, single wires repeated."""
    columns = [tuple(wire) if _is_sequence(wire) else None for wire in wires]
    lengths = {len(column) for column in columns if column is not None}
    if not lengths:
        return iter((wires,))
    if len(lengths) > 1:
        raise CircuitError(f"sequences of wires of {gate.name} must be equally long; got lengths {sorted(lengths)}")
    (length,) = lengths
    return zip(*((wire,) * length if column is None else column for wire, column in zip(wires, columns)))


def wire_map(chosen: Sequence[int] | None, needed: int, limit: int, what: str) -> tuple[int, ...]:
    wires = tuple(range(needed)) if chosen is None else as_tuple(chosen)
    if len(wires) != needed:
        raise CircuitError(f"the circuit to compose has {needed} {what}s; {len(wires)} were given for them")
    if chosen is None and needed > limit:
        raise CircuitError(f"the circuit to compose has {needed} {what}s, more than the {limit} of this one")
    return check_wires(wires, limit, what, "compose")
