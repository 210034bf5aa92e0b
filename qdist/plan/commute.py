"""The one rule for what may pass what; native/src/search/commute.hpp has the same rule for the searches in C++.

On a qubit an operation acts like Z (it commutes with Z: controls, diagonals), like X (it commutes with X), or like
neither. Two may pass each other if on every qubit that they share both act like Z, or both like X.
"""

from __future__ import annotations

from typing import Protocol

__all__ = ["Action", "Stops", "acts", "commute", "stops"]

ByKind = tuple[int, int, int]
"""Masks of qubits: of those on which something acts like Z, like X, and like neither."""


class Action(Protocol):
    """What an operation or a block does to qubits, as masks of them."""

    @property
    def mixes(self) -> int: ...
    @property
    def x_like(self) -> int: ...
    @property
    def z_like(self) -> int: ...
    @property
    def all(self) -> int: ...


def acts(action: Action) -> ByKind:
    """The qubits on which it acts in each way."""
    return action.z_like, action.x_like, action.mixes & ~action.x_like


def stops(action: Action) -> ByKind:
    """The qubits on which it may not be passed by what acts in each way there."""
    return action.mixes, action.all & ~action.x_like, action.all


class Stops:
    """What may not pass those that have been added."""

    __slots__ = ("_all", "_x", "_z")

    def __init__(self) -> None:
        self._z = self._x = self._all = 0

    def add(self, action: Action) -> None:
        z, x, every = stops(action)
        self._z, self._x, self._all = self._z | z, self._x | x, self._all | every

    def stop(self, action: Action) -> bool:
        """Whether it may not pass one of them."""
        z, x, neither = acts(action)
        return bool(z & self._z | x & self._x | neither & self._all)


def commute(a: Action, b: Action) -> bool:
    """Whether they may pass each other."""
    (z, x, neither), (stops_z, stops_x, stops_all) = acts(a), stops(b)
    return not z & stops_z | x & stops_x | neither & stops_all
