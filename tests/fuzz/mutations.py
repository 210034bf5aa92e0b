"""Mutations of right inputs: pieces taken out, repeated, moved, or replaced by others."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any


def mutated(pieces: list[Any], others: Sequence[Any], rng: random.Random, most: int = 4) -> list[Any]:
    """A copy of a list of pieces with 1 to `most` changes; `others` are what else may stand there."""
    pieces = list(pieces)
    for _ in range(1 + int(rng.random() * most)):
        place = int(rng.random() * (len(pieces) + 1))
        end = place + int(rng.random() * 4)
        kind = int(rng.random() * 6)
        if kind == 0:
            del pieces[place:end]
        elif kind == 1 and rng.random() < 0.95:
            pieces[place:place] = pieces[place:end] * (1 + int(rng.random() * 3))
        elif kind == 1:
            # Nested or strung together, deeper than any stack.
            pieces[place:place] = pieces[place : place + 1 + int(rng.random() * 14)] * int(rng.random() * 2000)
        elif kind == 2:
            other = int(rng.random() * (len(pieces) + 1))
            pieces[place:place] = pieces[other : other + 8]
        elif kind == 3:
            pieces[place : place + 1] = [rng.choice(others)]
        elif kind == 4:
            pieces.insert(place, rng.choice(others))
        else:
            del pieces[place:]
    return pieces


JUNK: tuple[Any, ...] = (
    *(None, True, False, 0, 1, -1, 2, 3, 8, 64, 255, 0.5, -0.0, 1e308),
    *(2**31, 2**32, 2**53, 2**62, 2**63 - 1, 2**63, -(2**63), 2**64, 10**40),
    *("", "0", "1", "F32", "float32", "complex64", "O", "object", "V8", "a" * 100, "\ud800", "é", "\0"),
    *([], [0], [-1], [0, 1], [2**62, 4], [0, 2**62], [[]], [1] * 70, {}, {"a": 1}, {"dict": {}}, {"list": [1]}),
    *({"float": "nan"}, {"float": 1}, {"tensor": "w"}, {"tuple": []}, {"": ""}),
)
"""JSON values of every kind, and numbers at the edges of what types hold."""


def mutated_json(value: Any, rng: random.Random, chance: float = 0.15) -> Any:
    """A JSON value with parts of it replaced, taken out or added."""
    if rng.random() < chance:
        return rng.choice(JUNK)
    if isinstance(value, dict):
        changed = {key: mutated_json(part, rng, chance) for key, part in value.items()}
        kind = rng.random()
        if kind < chance / 2 and changed:
            del changed[rng.choice(list(changed))]
        elif kind < chance:
            changed[rng.choice(("", "w", "dtype", "tensor", "dict", "a" * 50))] = rng.choice(JUNK)
        return changed
    if isinstance(value, list):
        items = [mutated_json(part, rng, chance) for part in value]
        return mutated(items, JUNK, rng, 1) if rng.random() < chance else items
    if isinstance(value, int) and not isinstance(value, bool) and rng.random() < chance:
        return value + rng.choice((-1, 1, 8, -8, 2**32, 2**63))
    return value


def mutated_bytes(data: bytes, rng: random.Random, most: int = 4) -> bytes:
    """Bytes with a few of them changed, taken out or repeated."""
    changed = bytearray(data)
    for _ in range(1 + int(rng.random() * most)):
        place = int(rng.random() * (len(changed) + 1))
        kind = int(rng.random() * 4)
        if kind == 0:
            changed[place : place + 1] = bytes([int(rng.random() * 256)])
        elif kind == 1:
            del changed[place : place + int(rng.random() * 16)]
        elif kind == 2:
            changed[place:place] = changed[place : place + 1 + int(rng.random() * 16)]
        elif changed:
            changed[place % len(changed)] ^= 1 << int(rng.random() * 8)
    return bytes(changed)
