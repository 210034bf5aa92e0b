"""Partitions of a sum's terms into parts that are handled together."""

import numpy as np
from numpy.typing import NDArray

from .masks import Words, runs, to_bits, unpack

_BLOCK = 1024


def by_flips(x: Words) -> list[NDArray[np.intp]]:
    """Indices of the terms that flip the same bits: a part for each x mask, masks in increasing order."""
    order, starts = runs(x)
    return np.split(order, starts[1:]) if len(order) else []


def qubit_wise_commuting(x: Words, z: Words, order: NDArray[np.intp]) -> list[NDArray[np.intp]]:
    """First-fit parts in which any two strings have, on every qubit, the same letter or an identity.

    Terms are taken in the given order, each into the first part that it fits. A term is not compared with the
    parts one by one: for every factor (qubit and letter) an integer holds, a bit a part, which parts have
    another letter on that qubit. The OR of the integers of a term's factors has its lowest zero at the part
    to take. Bits of the newest parts, which change all the time, live in a second, short table, because to
    set a bit is to copy an integer.
    """
    terms, factors, num_factors = _factors(x, z)
    bounds = np.searchsorted(terms, np.arange(len(x) + 1)).tolist()
    letters = factors.tolist()
    supports = unpack(x | z)
    old, new = [0] * num_factors, [0] * num_factors
    settled = 0  # parts whose bits are in `old`
    full = 0
    part_supports: list[int] = []
    parts: list[list[int]] = []
    for term in order.tolist():
        keys = letters[bounds[term] : bounds[term + 1]]
        clashes = 0
        for key in keys:
            clashes |= old[key]
        table, first = old, 0
        if clashes == full:
            table, first, clashes = new, settled, 0
            for key in keys:
                clashes |= new[key]
        place = (~clashes & (clashes + 1)).bit_length() - 1
        part = first + place
        if part == len(parts):
            parts.append([])
            part_supports.append(0)
        parts[part].append(term)
        support = part_supports[part]
        part_supports[part] |= supports[term]
        bit = 1 << place
        for key in keys:
            qubit, letter = divmod(key, 3)
            if not support >> qubit & 1:
                table[3 * qubit + (letter + 1) % 3] |= bit
                table[3 * qubit + (letter + 2) % 3] |= bit
        if len(parts) - settled > _BLOCK:
            old = [before | after << settled for before, after in zip(old, new)]
            new = [0] * num_factors
            settled = len(parts)
            full = (1 << settled) - 1
    return [np.array(part, dtype=np.intp) for part in parts]


def _factors(x: Words, z: Words) -> tuple[NDArray[np.intp], NDArray[np.intp], int]:
    """All factors, by term: the terms, the factors as 3 * qubit + letter, and the bound of those numbers."""
    x_bits, z_bits = to_bits(x), to_bits(z)
    terms, qubits = np.nonzero(x_bits | z_bits)
    letters = x_bits[terms, qubits] + 2 * z_bits[terms, qubits].astype(np.intp) - 1
    return terms, 3 * qubits + letters, 3 * x_bits.shape[1]
