"""Pauli strings as text, "X0 Y2" (letter and qubit) or "XIYZ" (a label, highest qubit first); sums, "0.5*Z0 - X2"."""

import re
from functools import lru_cache
from typing import NoReturn

from ..errors import CircuitError
from .masks import MAX_QUBITS

_FACTOR = re.compile(r"([IXYZ])([0-9]+)")
_TERM = re.compile(
    r"\s*(?P<sign>[+-]?)\s*(?:(?P<factor>[0-9.]+(?:[eE][+-]?[0-9]+)?)\s*\*?\s*)?(?P<paulis>[IXYZ][IXYZ0-9 ]*)?"
)
_X_DIGITS = str.maketrans("IXYZ", "0110")
_Z_DIGITS = str.maketrans("IXYZ", "0011")
_LETTERS = "IXZY"  # indexed by x + 2 z


def parse(text: str) -> tuple[int, int]:
    """The (x, z) masks of a Pauli string.

    Raises CircuitError, with the position, for text that is neither factors like "X0 Y2" nor a label like
    "XIYZ", for a qubit that appears twice and for a qubit number past the limit.
    """
    if not text.strip("IXYZ"):
        if len(text) > MAX_QUBITS:
            raise CircuitError(f"a label of {len(text)} letters; at most {MAX_QUBITS} qubits are supported")
        digits = "0" + text
        return int(digits.translate(_X_DIGITS), 2), int(digits.translate(_Z_DIGITS), 2)
    x = z = used = 0
    for factor in text.split():
        masks = _factor_masks(factor)
        if masks is None or used & masks[2]:
            _refuse(text)
        x |= masks[0]
        z |= masks[1]
        used |= masks[2]
    return x, z


def parse_sum(text: str) -> list[tuple[str, float]]:
    """The Pauli strings, as text, and coefficients of a sum: "0.5*Z0 Z1 - 1.5 X1 X2 + 2".

    Text without a sign and a coefficient is one string. Raises CircuitError, which names the place, for what is no sum.
    """
    if not re.search(r"[-+*]|^\s*[0-9.]", text):
        return [(text, 1.0)]
    terms: list[tuple[str, float]] = []
    at = 0
    while at < len(text.rstrip()):
        found = _TERM.match(text, at)
        written = found is not None and (found["factor"] or found["paulis"])
        if found is None or not written or (terms and not found["sign"]):
            raise CircuitError(
                f"{text[at:].strip()[:20]!r} is no term of a sum of Pauli strings; write it as 0.5*Z0 Z1 - X2"
            )
        try:
            factor = float(found["factor"] or 1.0)
        except ValueError:
            raise CircuitError(f"{found['factor']!r} in a sum of Pauli strings is no number") from None
        terms.append(((found["paulis"] or "").strip(), -factor if found["sign"] == "-" else factor))
        at = found.end()
    return terms


# The same few factors come back in every string of a Hamiltonian; the cache makes 1e5 strings quick to read.
@lru_cache(maxsize=1 << 14)
def _factor_masks(factor: str) -> tuple[int, int, int] | None:
    match = _FACTOR.fullmatch(factor)
    if match is None or len(match[2]) > 9 or int(match[2]) >= MAX_QUBITS:
        return None
    bit = 1 << int(match[2])
    return bit * (match[1] in "XY"), bit * (match[1] in "ZY"), bit


def _refuse(text: str) -> NoReturn:
    """Raise the error for the first factor of `text` that cannot be read."""
    used = 0
    for found in re.finditer(r"\S+", text):
        masks = _factor_masks(found[0])
        where = f"{found[0]!r} at position {found.start()} of the Pauli string {text!r}"
        if masks is None and _FACTOR.fullmatch(found[0]):
            raise CircuitError(f"{where}: the qubit number must be below {MAX_QUBITS}")
        if masks is None:
            raise CircuitError(
                f"{where}: expected I, X, Y or Z and a qubit number, as in 'X0 Y2', or a label of letters "
                "alone, highest qubit first, as in 'XIYZ'"
            )
        if used & masks[2]:
            raise CircuitError(
                f"{where}: qubit {found[0][1:]} appears twice; multiply operators with @, "
                "as in PauliString('X0') @ PauliString('Y0')"
            )
        used |= masks[2]
    raise AssertionError(f"{text!r} is a valid Pauli string")


def letter(x: int, z: int, qubit: int) -> str:
    """The letter that a string has on one qubit."""
    return _LETTERS[(x >> qubit & 1) + 2 * (z >> qubit & 1)]


def qubits_of(mask: int) -> list[int]:
    """The set bits of a mask, in increasing order."""
    qubits = []
    while mask:
        low = mask & -mask
        qubits.append(low.bit_length() - 1)
        mask ^= low
    return qubits


def factors(x: int, z: int) -> str:
    """The masks as "X0 Y2"; the identity is "I"."""
    return " ".join(f"{letter(x, z, q)}{q}" for q in qubits_of(x | z)) or "I"


def label(x: int, z: int, num_qubits: int) -> str:
    """The masks as a label of `num_qubits` letters, highest qubit first."""
    return "".join(letter(x, z, q) for q in reversed(range(num_qubits)))


def coefficient(value: complex) -> str:
    """A coefficient as short text: real where it is real."""
    if value.imag == 0:
        return f"{value.real:.10g}"
    if value.real == 0:
        return f"{value.imag:.10g}j"
    return f"({value.real:.10g}{value.imag:+.10g}j)"
