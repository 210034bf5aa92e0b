"""Random numbers that can be drawn again.

A Generator hands out tickets: (key, number of the draw). Philox is counter-based, so a ticket alone
determines every number drawn with it: a dropout mask can be made a second time during recomputation, and the
whole state of a generator is three integers. Different ranks fold their rank into the key and get independent
streams.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np

from .arrays import FLOAT32, Array

_LEVELS = 65536  # a mask element takes 16 random bits


class Ticket(NamedTuple):
    """All that is needed to make one draw again."""

    key: tuple[int, int]
    draw: int


class Generator:
    """A stream of random arrays, on the CPU unless said otherwise.

    Args:
        seed: any non-negative integer.
        rank: folded into the key; equal seeds with different ranks give independent streams.
    """

    def __init__(self, seed: int = 0, rank: int = 0) -> None:
        if seed < 0 or rank < 0:
            raise ValueError(f"seed and rank must not be negative, got seed={seed}, rank={rank}")
        words = np.random.SeedSequence(seed, spawn_key=(rank,)).generate_state(2, np.uint64)
        self._key = (int(words[0]), int(words[1]))
        self._draw = 0

    def ticket(self) -> Ticket:
        """The right to one draw; the next call gives another."""
        self._draw += 1
        return Ticket(self._key, self._draw)

    def state_dict(self) -> dict[str, Any]:
        """The state as plain integers, for a checkpoint."""
        return {"key": list(self._key), "draw": self._draw}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from a saved state: the next draw is the one that would have come next there."""
        first, second = state["key"]
        self._key = (int(first), int(second))
        self._draw = int(state["draw"])

    def uniform(self, shape: tuple[int, ...], low: float = 0.0, high: float = 1.0, dtype: Any = FLOAT32) -> Array:
        """Numbers in [low, high)."""
        dtype = np.dtype(dtype)
        values = _numpy(self.ticket()).random(shape, dtype=dtype)
        return values * dtype.type(high - low) + dtype.type(low)

    def normal(self, shape: tuple[int, ...], mean: float = 0.0, std: float = 1.0, dtype: Any = FLOAT32) -> Array:
        """Normally distributed numbers."""
        dtype = np.dtype(dtype)
        values = _numpy(self.ticket()).standard_normal(shape, dtype=dtype)
        return values * dtype.type(std) + dtype.type(mean)

    def integers(self, low: int, high: int, shape: tuple[int, ...]) -> Array:
        """int64 numbers in [low, high)."""
        return _numpy(self.ticket()).integers(low, high, size=shape)

    def permutation(self, n: int) -> Array:
        """0 ... n-1 in random order, int64."""
        return _numpy(self.ticket()).permutation(n)


def _numpy(ticket: Ticket) -> np.random.Generator:
    # Each draw owns 2^128 counter values: the draw number sits in the third 64-bit word of the counter.
    return np.random.Generator(np.random.Philox(key=ticket.key, counter=(0, 0, ticket.draw, 0)))


def keep_mask(xp: Any, ticket: Ticket, shape: tuple[int, ...], p: float) -> tuple[Array, float]:
    """A dropout mask and the factor for what is kept.

    p is rounded to a multiple of 1/65536 and the factor is the reciprocal of the probability then in force,
    so the expectation is exact. Returns a bool array of `shape`, False with probability p, and the factor.
    """
    dropped = min(round(p * _LEVELS), _LEVELS - 1)
    count = math.prod(shape)
    if xp is np:
        words = np.random.Philox(key=ticket.key, counter=(0, 0, ticket.draw, 0)).random_raw(-(-count // 4))
        bits = words.view(np.uint16)[:count]
    else:
        seed = np.random.SeedSequence([*ticket.key, ticket.draw]).generate_state(1, np.uint64)[0]
        stream = xp.random.Generator(xp.random.Philox4x3210(int(seed)))
        bits = stream.integers(0, _LEVELS, size=count, dtype=xp.uint32)
    return (bits >= dropped).reshape(shape), _LEVELS / (_LEVELS - dropped)


_default = Generator(0)


def default_generator() -> Generator:
    """The generator that initialisers, dropout and the functions of this module draw from."""
    return _default


def manual_seed(seed: int, rank: int = 0) -> Generator:
    """Restart the default generator.

    Give every rank the same seed and rank=0 for equal numbers everywhere (initial weights), its own rank for
    independent ones (dropout, data).
    """
    global _default
    _default = Generator(seed, rank)
    return _default


@contextmanager
def using(generator: Generator) -> Iterator[Generator]:
    """Draw from `generator` instead of the default one inside the block."""
    global _default
    previous, _default = _default, generator
    try:
        yield generator
    finally:
        _default = previous


def get_state() -> dict[str, Any]:
    """The default generator's state (three integers)."""
    return _default.state_dict()


def set_state(state: dict[str, Any]) -> None:
    """Continue the default generator from a saved state."""
    _default.load_state_dict(state)
