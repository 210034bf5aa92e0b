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
from threading import Lock, local
from typing import Any, NamedTuple

import numpy as np

from qdist.locks import open_in_forks

from .arrays import FLOAT32, Array, as_dtype, is_half

_LEVELS = 65536  # a mask element takes 16 random bits
_tickets = open_in_forks(Lock())  # two threads never get the same ticket
_NEAR = 4096  # elements; a jump of the generator takes as long as drawing so many


class Span(NamedTuple):
    """The places along one axis of a larger array that an array holds."""

    axis: int
    whole: int
    """Length of the larger array's axis."""
    pieces: tuple[tuple[int, int], ...]
    """(start, stop) of each run of places, in the order in which the array holds them."""


class Ticket(NamedTuple):
    """All that is needed to make one draw again, whole or only the part for a piece of the array."""

    key: tuple[int, int]
    draw: int
    spans: tuple[Span, ...] = ()

    def within(self, *spans: Span) -> Ticket:
        """The same draw for an array that lies at `spans` of the one drawn for."""
        parts = [span for span in spans if span.pieces != ((0, span.whole),)]
        return self._replace(spans=(*self.spans, *parts)) if parts else self


def _drawn_in(dtype: Any) -> tuple[np.dtype, np.dtype]:
    """The dtype that numbers are drawn in, and the one they are given in: half precision is drawn in float32."""
    given = as_dtype(dtype)
    return (FLOAT32 if is_half(given) else given), given


class Generator:
    """A stream of random arrays, on the CPU unless said otherwise.

    Args:
        seed: any non-negative integer.
        rank: folded into the key; equal seeds with different ranks give independent streams.
    """

    def __init__(self, seed: int = 0, rank: int = 0) -> None:
        if not (hasattr(seed, "__index__") and hasattr(rank, "__index__")):
            raise TypeError(f"seed and rank are whole numbers, got seed={seed!r}, rank={rank!r}")
        if seed < 0 or rank < 0:
            raise ValueError(f"seed and rank must not be negative, got seed={seed}, rank={rank}")
        words = np.random.SeedSequence(seed, spawn_key=(rank,)).generate_state(2, np.uint64)
        self._key = (int(words[0]), int(words[1]))
        self._draw = 0

    def ticket(self) -> Ticket:
        """The right to one draw; the next call gives another."""
        with _tickets:
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
        made, dtype = _drawn_in(dtype)
        values = _numpy(self.ticket()).random(shape, dtype=made)
        return (values * made.type(high - low) + made.type(low)).astype(dtype, copy=False)

    def normal(self, shape: tuple[int, ...], mean: float = 0.0, std: float = 1.0, dtype: Any = FLOAT32) -> Array:
        """Normally distributed numbers."""
        made, dtype = _drawn_in(dtype)
        values = _numpy(self.ticket()).standard_normal(shape, dtype=made)
        return (values * made.type(std) + made.type(mean)).astype(dtype, copy=False)

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
    so the expectation is exact. Returns a bool array of `shape`, False with probability p, and the factor. Where the
    ticket has spans, the array is that part of the mask of the larger array.
    """
    dropped = min(round(p * _LEVELS), _LEVELS - 1)
    whole = _larger(shape, ticket.spans)
    if xp is np:
        partly = ticket.spans and 0 not in shape
        bits = _part(ticket, shape, whole) if partly else _bits(ticket, 0, math.prod(shape)).reshape(shape)
    else:
        seed = np.random.SeedSequence([*ticket.key, ticket.draw]).generate_state(1, np.uint64)[0]
        stream = xp.random.Generator(xp.random.Philox4x3210(int(seed)))
        bits = stream.integers(0, _LEVELS, size=math.prod(whole), dtype=xp.uint32).reshape(whole)
        for span in ticket.spans:
            bits = bits.take(xp.asarray(_places(span)), axis=span.axis)
    return bits >= dropped, _LEVELS / (_LEVELS - dropped)


def _bits(ticket: Ticket, start: int, count: int) -> Array:
    """`count` numbers of 16 bits from number `start` of the draw on; the generator gives 16 a step and can jump."""
    step, skip = divmod(start, 16)
    stream = np.random.Philox(key=ticket.key, counter=(step, 0, ticket.draw, 0))
    return stream.random_raw(-(-(skip + count) // 4)).view(np.uint16)[skip : skip + count]


def _part(ticket: Ticket, shape: tuple[int, ...], whole: tuple[int, ...]) -> Array:
    """The bits at the ticket's spans, without most of the others: run by run of what the spans hold side by side."""
    spans = {span.axis: span for span in ticket.spans}
    last = max(spans)
    rows = np.zeros(1, np.int64)
    for axis in range(last):
        places = _places(spans[axis]) if axis in spans else np.arange(whole[axis])
        rows = (rows[:, None] * whole[axis] + places).reshape(-1)
    # First and last place of every run, in the order of the result.
    bounds = rows[:, None, None] * whole[last] + np.array(spans[last].pieces)
    starts, stops = (bounds * math.prod(whole[last + 1 :])).reshape(-1, 2).T
    jumps = np.flatnonzero((starts[1:] < stops[:-1]) | (starts[1:] - stops[:-1] > _NEAR)) + 1
    out = np.empty(math.prod(shape), np.uint16)
    filled = 0
    for begins, ends in zip(np.split(starts, jumps), np.split(stops, jumps)):
        bits = _bits(ticket, int(begins[0]), int(ends[-1] - begins[0]))
        for begin, end in zip((begins - begins[0]).tolist(), (ends - begins[0]).tolist()):
            out[filled : filled + end - begin] = bits[begin:end]
            filled += end - begin
    return out.reshape(shape)


def _places(span: Span) -> Array:
    return np.concatenate([np.arange(start, stop) for start, stop in span.pieces])


def _larger(shape: tuple[int, ...], spans: tuple[Span, ...]) -> tuple[int, ...]:
    """The shape of the array that an array of `shape` is part of."""
    whole = list(shape)
    for span in spans:
        held = sum(stop - start for start, stop in span.pieces)
        if held != shape[span.axis]:
            raise ValueError(f"axis {span.axis} of shape {shape} does not have the {held} places of {span}")
        whole[span.axis] = span.whole
    return tuple(whole)


_default = Generator(0)


class Place:
    """Where the arrays of a forward pass lie in those of the whole batch, which ranks or micro-batches divide.

    Masks that are drawn within `placed` are this part of what one process would draw for the whole batch.
    """

    def __init__(
        self,
        rows: tuple[int, int, int] | None = None,
        positions: Array | None = None,
        generator: Generator | None = None,
    ) -> None:
        self._rows, self.positions, self._generator = rows, positions, generator
        self.asked_for_positions = False

    @property
    def rows(self) -> tuple[int, int, int] | None:
        """(first, behind the last, all): the rows of the batch, the first axis; None if all are here."""
        return self._rows

    @property
    def generator(self) -> Generator | None:
        """What is drawn from; None for the default generator."""
        return self._generator

    positions: Array | None
    """The numbers, in the whole sequence, of the positions that this rank has; None if it has all."""


class _Using(local):
    """What this thread draws from instead: see using() and placed()."""

    generator: Generator | None = None
    place: Place | None = None


_using = _Using()


def default_generator() -> Generator:
    """The generator that initialisers, dropout and the functions of this module draw from."""
    if _using.place is not None and (own := _using.place.generator) is not None:
        return own
    return _default if _using.generator is None else _using.generator


def ticket(shape: tuple[int, ...], *spans: Span) -> Ticket:
    """The right to one draw for an array of `shape` that lies at `spans` of a larger one.

    Within `placed`, an array whose first axis is as long as the batch has rows here, or a multiple (rows and positions
    flattened together), is that part of the whole batch's. Any other is taken to be the same everywhere.
    """
    drawn = default_generator().ticket().within(*spans)
    rows = None if _using.place is None else _using.place.rows
    if rows is None or not shape or any(span.axis == 0 for span in spans):
        return drawn
    first, behind, whole = rows
    each, rest = divmod(shape[0], behind - first) if behind > first else (0, 0)
    if rest or not each:
        return drawn
    return drawn.within(Span(0, whole * each, ((first * each, behind * each),)))


def skip(draws: int) -> None:
    """Goes on from where so many more draws would have come."""
    for _ in range(draws):
        default_generator().ticket()


def manual_seed(seed: int, rank: int = 0) -> Generator:
    """Restart the default generator.

    Give every rank the same seed and rank=0 for equal numbers everywhere (initial weights), its own rank for
    independent ones (dropout, data).
    """
    global _default
    generator = Generator(seed, rank)
    if _using.generator is None:
        _default = generator
    else:
        _using.generator = generator
    return generator


@contextmanager
def using(generator: Generator) -> Iterator[Generator]:
    """Draw from `generator` instead of the default one inside the block, in this thread."""
    previous, _using.generator = _using.generator, generator
    try:
        yield generator
    finally:
        _using.generator = previous


@contextmanager
def placed(place: Place | None) -> Iterator[None]:
    """Arrays inside the block are the part of a batch that `place` says; None is all of it."""
    previous, _using.place = _using.place, place
    try:
        yield
    finally:
        _using.place = previous


def place() -> Place | None:
    """What the innermost `placed` of this thread says."""
    return _using.place


def get_state() -> dict[str, Any]:
    """The default generator's state (three integers)."""
    return default_generator().state_dict()


def set_state(state: dict[str, Any]) -> None:
    """Continue the default generator from a saved state."""
    default_generator().load_state_dict(state)
