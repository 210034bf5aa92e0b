"""Pauli strings as bit masks: the arrays under PauliSum and the few functions that know their layout.

Bit q of the x mask is set where qubit q carries X or Y, bit q of the z mask where it carries Z or Y. With Y =
iXZ a string is P(x, z) = i^|x & z| X^x Z^z. Many strings are two uint64 arrays of shape (terms, words); word
k holds qubits 64k to 64k + 63, so up to 64 qubits are one word and any number is correct.
"""

import operator
from collections.abc import Iterable, Mapping, Sequence, Set
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..errors import CircuitError

Words = NDArray[np.uint64]

MAX_QUBITS = 4096
"""Qubit numbers stop below this, so that a slip like "X10000000000" cannot ask for a mask of gigabytes."""

_MASKS = "masks must be integers of shape (terms,) or (terms, words)"
_POWERS_OF_I = np.array([1, 1j, -1, -1j])


def pack(masks: Iterable[int]) -> Words:
    """The (terms, words) array of Python integers, with the fewest words that hold them all."""
    masks = list(masks)
    words = max(1, -(-max((m.bit_length() for m in masks), default=0) // 64))
    if words == 1:
        return np.array(masks, dtype=np.uint64).reshape(-1, 1)
    data = b"".join(m.to_bytes(8 * words, "little") for m in masks)
    return np.frombuffer(data, dtype="<u8").astype(np.uint64).reshape(-1, words)


def unpack(words: Words) -> list[int]:
    """The Python integers of a (terms, words) array: the inverse of `pack`."""
    if words.shape[1] == 1:
        return words[:, 0].tolist()
    data = words.astype("<u8").tobytes()
    size = 8 * words.shape[1]
    return [int.from_bytes(data[i : i + size], "little") for i in range(0, len(data), size)]


def from_bits(bits: ArrayLike) -> Words:
    """The masks of a boolean array of shape (terms, qubits), column q for qubit q."""
    packed = np.packbits(np.asarray(bits, dtype=bool), axis=1, bitorder="little")
    size = 8 * max(1, -(-packed.shape[1] // 8))
    padded = np.zeros((packed.shape[0], size), dtype=np.uint8)
    padded[:, : packed.shape[1]] = packed
    return padded.view("<u8").astype(np.uint64)


def to_bits(masks: Words) -> NDArray[np.bool_]:
    """The boolean array of shape (terms, 64 * words) of the masks: the inverse of `from_bits`."""
    octets = masks.astype("<u8").view(np.uint8).reshape(len(masks), 8 * masks.shape[1])
    return np.unpackbits(octets, axis=1, bitorder="little").view(np.bool_)


def stack(parts: Sequence[Words]) -> Words:
    """The rows of several mask arrays, one after the other, widened to the most words among them."""
    words = max(part.shape[1] for part in parts)
    return np.concatenate([widen(part, words) for part in parts])


def widen(masks: Words, words: int) -> Words:
    """The same masks with at least `words` words."""
    if masks.shape[1] >= words:
        return masks
    return np.pad(masks, ((0, 0), (0, words - masks.shape[1])))


def bit_count(masks: Words) -> NDArray[np.int64]:
    """The number of set bits in each row."""
    return np.bitwise_count(masks).sum(axis=-1, dtype=np.int64)


def y_phase(x: Words, z: Words) -> NDArray[np.complex128]:
    """i^|x & z| for each row: what turns X^x Z^z into the string P(x, z)."""
    return _POWERS_OF_I[bit_count(x & z) & 3]


def product_phase(x1: Words, z1: Words, x2: Words, z2: Words) -> NDArray[np.complex128]:
    """The phase f in P(x1, z1) P(x2, z2) = f P(x1 ^ x2, z1 ^ z2); rows broadcast.

    Moving Z^z1 past X^x2 costs (-1)^|z1 & x2|; the rest is the i of every Y that appears or disappears.
    """
    before = bit_count(x1 & z1) + bit_count(x2 & z2)
    after = bit_count((x1 ^ x2) & (z1 ^ z2))
    return _POWERS_OF_I[(before - after + 2 * bit_count(z1 & x2)) & 3]


def anticommute(x1: Words, z1: Words, x2: Words, z2: Words) -> NDArray[np.bool_]:
    """Whether the strings of each row anticommute; rows broadcast."""
    return (bit_count(x1 & z2) + bit_count(z1 & x2)) & 1 == 1


def runs(*masks: Words) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Sort the rows by the given masks: (order, starts), where rows order[starts[k]:starts[k + 1]] are equal.

    Inside a run the rows keep their order.
    """
    keys = np.concatenate(masks, axis=1)
    order = np.lexsort(keys.T)
    ordered = keys[order]
    new = np.ones(len(order), dtype=bool)
    new[1:] = (ordered[1:] != ordered[:-1]).any(axis=1)
    return order, np.flatnonzero(new)


def checked_masks(values: Any) -> Words:
    """Masks from a user as a fresh (terms, words) array."""
    array = np.asarray(values)
    if array.dtype.kind == "f" and not isinstance(values, np.ndarray):
        # NumPy makes float64 of a list with integers both below and above 2^63, which loses their low bits.
        array = np.asarray(values, dtype=object)
    if array.size == 0:
        return np.zeros((0, 1), dtype=np.uint64)
    if array.dtype.kind not in "Oiu" or array.ndim not in (1, 2):
        raise TypeError(_MASKS)
    if array.dtype.kind == "O":
        return _packed(array)
    if array.dtype.kind == "i" and (array < 0).any():
        raise CircuitError("masks must not be negative")
    return array.astype(np.uint64).reshape(len(array), -1)


def _packed(array: NDArray[np.object_]) -> Words:
    """Masks from Python integers: whole masks of any size in one dimension, words of 64 bits in two."""
    try:
        numbers = [operator.index(number) for number in array.ravel()]
    except TypeError:
        raise TypeError(_MASKS) from None
    if min(numbers) < 0:
        raise CircuitError("masks must not be negative")
    if array.ndim == 1:
        return pack(numbers)
    if max(numbers) >> 64:
        raise CircuitError(
            "masks of shape (terms, words) have words of 64 bits; give larger ones as one integer a term"
        )
    return np.array(numbers, dtype=np.uint64).reshape(array.shape)


def checked_qubits(qubits: Iterable[int]) -> list[int]:
    """Qubit numbers from a user, in their order; refuses what has none, and numbers that are not whole."""
    if isinstance(qubits, Mapping | Set):
        raise TypeError(f"qubits must be a list with the new place of qubit 0, 1 and so on, not {qubits!r}")
    try:
        return [operator.index(qubit) for qubit in qubits]
    except TypeError:
        raise TypeError(f"qubits must be a list of integers, got {qubits!r}") from None


def checked_coefficients(values: Any, names: Sequence[object] | None = None) -> NDArray[np.complex128]:
    """Coefficients from a user as a fresh complex128 vector; refuses what is not a finite number.

    Args:
        values: a sequence of numbers.
        names: what the error calls the terms, if not by their index.
    """
    array = np.asarray(values)
    if array.dtype.kind == "O" and not any(isinstance(value, str | bytes) for value in values):
        try:
            array = np.array([complex(value) for value in values])
        except TypeError:
            raise TypeError(f"coefficients must be numbers, got {values!r}") from None
    if (array.size and array.dtype.kind not in "biufc") or array.ndim != 1:
        raise TypeError(f"coefficients must be a list of numbers, got {values!r}")
    bad = np.flatnonzero(~np.isfinite(array))
    if len(bad):
        name = f"number {bad[0]}" if names is None else f"of '{names[bad[0]]}'"
        raise CircuitError(f"coefficient {name} is {array[bad[0]]}; it must be a finite number")
    return array.astype(np.complex128)
