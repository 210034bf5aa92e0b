"""Observables in a state: expectation values, variances, and products with the state.

Whatever the form of an observable, it becomes a sum of Pauli strings, and the strings of all observables of a
call are planned together: strings that flip the same bits share their work, and those whose flips lie within a
tile of the shard share a pass over it. On several ranks strings are grouped by layout, with an exchange between two
groups (``plan.observables``); each group has a kernel of the state's device.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from qdist.backends import ObservableKernel
from qdist.backends.errors import StateError
from qdist.circuit import Hermitian, PauliString, PauliSum
from qdist.circuit.pauli.operators import conversion
from qdist.plan.observables.cover import LayoutGroup
from qdist.plan.observables.plan import plan_observables
from qdist.plan.tail import NO_TAIL, Tail
from qdist.state.checking import same
from qdist.state.checking.alike import check_alike
from qdist.state.measuring.wide import WideStrings, wide_strings
from qdist.state.moves.exchange import swap_bits
from qdist.state.moves.relayout import relayout
from qdist.state.recent import Recent
from qdist.state.shards import Shards

__all__ = [
    "MOST_PLANS",
    "LoweredObservables",
    "Observable",
    "apply_and_expect",
    "apply_pauli_sum",
    "as_hermitian_sum",
    "as_pauli_sum",
    "expectations",
    "lowered",
    "pull_back",
    "queued_pull_back",
]

Observable: TypeAlias = (
    PauliSum | PauliString | Mapping[Any, complex] | str | Hermitian | tuple[ArrayLike, Sequence[int]] | NDArray[Any]
)

MOST_PLANS = 32
"""Plans of observables that are kept with their kernels: they depend on nothing but what is in the key, and training
asks for the same one thousands of times."""
_ONE = np.ones(1)
_lowered: Recent[LoweredObservables] = Recent(MOST_PLANS)
_sums: Recent[PauliSum] = Recent(MOST_PLANS)


def checked_observables(observables: Any) -> list[Any]:
    """Several observables as a list. Raises StateError where one alone is given."""
    if isinstance(observables, str | Mapping | PauliSum | PauliString | Hermitian | np.ndarray):
        raise StateError(
            f"expectations() and jacobian() take a list of observables, such as ['Z0', 'X1']; got {observables!r}. "
            "expectation() and value_and_grad() take one"
        )
    if not isinstance(observables, Iterable):
        raise StateError(f"a list of observables, such as ['Z0', 'X1'], is needed; got {observables!r}")
    return list(observables)


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
    key: Hashable = observable
    if not isinstance(observable, str):
        observable, key = _keyed(observable, num_qubits)
    try:
        found = _sums.get(key)
    except TypeError:  # A coefficient like an array of one number is not hashable.
        return PauliSum(observable)
    if found is None:
        found = observable.to_pauli_sum() if isinstance(observable, Hermitian) else PauliSum(observable)
        _sums.put(key, found)
    return found


def _keyed(observable: Any, num_qubits: int) -> tuple[Any, Hashable]:
    """An observable, a matrix as a Hermitian, and its content."""
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
    if isinstance(observable, Hermitian):
        return observable, (observable.matrix.tobytes(), observable.qubits)
    if isinstance(observable, Mapping):
        return observable, tuple(observable.items())
    if isinstance(observable, PauliString):
        return observable, observable
    # Of another library's operator only the name: its representation may have many lines.
    way = conversion(observable)
    given = type(observable).__name__ + way if way else f"{observable!r}. expectations() takes a list of them"
    raise StateError(
        f"an observable is a PauliSum, a PauliString, a dict, text like 'Z0 Z1', a Hermitian or a pair "
        f"(matrix, qubits); got {given}"
    )


def as_hermitian_sum(observable: Observable, num_qubits: int) -> PauliSum:
    """The same for an observable whose values are real; raises StateError where they are not."""
    result = as_pauli_sum(observable, num_qubits)
    _check_hermitian(result)
    return result


def expectations(sv: Shards, observables: Sequence[Observable], gates: Tail = NO_TAIL) -> NDArray[np.float64]:
    """<psi|O|psi> of each Hermitian observable, after X, CX and SWAP if there are any: float64. May leave the state in
    another layout."""
    found = lowered(sv, [as_pauli_sum(o, sv.num_qubits) for o in observables], True, gates)
    result = np.zeros(len(observables))
    for wide in found.wide:
        wide.add_expectations(sv, result)
    for group, kernel in zip(found.groups, found.kernels):
        if group.swaps:
            _move_to((sv,), group)
        for first, shard in sv.shards():
            kernel.add_expectations(shard, first, result)
    return sv.sum_over_ranks(result)


def apply_pauli_sum(sv: Shards, observable: Observable, out: Shards) -> None:
    """out = O |psi>; coefficients may be complex. Both have the state's layout afterwards."""
    _apply(sv, lowered(sv, [as_pauli_sum(observable, sv.num_qubits)], False, products=True), np.ones(1), out, None)


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
    found = lowered(sv, [as_pauli_sum(o, sv.num_qubits) for o in observables], True, gates, products=True)
    values = np.zeros(len(observables))
    _apply(sv, found, weights, out, values)
    return sv.sum_over_ranks(values)


def pull_back(
    sv: Shards,
    observables: Sequence[Observable],
    cotangents: NDArray[np.float64],
    out: Shards,
    product: Any,
    gates: Tail = NO_TAIL,
) -> tuple[Callable[[], NDArray[np.float64]], Any]:
    """``apply_and_expect`` for derivatives in a normalised state, where multiples of the identity have no
    derivative: ``out`` leaves them out, so that they do not amplify rounding errors.

    product: an array of one double on the state's device.

    Returns:
        What gives the expectation values once it is called, which waits for the device; and Re <psi|out>: a number, or
        ``product``, where the device has still to compute it.
    """
    sums = [as_pauli_sum(o, sv.num_qubits) for o in observables]
    found = lowered(sv, sums, True, gates, products=True, traceless=True)
    if found.queues(sv, cotangents):
        out.layout = sv.layout
        found.kernels[0].queue(sv.local, cotangents, out.local, product)
        return lambda: product.get() / cotangents + found.constants, product
    values = np.zeros(len(observables))
    _apply(sv, found, cotangents, out, values)
    sv.sum_over_ranks(values)
    return lambda: values + found.constants, float(cotangents @ values)


def queued_pull_back(
    sv: Shards, observable: Observable, gates: Tail = NO_TAIL
) -> Callable[[Shards, Any, Any], None] | None:
    """``pull_back`` of one observable with the weight 1 where the state's device needs nobody for it: what queues it,
    given the state to write to and arrays on the device for Re <psi|out> and for the value; else None. sv: as the state
    will be."""
    found = lowered(sv, [as_pauli_sum(observable, sv.num_qubits)], True, gates, products=True, traceless=True)
    if not found.queues(sv, _ONE):
        return None

    def queue(out: Shards, product: Any, value: Any) -> None:
        out.layout = sv.layout
        found.kernels[0].queue(sv.local, _ONE, out.local, product, float(found.constants[0]), value)

    return queue


@dataclass(frozen=True, slots=True)
class LoweredObservables:
    """A plan of observables with the kernels of a device."""

    groups: list[LayoutGroup]
    kernels: list[ObservableKernel]
    """For the strings of each group."""
    wide: list[WideStrings]
    """Strings that flip more qubits than can be close; they come first, under the present layout."""
    constants: NDArray[np.float64]
    """The coefficient of the identity of each observable, where it is not among the strings."""

    def queues(self, sv: Shards, weights: NDArray[np.float64]) -> bool:
        """Whether one kernel has all there is to do, and nobody waits for its device."""
        alone = sv.comm.size == 1 and sv.shard_bits == sv.num_qubits and len(self.kernels) == 1 and not self.wide
        return alone and self.kernels[0].queues(weights)


def lowered(
    sv: Shards,
    sums: Sequence[PauliSum],
    real: bool,
    gates: Tail = NO_TAIL,
    products: bool = False,
    traceless: bool = False,
) -> LoweredObservables:
    """Sums, after ``gates``, for states like ``sv``; with ``real`` refuses what is not Hermitian.

    products: whether they are for products with the state rather than for expectation values. traceless: see
    ``plan_observables``.
    """
    same.observables(sv.comm, sums)
    where = sv.layout, sv.shard_bits, sv.dtype, sv.device
    key = (tuple(s.key for s in sums), *where, real, gates.key, products, traceless)
    found = _lowered.get(key)
    if found is None:
        if real:
            for observable in sums:
                _check_hermitian(observable)
        plan = plan_observables(sums, sv.layout, sv.shard_bits, gates, real, traceless)
        kernels = [sv.backend.observable(strings, sv.shard_bits, sv.dtype, products) for strings in plan.strings]
        found = LoweredObservables(plan.groups, kernels, wide_strings(sv, plan.wide), plan.constants)
        _lowered.put(key, found)
    return found


def _apply(
    sv: Shards,
    observables: LoweredObservables,
    weights: NDArray[np.float64],
    out: Shards,
    values: NDArray[np.float64] | None,
) -> None:
    """The present layout comes last, so that ``out`` takes part in one exchange less than the state."""
    if out is sv:
        raise StateError(f"out must be another state of the same size and dtype; got {out!r} itself")
    check_alike("a product with an observable", sv, out)
    home, started = sv.layout, False
    for group, kernel in zip(observables.groups[1:], observables.kernels[1:]):
        _move_to((sv, out) if started else (sv,), group)
        out.layout = group.layout
        _add_products(kernel, sv, weights, out, started, values)
        started = True
    if started:
        relayout((sv, out), home)
    out.layout = home
    _add_products(observables.kernels[0], sv, weights, out, started, values)
    for wide in observables.wide:
        wide.apply(sv, weights, out, values)


def _add_products(
    kernel: ObservableKernel,
    sv: Shards,
    weights: NDArray[np.float64],
    out: Shards,
    add: bool,
    values: NDArray[np.float64] | None,
) -> None:
    """out = the product of one group's strings with the state; with ``add`` it is added to what is there."""
    for (first, shard), (_, result) in zip(sv.shards(), out.shards()):
        kernel.apply(shard, first, weights, result, add, values)


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
