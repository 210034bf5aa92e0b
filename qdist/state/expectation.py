"""Observables in a state: expectation values, variances, and products with the state.

Whatever the form of an observable, it becomes a sum of Pauli strings, and the strings of all observables of a
call become one PauliPlan: strings that flip the same bits share their work, and those whose flips lie within a
tile of the shard share a pass over it.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..circuit import Hermitian, PauliString, PauliSum
from ..native import kernels
from ..plan import Layout
from .errors import StateError

if TYPE_CHECKING:
    from .statevector import StateVector

__all__ = ["Observable", "apply_pauli_sum", "as_pauli_sum", "expectations", "pauli_plan"]

Observable: TypeAlias = (
    PauliSum | PauliString | Mapping[Any, complex] | str | Hermitian | tuple[ArrayLike, Sequence[int]] | NDArray[Any]
)

# Plans of the observables that were used last. A plan depends on nothing but what is in its key, and training asks for
# the same one thousands of times. The observables are kept with the plan so that their ids stay theirs.
_plans: OrderedDict[tuple[Any, ...], tuple[tuple[PauliSum, ...], Any]] = OrderedDict()
_MAX_PLANS = 32


def as_pauli_sum(observable: Observable, num_qubits: int) -> PauliSum:
    """An observable as a sum of Pauli strings on the qubits of a state.

    Args:
        observable: a PauliSum, PauliString, dict of strings and coefficients, text like "Z0 Z1" or "ZZI", a
            Hermitian, a pair (matrix, qubits), or a matrix of all qubits.
        num_qubits: of the state.

    Raises:
        StateError: if it is none of these or acts on qubits that the state does not have.
    """
    if isinstance(observable, PauliSum):
        result = observable
    elif isinstance(observable, PauliString | Mapping | str):
        result = PauliSum(observable)
    elif isinstance(observable, Hermitian):
        result = observable.to_pauli_sum()
    elif isinstance(observable, tuple) and len(observable) == 2 and not isinstance(observable[0], str):
        result = Hermitian(*observable).to_pauli_sum()
    elif isinstance(observable, np.ndarray):
        size = 1 << num_qubits
        if observable.shape != (size, size):
            raise StateError(
                f"a matrix of all {num_qubits} qubits has shape ({size}, {size}); got {observable.shape}. Give a "
                "matrix of some qubits as (matrix, qubits)"
            )
        result = Hermitian(observable, range(num_qubits)).to_pauli_sum()
    else:
        raise StateError(
            f"an observable is a PauliSum, a PauliString, a dict, text like 'Z0 Z1', a Hermitian or a pair "
            f"(matrix, qubits); got {observable!r}. expectations() takes a list of them"
        )
    if result.num_qubits > num_qubits:
        raise StateError(
            f"the observable acts on qubit {result.num_qubits - 1}; the state has qubits 0 to {num_qubits - 1}"
        )
    return result


def expectations(sv: StateVector, observables: Sequence[Observable]) -> NDArray[np.float64]:
    """<psi|O|psi> of each Hermitian observable: float64."""
    sums = tuple(as_pauli_sum(observable, sv.num_qubits) for observable in observables)
    plan = pauli_plan(sv, sums, real=True)
    result = np.zeros(len(sums))
    for first, shard in sv.shards():
        plan.add_expectations(shard, first, result)
    return sv.sum_over_ranks(result)


def apply_pauli_sum(sv: StateVector, observable: Observable, out: StateVector) -> None:
    """out = O |psi>; coefficients may be complex."""
    plan = pauli_plan(sv, (as_pauli_sum(observable, sv.num_qubits),), real=False)
    for (first, shard), (_, result) in zip(sv.shards(), out.shards()):
        plan.apply(shard, first, result)


def pauli_plan(sv: StateVector, sums: tuple[PauliSum, ...], real: bool) -> Any:
    """The kernels' plan for sums in a state like `sv`; with `real` refuses those that are not Hermitian."""
    key = (tuple(map(id, sums)), sv.layout, sv.shard_bits, real)
    if key in _plans:
        _plans.move_to_end(key)
    else:
        if real:
            for observable in sums:
                _check_hermitian(observable)
        _plans[key] = sums, _compiled(sums, sv.layout, sv.shard_bits, real)
        if len(_plans) > _MAX_PLANS:
            _plans.popitem(last=False)
    return _plans[key][1]


def _compiled(sums: tuple[PauliSum, ...], layout: Layout, shard_bits: int, real: bool) -> Any:
    empty = np.zeros(0, np.uint64)
    x, z = (
        layout.to_physical(np.concatenate([empty, *(words[:, 0] for words in parts)]))
        for parts in ([s.x for s in sums], [s.z for s in sums])
    )
    if len(x) and int(x.max()) >> shard_bits:
        qubit = layout.qubits[int(x.max()).bit_length() - 1]
        raise StateError(f"the observable flips qubit {qubit}, which is far: its values are on different ranks")
    coefficients = np.concatenate([np.zeros(0, np.complex128), *(s.coefficients for s in sums)])
    owner = np.repeat(np.arange(len(sums)), [len(s) for s in sums])
    return kernels.PauliPlan(
        shard_bits, x, z, coefficients.real.astype(np.complex128) if real else coefficients, owner, len(sums)
    )


def _check_hermitian(observable: PauliSum) -> None:
    if observable.is_hermitian():
        return
    string, c = next((string, c) for string, c in observable.simplify(0) if c.imag)
    raise StateError(
        f"the observable is not Hermitian: the coefficient of {string} is {c:.6g}. Its expectation value is complex; "
        "take that of (H + H.adjoint()) / 2 for the real part and of (H - H.adjoint()) / 2j for the imaginary part"
    )
