"""PauliString and PauliSum: observables and Hamiltonians."""

from __future__ import annotations

import hashlib
import numbers
import operator
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..errors import CircuitError
from ..matrices import check_matrix
from . import dense, grouping, masks, text
from .algebra import Operator

_DENSE_QUBITS = 14


class PauliString(Operator["PauliSum"]):
    """A product of Pauli matrices on different qubits, without a coefficient. Immutable and hashable.

    Args:
        paulis: factors like "X0 Y2", or a label like "XIYZ" with the highest qubit first; "" and "I" are the
            identity.

    Raises:
        CircuitError: for malformed text (with the position) or a qubit that appears twice.

    >>> PauliString("X0 Y2") == PauliString("YIX")
    True
    >>> print(PauliString("X0") @ PauliString("Y0"))
    1j * Z0
    """

    __slots__ = ("_x", "_z")

    def __init__(self, paulis: str = "") -> None:
        if not isinstance(paulis, str):
            raise TypeError(f"a Pauli string is text like 'X0 Y2' or 'XIYZ', not {paulis!r}")
        self._x, self._z = text.parse(paulis)

    def _sum(self) -> PauliSum:
        return PauliSum([(self, 1.0)])

    @classmethod
    def from_masks(cls, x: int, z: int) -> PauliString:
        """The string with X or Y on the set bits of `x`, and Z or Y on the set bits of `z`."""
        string = cls.__new__(cls)
        string._x, string._z = operator.index(x), operator.index(z)
        if not 0 <= string._x | string._z < 1 << masks.MAX_QUBITS:
            raise CircuitError(f"masks must be integers of 0 to {masks.MAX_QUBITS} bits, got x={x}, z={z}")
        return string

    @property
    def x(self) -> int:
        """The mask of the qubits that carry X or Y: the bits that the string flips."""
        return self._x

    @property
    def z(self) -> int:
        """The mask of the qubits that carry Z or Y."""
        return self._z

    @property
    def num_qubits(self) -> int:
        """One more than the highest qubit the string acts on; 0 for the identity."""
        return (self._x | self._z).bit_length()

    @property
    def qubits(self) -> tuple[int, ...]:
        """The qubits the string acts on, in increasing order."""
        return tuple(text.qubits_of(self._x | self._z))

    @property
    def weight(self) -> int:
        """The number of qubits the string acts on."""
        return (self._x | self._z).bit_count()

    def letter(self, qubit: int) -> str:
        """The letter on a qubit: "I", "X", "Y" or "Z"."""
        return text.letter(self._x, self._z, qubit)

    def label(self, num_qubits: int | None = None) -> str:
        """The letters on qubits 0 to num_qubits - 1, highest qubit first: "XIYZ"."""
        return text.label(self._x, self._z, _checked_width(self, num_qubits))

    def commutes_qubit_wise_with(self, other: PauliString) -> bool:
        """Whether the two have the same letter, or an identity, on every qubit."""
        both = (self._x | self._z) & (other._x | other._z)
        return not ((self._x ^ other._x) | (self._z ^ other._z)) & both

    def relabel(self, qubits: Sequence[int]) -> PauliString:
        """The same string with qubit i moved to qubits[i]."""
        return self._sum().relabel(qubits)[0][0]

    def to_matrix(self, num_qubits: int | None = None) -> NDArray[np.complex128]:
        """The dense matrix; see `PauliSum.to_matrix`."""
        return self._sum().to_matrix(num_qubits)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, PauliString):
            return NotImplemented
        return self._x == other._x and self._z == other._z

    def __hash__(self) -> int:
        return hash((self._x, self._z))

    def __reduce__(self) -> tuple[Any, ...]:
        return PauliString.from_masks, (self._x, self._z)

    def __str__(self) -> str:
        return text.factors(self._x, self._z)

    def __repr__(self) -> str:
        return f'PauliString("{self}")'


def _formula(string: PauliString) -> str:
    """X_{0} Z_{3}; I for the identity."""
    return " ".join(f"{factor[0]}_{{{factor[1:]}}}" for factor in str(string).split() if factor != "I") or "I"


Term: TypeAlias = "tuple[str | PauliString, complex]"
Terms: TypeAlias = "PauliSum | PauliString | str | Mapping[str | PauliString, complex] | Iterable[Term]"


_CONVERSIONS = {
    "qiskit": ": PauliSum.from_qiskit(operator) makes one of a SparsePauliOp",
    "openfermion": ": PauliSum.from_openfermion(operator) makes one",
    "pennylane": ": PauliSum.from_matrix(qml.matrix(operator), list(operator.wires)[::-1]) makes one",
    "torch": ": numpy.asarray(matrix) is a matrix of all qubits",
    "jaxlib": ": numpy.asarray(matrix) is a matrix of all qubits",
}
"""By the library of a type."""


def conversion(operator: Any) -> str:
    """How another library's operator becomes a PauliSum, to be put behind an error; empty where no way is known."""
    return _CONVERSIONS.get(type(operator).__module__.partition(".")[0], "")


class PauliSum(Operator["PauliSum"]):
    """A sum of Pauli strings with coefficients: an observable or a Hamiltonian. Immutable.

    Terms are held as two arrays of bit masks and an array of coefficients, so 1e5 of them cost megabytes and
    their algebra milliseconds. `+` and `-` keep every term, in order, and `simplify` merges equal strings;
    `@` (the operator product) and `commutator` give simplified sums. A number added to a sum is a multiple of
    the identity. To add up very many terms, give them all to the constructor rather than one at a time.

    Args:
        terms: a dict {"Z0 Z1": -1.0, "X3": 0.5}, (string, coefficient) pairs, one string with coefficient 1, or
            text like "-1.0*Z0 Z1 + 0.5*X3", as ``str`` of a sum with real coefficients. A string is a PauliString,
            factors like "X0 Y2", or a label like "XIYZ" (highest qubit first).

    Raises:
        CircuitError: for malformed strings and coefficients that are not finite numbers.

    >>> H = PauliSum({"Z0 Z1": -1.0, "X3": 0.5})
    >>> print(2 * H + 1)
    -2 * Z0 Z1 + 1 * X3 + 1 * I
    >>> [(str(string), coefficient) for string, coefficient in H @ H]
    [('I', (1.25+0j)), ('Z0 Z1 X3', (-1+0j))]
    """

    __slots__ = ("_coefficients", "_key", "_num_qubits", "_x", "_z")

    _x: masks.Words
    _z: masks.Words
    _coefficients: NDArray[np.complex128]
    _key: bytes
    _num_qubits: int

    def __init__(self, terms: Terms = ()) -> None:
        if isinstance(terms, PauliSum):
            self._set(terms._x, terms._z, terms._coefficients)
            return
        if isinstance(terms, str):
            terms = text.parse_sum(terms)
        if isinstance(terms, PauliString):
            terms = [(terms, 1.0)]
        if not isinstance(terms, Iterable) or conversion(terms):
            raise TypeError(
                "a PauliSum is made of text like 'Z0 Z1', a dict {text: coefficient} or (text, coefficient) pairs, not "
                f"of {type(terms).__name__}{conversion(terms)}"
            )
        pairs = list(terms.items() if isinstance(terms, Mapping) else terms)
        for pair in pairs:
            if not isinstance(pair, tuple | list) or len(pair) != 2:
                raise TypeError(f"a term is a (string, coefficient) pair, not {pair!r}")
        strings = [s if isinstance(s, PauliString) else PauliString(s) for s, _ in pairs]
        coefficients = masks.checked_coefficients([c for _, c in pairs], strings)
        self._set(masks.pack(s.x for s in strings), masks.pack(s.z for s in strings), coefficients)

    def _sum(self) -> PauliSum:
        return self

    def _set(self, x: masks.Words, z: masks.Words, coefficients: NDArray[np.complex128]) -> None:
        words = max(x.shape[1], z.shape[1])
        self._x, self._z = masks.widen(x, words), masks.widen(z, words)
        self._coefficients = coefficients
        for array in (self._x, self._z, self._coefficients):
            array.flags.writeable = False

    @classmethod
    def _of(cls, x: masks.Words, z: masks.Words, coefficients: NDArray[np.complex128]) -> PauliSum:
        """A sum of arrays that are known to be right and that nobody else writes to."""
        result = cls.__new__(cls)
        result._set(x, z, coefficients)
        return result

    @classmethod
    def from_masks(cls, x: ArrayLike, z: ArrayLike, coefficients: ArrayLike) -> PauliSum:
        """The sum of given masks: X or Y on the set bits of x[k], Z or Y on those of z[k].

        Masks are arrays of unsigned integers of shape (terms,), or (terms, words) with qubits 64w to 64w + 63
        in word w, or lists of Python integers of any size.
        """
        words = masks.checked_masks(x), masks.checked_masks(z)
        values = masks.checked_coefficients(coefficients)
        lengths = len(words[0]), len(words[1]), len(values)
        if len(set(lengths)) > 1:
            raise CircuitError(f"x, z and coefficients must be equally long, got lengths {lengths}")
        return cls._of(*words, values)

    @classmethod
    def from_matrix(cls, matrix: ArrayLike, qubits: Sequence[int] | None = None) -> PauliSum:
        """The Pauli decomposition of a 2^n by 2^n matrix: coefficients Tr(P M) / 2^n, zeros left out.

        Args:
            matrix: any matrix; the coefficients of a Hermitian one are real.
            qubits: the qubits it acts on, the first for the lowest bit of its index; 0 to n - 1 when not
                given.
        """
        try:
            values = np.asarray(matrix, dtype=np.complex128)
        except (TypeError, ValueError):
            raise CircuitError(f"the matrix must be an array of numbers; got {matrix!r}") from None
        if values.ndim != 2 or values.shape[0] != values.shape[1] or values.shape[0].bit_count() != 1:
            raise CircuitError(f"the matrix must be square with a power of two of rows, got shape {values.shape}")
        if not np.isfinite(values).all():
            raise CircuitError("the matrix has elements that are not finite")
        width = len(values).bit_length() - 1
        places = range(width) if qubits is None else masks.checked_qubits(qubits)
        if len(places) != width:
            raise CircuitError(f"the matrix acts on {width} qubits; {len(places)} were given: {list(places)}")
        check_matrix(width, 6)
        x, z, coefficients = dense.from_matrix(values)
        if np.array_equal(values, values.conj().T):
            coefficients = coefficients.real.astype(np.complex128)
        result = cls._of(x, z, coefficients).simplify()
        return result if qubits is None else result.relabel(places)

    @classmethod
    def from_openfermion(cls, qubit_operator: Any) -> PauliSum:
        """The sum of an OpenFermion QubitOperator, or of anything with its dict of `terms`."""
        return cls((" ".join(f"{p}{q}" for q, p in term), c) for term, c in qubit_operator.terms.items())

    def to_openfermion(self, cls: Any) -> Any:
        """The sum as an instance of `cls`, which is openfermion.QubitOperator."""
        result = cls()
        for string, coefficient in self:
            result += cls(tuple((q, string.letter(q)) for q in string.qubits), coefficient)
        return result

    @classmethod
    def from_qiskit(cls, sparse_pauli_op: Any) -> PauliSum:
        """The sum of a Qiskit SparsePauliOp, or anything with its `paulis.x`, `paulis.z` and `coeffs`."""
        if not hasattr(sparse_pauli_op, "paulis"):
            kind = type(sparse_pauli_op).__name__
            raise TypeError(f"from_qiskit takes a SparsePauliOp, not {kind}; SparsePauliOp(...) makes one of Paulis")
        paulis = sparse_pauli_op.paulis
        return cls.from_masks(masks.from_bits(paulis.x), masks.from_bits(paulis.z), sparse_pauli_op.coeffs)

    def to_qiskit(self, cls: Any, num_qubits: int | None = None) -> Any:
        """The sum as an instance of `cls`, which is qiskit.quantum_info.SparsePauliOp."""
        width = _checked_width(self, num_qubits)
        return cls.from_list([(string.label(width), c) for string, c in self], num_qubits=width)

    @property
    def x(self) -> masks.Words:
        """Masks of the qubits with X or Y: uint64, shape (terms, words), qubits 64w to 64w + 63 in word w."""
        return self._x

    @property
    def z(self) -> masks.Words:
        """Masks of the qubits with Z or Y, as `x`."""
        return self._z

    @property
    def coefficients(self) -> NDArray[np.complex128]:
        """The coefficients, complex128, read-only."""
        return self._coefficients

    @property
    def key(self) -> bytes:
        """Bytes that are the same for the same strings and coefficients in the same order, and for no others: what was
        computed for one sum is found by them for another that says the same."""
        try:
            return self._key
        except AttributeError:
            digest = hashlib.blake2b(digest_size=16)
            for array in (self._x, self._z, self._coefficients):
                digest.update(repr(array.shape).encode())
                digest.update(np.ascontiguousarray(array).data)
            self._key = digest.digest()
            return self._key

    @property
    def num_qubits(self) -> int:
        """One more than the highest qubit any string acts on; 0 for multiples of the identity."""
        try:
            return self._num_qubits
        except AttributeError:
            used = np.bitwise_or.reduce(self._x | self._z, axis=0, keepdims=True)
            self._num_qubits = masks.unpack(used)[0].bit_length()
            return self._num_qubits

    def simplify(self, tolerance: float = 1e-12) -> PauliSum:
        """Merge equal strings, then drop coefficients not above `tolerance` times the largest one before merging.

        Terms keep the order in which their strings first appear.
        """
        if not len(self):
            return self
        order, starts = masks.runs(self._x, self._z)
        merged = np.add.reduceat(self._coefficients[order], starts)
        first = order[starts]
        kept = np.flatnonzero(np.abs(merged) > tolerance * np.abs(self._coefficients).max())
        kept = kept[np.argsort(first[kept])]
        return PauliSum._of(self._x[first[kept]], self._z[first[kept]], merged[kept])

    def adjoint(self) -> PauliSum:
        """The Hermitian conjugate: conjugated coefficients."""
        return PauliSum._of(self._x, self._z, self._coefficients.conj())

    def is_hermitian(self, tolerance: float = 1e-12) -> bool:
        """Whether all coefficients, once merged, are real up to `tolerance` times the largest one."""
        merged = self.simplify(0).coefficients
        return bool((np.abs(merged.imag) <= tolerance * np.abs(merged).max(initial=0)).all())

    def is_commuting(self) -> bool:
        """Whether every two of its strings commute."""
        x, z = self._x, self._z
        return not any(masks.anticommute(x[k:], z[k:], x[k], z[k]).any() for k in range(len(self)))

    def relabel(self, qubits: Sequence[int]) -> PauliSum:
        """The same sum with qubit i moved to qubits[i].

        Raises:
            CircuitError: if `qubits` names a qubit twice or is too short for the sum.
            TypeError: if it is no list of integers.
        """
        places = masks.checked_qubits(qubits)
        if len(set(places)) != len(places) or any(not 0 <= q < masks.MAX_QUBITS for q in places):
            raise CircuitError(f"qubits must be different and between 0 and {masks.MAX_QUBITS - 1}, got {places}")
        if len(places) < self.num_qubits:
            raise CircuitError(f"{len(places)} qubits were given for a sum on {self.num_qubits}")
        moved = []
        for words in (self._x, self._z):
            bits = np.zeros((len(self), max(places, default=0) + 1), dtype=bool)
            bits[:, places] = masks.to_bits(masks.widen(words, -(-len(places) // 64)))[:, : len(places)]
            moved.append(masks.from_bits(bits))
        return PauliSum._of(moved[0], moved[1], self._coefficients)

    def group_qubit_wise_commuting(self) -> list[PauliSum]:
        """Sums of strings that share a measurement basis: on every qubit the same letter or an identity.

        Greedy: terms go by decreasing size of their coefficient into the first group they fit (sorted insertion,
        Crawford et al., Quantum 5, 385 (2021)). `measurement_basis` of a group gives its letters.
        """
        order = np.argsort(-np.abs(self._coefficients), kind="stable")
        return [self[part] for part in grouping.qubit_wise_commuting(self._x, self._z, order)]

    def measurement_basis(self) -> PauliString:
        """The string that has every letter of a qubit-wise commuting sum.

        Raises:
            CircuitError: if two strings have different letters on one qubit.
        """
        x = np.bitwise_or.reduce(self._x, axis=0, keepdims=True)
        z = np.bitwise_or.reduce(self._z, axis=0, keepdims=True)
        if (((x ^ self._x) | (z ^ self._z)) & (self._x | self._z)).any():
            raise CircuitError(
                "the strings do not commute qubit by qubit; measure the parts of group_qubit_wise_commuting()"
            )
        return PauliString.from_masks(masks.unpack(x)[0], masks.unpack(z)[0])

    def group_by_flips(self) -> list[PauliSum]:
        """Sums of strings with one x mask each: they permute the amplitudes alike and differ in phases."""
        return [self[part] for part in grouping.by_flips(self._x)]

    def to_matrix(self, num_qubits: int | None = None) -> NDArray[np.complex128]:
        """The dense matrix on qubits 0 to num_qubits - 1 (as few as the sum needs when not given).

        Raises:
            CircuitError: if the sum acts on more qubits, or the matrix would pass 14 qubits (4 GiB).
            MemoryError: if the matrix does not fit into what is free.
        """
        width = _checked_width(self, num_qubits)
        if width > _DENSE_QUBITS:
            raise CircuitError(
                f"a dense matrix of {width} qubits needs {16 << 2 * width - 30} GiB; "
                f"at most {_DENSE_QUBITS} qubits are made dense"
            )
        # The matrix, and its rows by flips while they are transformed.
        check_matrix(width, 1 + 2 * min(len(self), 1 << width) / (1 << width))
        return dense.to_matrix(self._x[:, :1], self._z[:, :1], self._coefficients, width)

    def allclose(self, other: PauliSum, tolerance: float = 1e-9) -> bool:
        """Whether every coefficient, once merged, differs by at most `tolerance`."""
        if not isinstance(other, Operator | numbers.Complex):
            raise TypeError(f"a PauliSum is compared with another, with a PauliString or a number, not with {other!r}")
        difference = (self - other).simplify(0).coefficients
        return bool((np.abs(difference) <= tolerance).all())

    def __eq__(self, other: object) -> bool:
        """Whether both are the same operator, to the last bit; `allclose` allows for rounding."""
        if isinstance(other, PauliString):
            other = other._sum()
        if not isinstance(other, PauliSum):
            return NotImplemented
        # Each side is merged by itself first, so that equal sums of equal terms cancel exactly.
        return not len((self.simplify(0) - other.simplify(0)).simplify(0))

    __hash__ = None  # type: ignore[assignment]

    def __len__(self) -> int:
        """The number of terms."""
        return len(self._coefficients)

    def __iter__(self) -> Iterator[tuple[PauliString, complex]]:
        """The terms as (PauliString, coefficient) pairs."""
        for x, z, c in zip(masks.unpack(self._x), masks.unpack(self._z), self._coefficients.tolist()):
            yield PauliString.from_masks(x, z), c

    @overload
    def __getitem__(self, index: int) -> tuple[PauliString, complex]: ...
    @overload
    def __getitem__(self, index: slice | NDArray[Any]) -> PauliSum: ...
    def __getitem__(self, index: int | slice | NDArray[Any]) -> tuple[PauliString, complex] | PauliSum:
        """A term as a pair, or the sum of a slice or of an index array."""
        if isinstance(index, int | np.integer):
            x, z = (masks.unpack(words[index][None])[0] for words in (self._x, self._z))
            return PauliString.from_masks(x, z), complex(self._coefficients[index])
        return PauliSum._of(self._x[index], self._z[index], self._coefficients[index])

    def __reduce__(self) -> tuple[Any, ...]:
        return PauliSum._of, (self._x, self._z, self._coefficients)

    def __str__(self) -> str:
        """All terms: "-1 * Z0 Z1 + 0.5 * X3"."""
        terms = " + ".join(f"{text.coefficient(c)} * {string}" for string, c in self)
        return terms.replace(" + -", " - ") or "0"

    def _repr_latex_(self) -> str:
        """What notebooks show: the first 30 terms as a formula."""
        terms = " + ".join(f"{text.coefficient(c)}\\,{_formula(string)}" for string, c in self[:30])
        more = f" + \\ldots\\ ({len(self)}\\textrm{{ terms}})" if len(self) > 30 else ""
        return f"${terms.replace(' + -', ' - ') or 0}{more}$"

    def __repr__(self) -> str:
        if len(self) > 8:
            return f"<PauliSum of {len(self)} terms on {self.num_qubits} qubits>"
        pairs = [(f'"{string}"', repr(c if c.imag else c.real)) for string, c in self]
        if len(dict(pairs)) < len(pairs):
            return "PauliSum([" + ", ".join(f"({string}, {c})" for string, c in pairs) + "])"
        return "PauliSum({" + ", ".join(f"{string}: {c}" for string, c in pairs) + "})"


def _checked_width(terms: PauliString | PauliSum, num_qubits: int | None) -> int:
    """The number of qubits to write an operator on."""
    needed = terms.num_qubits
    if num_qubits is None:
        return needed
    try:
        num_qubits = operator.index(num_qubits)
    except TypeError:
        raise CircuitError(f"the number of qubits must be an int; got {num_qubits!r}") from None
    if num_qubits < needed:
        raise CircuitError(f"the operator acts on qubit {needed - 1}; {num_qubits} qubits are too few")
    return num_qubits
