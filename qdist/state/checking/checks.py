"""Checks of what a user hands to a state; each gives the value back in its own type or raises StateError."""

from __future__ import annotations

import operator
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from qdist.backends.errors import StateError
from qdist.circuit.parameters import as_number
from qdist.circuit.wires import as_tuple
from qdist.native.memory import gib
from qdist.plan.planner import MAX_QUBITS
from qdist.state.checking import same

if TYPE_CHECKING:
    from qdist.comm import Communicator


_MOST_SHOTS = 1 << 48
"""More need memory that no machine has: a bound that is the same on all ranks."""
_DTYPES = (np.dtype(np.complex64), np.dtype(np.complex128))


def checked_num_qubits(num_qubits: Any) -> int:
    count = _integer(num_qubits)
    if count is None or not 1 <= count <= MAX_QUBITS:
        raise StateError(f"the number of qubits must be an int from 1 to {MAX_QUBITS}; got {num_qubits!r}")
    return count


def checked_dtype(dtype: Any) -> np.dtype[Any]:
    try:
        result = np.dtype(dtype)
    except TypeError:
        result = None
    if result not in _DTYPES:
        raise StateError(f"dtype must be 'complex64' or 'complex128'; got {dtype!r}")
    return result


def checked_qubits(qubits: Any, num_qubits: int) -> tuple[int, ...]:
    """Different qubits of a state, from one int or several; None stands for all of them."""
    if qubits is None:
        return tuple(range(num_qubits))
    result = []
    for qubit in as_tuple(qubits):
        number = _integer(qubit)
        if number is None:
            raise StateError(f"a qubit must be an int; got {qubit!r}")
        if not 0 <= number < num_qubits:
            raise StateError(f"qubit {number} is out of range: the state has qubits 0 to {num_qubits - 1}")
        result.append(number)
    if len(set(result)) != len(result):
        raise StateError(f"qubits must be different; got {result}")
    return tuple(result)


def checked_index(index: Any, num_qubits: int) -> int:
    """A basis state, from its index or its bit string (highest qubit first)."""
    if isinstance(index, str):
        if len(index) != num_qubits or index.strip("01"):
            raise StateError(f"a bit string of {num_qubits} qubits has {num_qubits} characters 0 or 1; got {index!r}")
        return int(index, 2)
    number = _integer(index)
    if number is None or not 0 <= number < 1 << num_qubits:
        raise StateError(
            f"a basis state of {num_qubits} qubits is an index from 0 to {(1 << num_qubits) - 1} or a bit string; "
            f"got {index!r}"
        )
    return number


def checked_indices(indices: Any, num_qubits: int) -> NDArray[np.int64]:
    array = np.asarray(indices)
    if array.dtype.kind == "U":
        return np.array([checked_index(str(text), num_qubits) for text in array.flat], np.int64).reshape(array.shape)
    if array.size == 0:
        return np.zeros(array.shape, np.int64)
    if array.dtype.kind not in "iu":
        raise StateError(f"indices must be integers or bit strings; got an array of {array.dtype}")
    if array.min() < 0 or array.max() >= 1 << num_qubits:
        worst = array.min() if array.min() < 0 else array.max()
        raise StateError(f"index {worst} is out of range: the state has amplitudes 0 to {(1 << num_qubits) - 1}")
    return array.astype(np.int64)


def checked_shots(shots: Any) -> int:
    number = _integer(shots)
    if number is None or number < 0:
        raise StateError(f"shots must be an int >= 0; got {shots!r}")
    if number > _MOST_SHOTS:
        raise MemoryError(f"{number} shots need {gib(8 * number)} or more; draw fewer at a time")
    return number


def checked_rank(root: Any, ranks: int) -> int:
    number = _integer(root)
    if number is None or not 0 <= number < ranks:
        raise StateError(f"root={root!r}: the state is on ranks 0 to {ranks - 1}")
    return number


def checked_outcome(outcome: Any, num_qubits: int) -> int:
    number = _integer(outcome)
    if number is None or not 0 <= number < 1 << num_qubits:
        raise StateError(
            f"the outcome of {num_qubits} qubit{'s' if num_qubits > 1 else ''} is an int from 0 to "
            f"{(1 << num_qubits) - 1}; got {outcome!r}"
        )
    return number


def _integer(value: Any) -> int | None:
    try:
        return operator.index(value)
    except TypeError:
        return None


def is_batch(params: Any) -> bool:
    """Whether parameter values are those of a batch: a row for each set."""
    if params.__class__ is np.ndarray:
        return bool(params.ndim == 2)
    if params is None or isinstance(params, Mapping):
        return False
    try:
        return np.ndim(params) == 2
    except ValueError:
        raise StateError(f"the rows of a batch must be equally long; got {params!r}") from None


def checked_batch(params: Any, num_parameters: int, comm: Communicator | None = None) -> NDArray[np.float64]:
    """A batch of parameter sets, one a row: finite real numbers, and a copy. The same on all ranks of ``comm``, which
    all call."""
    try:
        if isinstance(params, np.ma.MaskedArray):  # What a mask hides is no value.
            params = np.ma.filled(params.astype(np.float64), np.nan)
        given = np.asarray(params)
    except ValueError:
        raise StateError(f"the rows of a batch must be equally long; got {params!r}") from None
    if given.dtype.kind == "O":
        given = _real_numbers(given)
    if given.dtype.kind not in "biuf":
        raise StateError(f"parameter values must be real numbers; got an array of {given.dtype}")
    theta = given.astype(np.float64, order="C")
    if theta.ndim != 2 or theta.shape[1] != num_parameters:
        raise StateError(f"a batch has shape (batch, {num_parameters}), one row a parameter set; got {theta.shape}")
    if not np.isfinite(theta).all():
        row, column = np.argwhere(~np.isfinite(theta))[0].tolist()
        raise StateError(f"parameter values must be finite; that of row {row}, column {column} is {theta[row, column]}")
    return same.values(comm, theta)


def _real_numbers(array: NDArray[Any]) -> NDArray[np.float64]:
    numbers = [as_number(value) for value in array.flat]
    for value, number in zip(array.flat, numbers):
        if number is None:
            raise StateError(f"parameter values must be real numbers; got {value!r}")
    return np.array(numbers, np.float64).reshape(array.shape)
