"""Observables in a state: expectation values, variances, and products with the state.

Whatever the form of an observable, it becomes a sum of Pauli strings, and the strings of all observables of a
call become one PauliPlan: strings that flip the same bits share their work, and those whose flips lie within a
tile of the shard share a pass over it. On several ranks strings are grouped by layout: there is one such plan for
each group, and an exchange between two groups.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from qdist.backends import Backend, ObservableKernel
from qdist.backends.errors import StateError
from qdist.circuit import Hermitian, PauliString, PauliSum
from qdist.circuit.pauli.masks import bit_count
from qdist.plan.layout import Layout
from qdist.plan.observables.cover import LayoutGroup, cover
from qdist.plan.observables.strings import Strings
from qdist.plan.observables.tail import NO_TAIL, Tail
from qdist.state.checking import same
from qdist.state.checking.alike import check_alike
from qdist.state.measuring.wide import WideStrings, wide_strings
from qdist.state.moves.exchange import swap_bits
from qdist.state.moves.relayout import relayout
from qdist.state.recent import Recent
from qdist.state.shards import Shards

__all__ = [
    "MOST_PLANS",
    "Observable",
    "ObservablePlan",
    "apply_and_expect",
    "apply_pauli_sum",
    "as_hermitian_sum",
    "as_pauli_sum",
    "expectations",
    "observable_plan",
    "passes",
    "pull_back",
]

Observable: TypeAlias = (
    PauliSum | PauliString | Mapping[Any, complex] | str | Hermitian | tuple[ArrayLike, Sequence[int]] | NDArray[Any]
)

MOST_PLANS = 32
"""Plans of observables that are kept: a plan depends on nothing but what is in its key, and training asks for the same
one thousands of times."""
_plans: Recent[ObservablePlan] = Recent(MOST_PLANS)
_sums: Recent[PauliSum] = Recent(MOST_PLANS)

_PASSES_AN_EXCHANGE = 8
"""An exchange between ranks takes about as long as so many passes over a shard."""


def as_pauli_sum(observable: Observable, num_qubits: int) -> PauliSum:
    """An observable as a sum of Pauli strings on the qubits of a state.

    Args:
        observable: a PauliSum, PauliString, dict of strings and coefficients, text like "Z0 Z1" or "ZZI", a
            Hermitian, a pair (matrix, qubits), or a matrix of all qubits.
        num_qubits: of the state.

    Raises:
        StateError: if it is none of these or acts on qubits that the state does not have.
    """
    result = observable if isinstance(observable, PauliSum) else _pauli_sum(observable, num_qubits)
    if result.num_qubits > num_qubits:
        raise StateError(
            f"the observable acts on qubit {result.num_qubits - 1}; the state has qubits 0 to {num_qubits - 1}"
        )
    return result


def _pauli_sum(observable: Any, num_qubits: int) -> PauliSum:
    """Parsed once: a cache finds repeated observables by their content."""
    if isinstance(observable, np.ndarray):
        size = 1 << num_qubits
        if observable.shape != (size, size):
            raise StateError(
                f"a matrix of all {num_qubits} qubits has shape ({size}, {size}); got {observable.shape}. Give a "
                "matrix of some qubits as (matrix, qubits)"
            )
        observable = Hermitian(observable, range(num_qubits))
    elif isinstance(observable, tuple) and len(observable) == 2 and not isinstance(observable[0], str):
        observable = Hermitian(*observable)
    key: Hashable
    if isinstance(observable, Hermitian):
        key = observable.matrix.tobytes(), observable.qubits
    elif isinstance(observable, Mapping):
        key = tuple(observable.items())
    elif isinstance(observable, PauliString | str):
        key = observable
    else:
        raise StateError(
            f"an observable is a PauliSum, a PauliString, a dict, text like 'Z0 Z1', a Hermitian or a pair "
            f"(matrix, qubits); got {observable!r}. expectations() takes a list of them"
        )
    try:
        found = _sums.get(key)
    except TypeError:  # A coefficient like an array of one number is not hashable.
        return PauliSum(observable)
    if found is None:
        found = observable.to_pauli_sum() if isinstance(observable, Hermitian) else PauliSum(observable)
        _sums.put(key, found)
    return found


def as_hermitian_sum(observable: Observable, num_qubits: int) -> PauliSum:
    """The same for an observable whose values are real; raises StateError where they are not."""
    result = as_pauli_sum(observable, num_qubits)
    _check_hermitian(result)
    return result


def expectations(sv: Shards, observables: Sequence[Observable], gates: Tail = NO_TAIL) -> NDArray[np.float64]:
    """<psi|O|psi> of each Hermitian observable, after X, CX and SWAP if there are any: float64. May leave the state in
    another layout."""
    plan = observable_plan(sv, [as_pauli_sum(o, sv.num_qubits) for o in observables], True, gates)
    result = np.zeros(len(observables))
    for wide in plan.wide:
        wide.add_expectations(sv, result)
    for group, strings in zip(plan.groups, plan.strings):
        if group.swaps:
            _move_to((sv,), group)
        for first, shard in sv.shards():
            strings.add_expectations(shard, first, result)
    return sv.sum_over_ranks(result)


def apply_pauli_sum(sv: Shards, observable: Observable, out: Shards) -> None:
    """out = O |psi>; coefficients may be complex. Both have the state's layout afterwards."""
    plan = observable_plan(sv, [as_pauli_sum(observable, sv.num_qubits)], False, products=True)
    _apply(sv, plan, np.ones(1), out, None)


def apply_and_expect(
    sv: Shards,
    observables: Sequence[Observable],
    cotangents: ArrayLike,
    out: Shards,
    gates: Tail = NO_TAIL,
) -> NDArray[np.float64]:
    """The expectation values of Hermitian observables, and out = sum_k cotangents[k] O_k |psi>, in the same passes.

    Args:
        sv: the state; it has the same layout afterwards.
        observables: as for ``as_pauli_sum``.
        cotangents: a real number for each of them.
        out: another state of the same size, dtype and ranks; it gets the state's layout.
        gates: X, CX and SWAP that come before the observables: G^-1 O_k G takes the place of O_k.

    Returns:
        <psi|O_k|psi>: float64.

    Raises:
        StateError: for observables that are not Hermitian, where the numbers of both do not agree, and for an ``out``
            that does not fit.
    """
    weights = np.array(cotangents, np.float64)
    if weights.shape != (len(observables),):
        raise StateError(f"{len(observables)} observables need as many cotangents; got shape {weights.shape}")
    plan = observable_plan(sv, [as_pauli_sum(o, sv.num_qubits) for o in observables], True, gates, products=True)
    values = np.zeros(len(observables))
    _apply(sv, plan, weights, out, values)
    return sv.sum_over_ranks(values)


def pull_back(
    sv: Shards,
    observables: Sequence[Observable],
    cotangents: NDArray[np.float64],
    out: Shards,
    gates: Tail = NO_TAIL,
) -> tuple[NDArray[np.float64], float]:
    """``apply_and_expect`` for derivatives in a normalised state, where multiples of the identity have no
    derivative: ``out`` leaves them out, so that they do not amplify rounding errors.

    Returns:
        The expectation values, and Re <psi|out>.
    """
    sums = [as_pauli_sum(o, sv.num_qubits) for o in observables]
    plan = observable_plan(sv, sums, True, gates, products=True, traceless=True)
    values = np.zeros(len(observables))
    _apply(sv, plan, cotangents, out, values)
    sv.sum_over_ranks(values)
    return values + plan.constants, float(cotangents @ values)


@dataclass(frozen=True, slots=True)
class ObservablePlan:
    """How the Pauli strings of observables are computed on a state of a given layout."""

    groups: list[LayoutGroup]
    strings: list[ObservableKernel]
    """The kernel for the strings of each group."""
    wide: list[WideStrings]
    """Strings that flip more qubits than can be close; they come first, under the present layout."""
    constants: NDArray[np.float64]
    """The coefficient of the identity of each observable, where it is not among the strings."""


def observable_plan(
    sv: Shards,
    sums: Sequence[PauliSum],
    real: bool,
    gates: Tail = NO_TAIL,
    products: bool = False,
    traceless: bool = False,
) -> ObservablePlan:
    """The plan for sums, after ``gates``, in a state like ``sv``; with ``real`` refuses what is not Hermitian.

    products: whether it is for products with the state rather than for expectation values. traceless: whether
    multiples of the identity are left out, unless there is nothing else.
    """
    same.observables(sv.comm, sums)
    where = sv.layout, sv.shard_bits, sv.dtype, sv.device
    key = (tuple(s.key for s in sums), *where, real, gates.key, products, traceless)
    plan = _plans.get(key)
    if plan is None:
        if real:
            for observable in sums:
                _check_hermitian(observable)
        plan = _planned(sv, Strings.of(sums, real).before(gates), products, traceless)
        _plans.put(key, plan)
    return plan


def passes(
    backend: Backend,
    sums: Sequence[PauliSum],
    layout: Layout,
    shard_bits: int,
    dtype: np.dtype[Any],
    gates: Tail = NO_TAIL,
) -> int:
    """About how many passes over a state on such a device the product with sums, after ``gates``, takes."""
    wide, groups, parts = _arranged(Strings.of(sums, True).before(gates), layout, shard_bits)
    exchanges = len(groups) - 1 + len(np.unique(wide.x))
    compiled = (backend.observable(part, shard_bits, dtype, products=True) for part in parts)
    return _PASSES_AN_EXCHANGE * exchanges + sum(one.passes for one in compiled)


def _planned(sv: Shards, strings: Strings, products: bool, traceless: bool) -> ObservablePlan:
    constants = np.zeros(strings.num_observables)
    identity = (strings.x | strings.z) == 0
    if traceless and not identity.all():
        np.add.at(constants, strings.observable[identity], strings.coefficients[identity].real)
        strings = strings.chosen(~identity)
    wide, groups, parts = _arranged(strings, sv.layout, sv.shard_bits)
    plans = [sv.backend.observable(part, sv.shard_bits, sv.dtype, products) for part in parts]
    return ObservablePlan(groups, plans, wide_strings(sv, wide.at(sv.layout)), constants)


def _arranged(strings: Strings, layout: Layout, shard_bits: int) -> tuple[Strings, list[LayoutGroup], list[Strings]]:
    """Strings that flip more qubits than can be close; groups for the others; and each group's, by positions."""
    wide = bit_count(strings.x[:, None]) > shard_bits
    narrow = strings.chosen(~wide)
    groups = cover(np.unique(narrow.x).tolist(), layout, shard_bits)
    if len(groups) == 1:
        parts = [narrow]
    else:
        parts = [narrow.chosen(np.isin(narrow.x, np.array(list(group.masks), np.uint64))) for group in groups]
    return strings.chosen(wide), groups, [part.at(group.layout) for group, part in zip(groups, parts)]


def _apply(
    sv: Shards,
    plan: ObservablePlan,
    weights: NDArray[np.float64],
    out: Shards,
    values: NDArray[np.float64] | None,
) -> None:
    """The present layout comes last, so that ``out`` takes part in one exchange less than the state."""
    if out is sv:
        raise StateError(f"out must be another state of the same size and dtype; got {out!r} itself")
    check_alike("a product with an observable", sv, out)
    home, started = sv.layout, False
    for group, strings in zip(plan.groups[1:], plan.strings[1:]):
        _move_to((sv, out) if started else (sv,), group)
        out.layout = group.layout
        _add_products(strings, sv, weights, out, started, values)
        started = True
    if started:
        relayout((sv, out), home)
    out.layout = home
    _add_products(plan.strings[0], sv, weights, out, started, values)
    for wide in plan.wide:
        wide.apply(sv, weights, out, values)


def _add_products(
    strings: Any,
    sv: Shards,
    weights: NDArray[np.float64],
    out: Shards,
    add: bool,
    values: NDArray[np.float64] | None,
) -> None:
    """out = the product of one group's strings with the state; with ``add`` it is added to what is there."""
    for (first, shard), (_, result) in zip(sv.shards(), out.shards()):
        strings.apply(shard, first, weights, result, add, values)


def _move_to(states: Sequence[Shards], group: LayoutGroup) -> None:
    swap_bits(states, group.swaps)
    for state in states:
        state.layout = group.layout


def _check_hermitian(observable: PauliSum) -> None:
    if observable.is_hermitian():
        return
    string, c = next((string, c) for string, c in observable.simplify(0) if c.imag)
    raise StateError(
        f"the observable is not Hermitian: the coefficient of {string} is {c:.6g}. Its expectation value is complex; "
        "take that of (H + H.adjoint()) / 2 for the real part and of (H - H.adjoint()) / 2j for the imaginary part"
    )
