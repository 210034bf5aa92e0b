"""Expectation values from shots, as a device would measure them, with standard errors.

The strings of all observables are put into groups that share a measurement basis on every qubit; a group gets shots in
proportion to the sum of the sizes of its coefficients. Groups are independent, so their variances add up.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from qdist.backends.errors import StateError
from qdist.circuit import PauliString, PauliSum
from qdist.state.checking import checks, same
from qdist.state.measuring.expectation import Observable, as_hermitian_sum, as_pauli_sum
from qdist.state.measuring.measure import Seed, generator
from qdist.state.measuring.rotated import ReadoutError, flip_probabilities, parity_signs, sampled
from qdist.state.recent import Recent
from qdist.state.shards import Shards
from qdist.terminal import stdout_writes

__all__ = ["Estimate", "Estimates", "Groups", "check_exact", "estimates", "groups_of"]

_FEWEST = 2
"""Shots of a group: one has no variance."""
_MOST_GROUPS = 64
"""Sets of observables whose groups are kept."""


class Estimate(float):
    """A mean over shots: a float that also has its ``standard_error`` and the number of ``shots``."""

    standard_error: float
    shots: int

    def __new__(cls, value: float, standard_error: float, shots: int) -> Self:
        result = super().__new__(cls, value)
        result.standard_error, result.shots = float(standard_error), shots
        return result

    def __repr__(self) -> str:
        return f"{float(self):.6g} {'±' if stdout_writes('±') else '+-'} {self.standard_error:.2g}"

    __str__ = __repr__

    def __reduce__(self) -> tuple[Any, ...]:
        return Estimate, (float(self), self.standard_error, self.shots)


class Estimates(np.ndarray):
    """Several means over shots: an array that also has their ``standard_error``, of its shape, and ``shots``.

    Copies, and parts in any order or shape, keep the errors of their numbers; one number is an ``Estimate``. Results of
    arithmetic are plain arrays.
    """

    standard_error: NDArray[np.float64]
    shots: int

    @classmethod
    def of(cls, values: Any, standard_error: Any, shots: int) -> Estimates:
        return cls._with(np.array(values, np.float64), np.array(standard_error, np.float64), shots)

    @classmethod
    def _with(cls, values: NDArray[Any], standard_error: NDArray[np.float64], shots: int) -> Estimates:
        result = values.view(cls)
        result.standard_error, result.shots = standard_error, shots
        return result

    def __array_wrap__(self, array: Any, context: Any = None, return_scalar: bool = False) -> Any:
        return np.asarray(array)[()]

    @property
    def _has_errors(self) -> bool:
        """Not where NumPy made this of others, by joining or converting them."""
        return "standard_error" in self.__dict__

    def __reduce__(self) -> Any:
        if not self._has_errors:
            return np.asarray(self).__reduce__()
        return Estimates._with, (np.asarray(self), self.standard_error, self.shots)

    @property
    def T(self) -> Estimates:  # type: ignore[override]
        return self.transpose()

    def sort(self, axis: int = -1, **options: Any) -> None:  # type: ignore[override]
        self._reorder(np.asarray(self).argsort(axis, **options), axis)

    def partition(self, kth: Any, axis: int = -1, **options: Any) -> None:  # type: ignore[override]
        self._reorder(np.asarray(self).argpartition(kth, axis, **options), axis)

    def _reorder(self, order: NDArray[np.intp], axis: int) -> None:
        self[...] = np.take_along_axis(np.asarray(self), order, axis)
        if self._has_errors:
            self.standard_error = np.take_along_axis(self.standard_error, order, axis)


def _moves(name: str) -> Callable[..., Any]:
    """A method of arrays that only moves numbers, or leaves some out: their errors move along."""
    move = getattr(np.ndarray, name)

    def moved(self: Estimates, *args: Any, **options: Any) -> Any:
        values = move(np.asarray(self), *args, **options)
        if not self._has_errors:
            return values
        errors = move(self.standard_error, *args, **options)
        return (Estimates._with if isinstance(values, np.ndarray) else Estimate)(values, errors, self.shots)

    return moved


_MOVES = (
    *("__copy__", "__deepcopy__", "__getitem__", "compress", "copy", "diagonal", "flatten", "ravel", "repeat"),
    *("reshape", "squeeze", "swapaxes", "take", "transpose"),
)
for _name in _MOVES:
    setattr(Estimates, _name, _moves(_name))


class _Group(NamedTuple):
    letters: str
    """The measurement basis of each qubit."""
    masks: list[int]
    """The qubits of each string."""
    coefficients: NDArray[np.float64]
    """(strings, observables)"""


class Groups:
    """Observables in groups of strings that are measured together. Raises StateError for what is not Hermitian."""

    def __init__(self, observables: Sequence[Observable], num_qubits: int) -> None:
        sums = [as_hermitian_sum(observable, num_qubits) for observable in observables]
        self.constants = np.zeros(len(sums))
        found: dict[PauliString, NDArray[np.float64]] = {}
        for k, one in enumerate(sums):
            for string, coefficient in one.simplify():
                if not string.weight:
                    self.constants[k] += coefficient.real
                else:
                    found.setdefault(string, np.zeros(len(sums)))[k] += coefficient.real
        total = PauliSum([(string, float(np.abs(row).sum())) for string, row in found.items()])
        self.groups: list[_Group] = []
        for part in total.group_qubit_wise_commuting():
            basis = part.measurement_basis()
            letters = "".join(_letter(basis, q) for q in range(num_qubits))
            strings = [string for string, _ in part]
            rows = np.array([found[string] for string in strings])
            self.groups.append(_Group(letters, [string.x | string.z for string in strings], rows))

    def shares(self, shots: int) -> list[int]:
        """How many of the shots each group gets: in proportion to its weight, and at least two."""
        count = len(self.groups)
        if shots < _FEWEST * count or shots < 1:
            raise StateError(
                f"shots={shots}: the strings of the observables need {count} measurement bases, and each at least "
                f"{_FEWEST} shots: give at least {max(1, _FEWEST * count)}"
            )
        weights = np.array([float(np.abs(g.coefficients).sum()) for g in self.groups])
        if not count:
            return []
        wanted = weights / weights.sum() * shots
        found = np.maximum(np.floor(wanted).astype(int), _FEWEST)
        while found.sum() != shots:
            step = 1 if found.sum() < shots else -1
            lack = np.where((found > _FEWEST) | (step > 0), step * (wanted - found), -np.inf)
            found[int(np.argmax(lack))] += step
        return [int(n) for n in found]

    def measured(
        self, sv: Shards, shots: int, rng: np.random.Generator, flips: NDArray[np.float64] | None = None
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """The values of all observables and their standard errors, in a state that is the same for all shots."""
        values, variances = self.constants.copy(), np.zeros(len(self.constants))
        for group, count in zip(self.groups, self.shares(shots)):
            samples = sampled(sv, group.letters, count, rng, flips)
            energies = parity_signs(samples, group.masks) @ group.coefficients
            values += energies.mean(axis=0)
            variances += energies.var(axis=0, ddof=1) / count
        return values, np.sqrt(variances)


_groups: Recent[Groups] = Recent(_MOST_GROUPS)


def groups_of(observables: Sequence[Observable], num_qubits: int) -> Groups:
    """The groups of observables, found again by what these say."""
    key = num_qubits, *(as_pauli_sum(observable, num_qubits).key for observable in observables)
    found = _groups.get(key)
    if found is None:
        found = Groups(observables, num_qubits)
        _groups.put(key, found)
    return found


def estimates(
    sv: Shards, observables: Sequence[Observable], shots: int, seed: Seed, readout_error: ReadoutError = None
) -> Estimates:
    """The expectation values of several observables from the same shots."""
    number = checks.checked_shots(shots)
    groups = groups_of(observables, sv.num_qubits)
    same.arguments(sv.comm, "number of shots", number)
    flips = flip_probabilities(readout_error, sv.num_qubits, sv.comm)
    values, errors = groups.measured(sv, number, generator(sv.comm, seed), flips)
    return Estimates.of(values, errors, number)


def check_exact(seed: Seed, readout_error: ReadoutError) -> None:
    """Raises StateError for what an exact expectation value has no use for."""
    if readout_error is not None:
        raise StateError("readout_error= goes with shots=: an exact expectation value is not read out")
    if seed is not None:
        raise StateError("seed= goes with shots=: for an exact expectation value nothing is drawn")


def mean_of_runs(values: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Means over runs, (runs, ...), and their standard errors; of one run nan."""
    count = len(values)
    error = values.std(axis=0, ddof=1) / math.sqrt(count) if count > 1 else np.full(values.shape[1:], math.nan)
    return values.mean(axis=0), error


def _letter(string: PauliString, qubit: int) -> str:
    return "IXZY"[(string.x >> qubit & 1) | (string.z >> qubit & 1) << 1]
