"""Gate: one immutable row that says everything the rest of qdist asks about an operation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal, TypeAlias

import numpy as np

from ..native import kernels
from .errors import CircuitError
from .matrices import Matrix, check_matrix, pauli_matrix
from .parameters import Angle

Kind: TypeAlias = Literal["gate", "measure", "reset", "barrier", "initialize", "channel", "readout"]
Params: TypeAlias = tuple[Angle, ...]

FORMULAS: dict[str, int] = {name: number for number, (name, *_) in enumerate(kernels.formulas)}
"""The numbers of the formulas that the kernels know."""


class Gate:
    """What an instruction does, without the qubits and angles it does it to.

    Attributes:
        name: the OpenQASM or Qiskit name; controlled gates without one get a name made from the base's.
        kind: "gate" for everything unitary, else "measure", "reset", "barrier" or "initialize".
        num_qubits: controls and targets together. The first `num_controls` qubits are the controls.
        num_params, num_clbits: how many angles and classical bits it takes.
        ctrl_state: bit i is the value that control i must have.
        base: the gate without its controls (itself, when it has none).
        is_diagonal: the matrix is diagonal, whatever the angles.
        diagonal_qubits: the positions, controls included, on which it is diagonal: it commutes with Z there.
        is_permutation: the matrix holds only zeros and ones.
        x_like_qubits: the positions on which it commutes with X, whatever the angles; () for a gate that carries data.
        is_real: the matrix is real, whatever the angles.
        is_pure: every entry of the matrix is real or imaginary, whatever the angles.
        pauli: the letters of P, the first qubit's first, where the gate is exp(-i t/2 P) of its one angle t; else None.
        formula: the number of the kernels' formula (native.kernels.formulas) for its matrix; 0 if they have none.
        qasm2_name, qasm3_name: its name in qelib1.inc and in stdgates.inc, None where those lack it.
        symbol: what a drawing shows on the targets.
        data: what it carries besides angles (matrix, diagonal, permutation, Pauli label, state), or None.

    Matrices are complex128 over all the gate's qubits, the first of which is the index's lowest bit.
    """

    __slots__ = (
        "base",
        "ctrl_state",
        "data",
        "diagonal_qubits",
        "formula",
        "is_diagonal",
        "is_permutation",
        "is_pure",
        "is_real",
        "kind",
        "name",
        "num_clbits",
        "num_controls",
        "num_params",
        "num_qubits",
        "pauli",
        "qasm2_name",
        "qasm3_name",
        "symbol",
        "x_like_qubits",
    )

    name: str
    kind: Kind
    num_qubits: int
    num_params: int
    num_clbits: int
    num_controls: int
    ctrl_state: int
    base: Gate
    is_diagonal: bool
    diagonal_qubits: tuple[int, ...]
    is_permutation: bool
    x_like_qubits: tuple[int, ...]
    is_real: bool
    is_pure: bool
    pauli: str | None
    formula: int
    qasm2_name: str | None
    qasm3_name: str | None
    symbol: str
    data: Any

    def __init__(
        self,
        name: str,
        num_qubits: int,
        num_params: int = 0,
        *,
        kind: Kind = "gate",
        num_clbits: int = 0,
        num_controls: int = 0,
        ctrl_state: int = 0,
        base: Gate | None = None,
        diagonal_qubits: Sequence[int] = (),
        is_permutation: bool = False,
        x_like_qubits: Sequence[int] = (),
        is_real: bool = False,
        is_pure: bool = False,
        pauli: str | None = None,
        formula: int = 0,
        qasm2_name: str | None = None,
        qasm3_name: str | None = None,
        symbol: str | None = None,
        data: Any = None,
    ) -> None:
        diagonal_qubits = tuple(diagonal_qubits)
        self._set(
            name=name,
            num_qubits=num_qubits,
            num_params=num_params,
            kind=kind,
            num_clbits=num_clbits,
            num_controls=num_controls,
            ctrl_state=ctrl_state,
            base=self if base is None else base,
            is_diagonal=kind == "gate" and len(diagonal_qubits) == num_qubits,
            diagonal_qubits=diagonal_qubits,
            is_permutation=is_permutation,
            x_like_qubits=tuple(x_like_qubits),
            is_real=is_real,
            is_pure=is_pure,
            pauli=pauli,
            formula=formula,
            qasm2_name=qasm2_name,
            qasm3_name=qasm3_name,
            symbol=name if symbol is None else symbol,
            data=data,
        )

    def _set(self, **values: Any) -> None:
        for attribute, value in values.items():
            object.__setattr__(self, attribute, value)

    def __setattr__(self, attribute: str, value: Any) -> None:
        raise AttributeError(f"a Gate is immutable; {attribute!r} of {self.name!r} cannot be set")

    @property
    def is_unitary(self) -> bool:
        """Whether the gate has a matrix; measure, reset, barrier and initialize have none."""
        return self.kind == "gate"

    @property
    def is_directive(self) -> bool:
        """Whether it changes no state: a barrier only orders what is around it."""
        return self.kind == "barrier"

    @property
    def is_identity(self) -> bool:
        """Whether it changes no state because its matrix is the identity, whatever the angles."""
        return self.is_diagonal and self.is_permutation

    @property
    def num_targets(self) -> int:
        """Qubits that are not controls."""
        return self.num_qubits - self.num_controls

    @property
    def generator(self) -> Matrix | None:
        """G, where the gate is exp(-i t/2 G) of its one angle t; None for gates of another form."""
        return None

    def matrix(self, *params: Angle) -> Matrix:
        """The matrix at these angles. Raises CircuitError for unbound angles, and where there is none."""
        raise self._lacks("matrix", "matrix(*params)")

    def derivative(self, k: int, *params: Angle) -> Matrix:
        """The derivative of the matrix with respect to angle `k`, at these angles."""
        raise self._lacks("derivative", "derivative(k, *params)")

    def diagonal(self, *params: Angle) -> np.ndarray:
        """The diagonal of a diagonal gate, without its matrix."""
        if not self.is_diagonal:
            raise CircuitError(f"{self.name} is not diagonal; use matrix()")
        return self.matrix(*params).diagonal().copy()

    def inverse(self, params: Params = ()) -> tuple[Gate, Params]:
        """The gate and the angles that undo this gate at `params`."""
        raise self._lacks("inverse", "inverse(params)")

    def controlled(self, num_controls: int = 1, ctrl_state: int | str | None = None) -> Gate:
        """The gate under `num_controls` more controls, which come before its own qubits.

        Bit i of `ctrl_state` (an int, or a bit string with the highest control first) is the value that new
        control i must have; None means all ones. `x.controlled(2)` is the table's own ccx.
        """
        if not self.is_unitary:
            raise CircuitError(f"{self.name} is not unitary and cannot be controlled")
        new_state = check_ctrl_state(num_controls, ctrl_state)
        state = self.ctrl_state << num_controls | new_state
        return _control(self.base, num_controls + self.num_controls, state)

    def _floats(self, params: Sequence[Angle]) -> list[float]:
        if len(params) != self.num_params:
            raise CircuitError(f"{self.name} takes {self.num_params} parameters; got {len(params)}")
        return [float(param) for param in params]

    def _check_index(self, k: int) -> None:
        if not 0 <= k < self.num_params:
            raise CircuitError(f"{self.name} has {self.num_params} parameters; there is no parameter {k}")

    def _lacks(self, what: str, method: str) -> CircuitError:
        if not self.is_unitary:
            return CircuitError(f"{self.name} is not unitary and has no {what}")
        return CircuitError(
            f"{self.name} is a gate of one's own without {what}: give its class, {type(self).__name__}, a method "
            f"{method}, or make it by unitary_gate, generator_gate or matrix_gate of qdist.circuit"
        )

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, Gate):
            return NotImplemented
        if self._key() != other._key():
            return False
        own = self.base is self and self.data is None and type(self).matrix is not Gate.matrix
        if own and not standard_name(self):
            # A gate of one's own: its class does not say what an instance does.
            angles = [0.6180339887 + 0.7320508075 * k for k in range(self.num_params)]
            return np.array_equal(self.matrix(*angles), other.matrix(*angles))
        return np.array_equal(self.data, other.data) if self.base is self else self.base == other.base

    def __hash__(self) -> int:
        return hash(self._key())

    def _key(self) -> tuple[Any, ...]:
        # With the class: a gate of one's own may have the name of another.
        return type(self), self.name, self.num_qubits, self.num_controls, self.ctrl_state

    def __copy__(self) -> Gate:
        return self

    def __deepcopy__(self, memo: Any) -> Gate:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        if not standard_name(self):
            raise CircuitError(
                f"a {type(self).__name__} named {self.name!r} is a gate of one's own and cannot be pickled: give its "
                "class a __reduce__, or make it by matrix_gate"
            )
        return named_gate, (self.name,)

    def __repr__(self) -> str:
        return f"<Gate {self.name}: {self.num_qubits} qubits, {self.num_params} parameters>"


class StandardGate(Gate):
    """A gate with a formula: a row of the table, without controls."""

    __slots__ = ("_derivative", "_formula", "_generator", "_inverse")

    _formula: Callable[..., Matrix]
    _derivative: Callable[..., Matrix] | None
    _generator: Matrix | None
    _inverse: Callable[[StandardGate, Params], tuple[Gate, Params]]

    def __init__(
        self,
        name: str,
        formula: Callable[..., Matrix] | Matrix,
        num_params: int,
        inverse: Callable[[StandardGate, Params], tuple[Gate, Params]],
        *,
        derivative: Callable[..., Matrix] | None = None,
        generator: Matrix | None = None,
        pauli: str | None = None,
        **facts: Any,
    ) -> None:
        function: Callable[..., Matrix] = formula if callable(formula) else lambda: formula
        # The structure is what is left at angles with no special relation to each other.
        generic = function(*(0.6180339887 + 0.7320508075 * k for k in range(num_params)))
        num_qubits = generic.shape[0].bit_length() - 1
        indices = np.arange(len(generic))
        x_like = [k for k in range(num_qubits) if np.allclose(generic[indices ^ 1 << k][:, indices ^ 1 << k], generic)]
        if pauli is not None:
            generator = pauli_matrix(pauli)
        self._set(_formula=function, _derivative=derivative, _generator=generator, _inverse=inverse)
        facts.update(structure(generic), x_like_qubits=x_like, pauli=pauli, formula=FORMULAS.get(name, 0))
        super().__init__(name, num_qubits, num_params, **facts)

    @property
    def generator(self) -> Matrix | None:
        return self._generator

    def matrix(self, *params: Angle) -> Matrix:
        return self._formula(*self._floats(params))

    def derivative(self, k: int, *params: Angle) -> Matrix:
        self._check_index(k)
        angles = self._floats(params)
        if self._generator is not None:
            return -0.5j * (self._generator @ self._formula(*angles))
        assert self._derivative is not None  # a row with angles has one or the other
        return self._derivative(k, *angles)

    def inverse(self, params: Params = ()) -> tuple[Gate, Params]:
        return self._inverse(self, params)


class ControlledGate(Gate):
    """A gate under controls: the base where the controls have their values, the identity elsewhere."""

    __slots__ = ()

    def __init__(self, base: Gate, num_controls: int, ctrl_state: int, name: str, **facts: Any) -> None:
        super().__init__(
            name,
            base.num_qubits + num_controls,
            base.num_params,
            num_controls=num_controls,
            ctrl_state=ctrl_state,
            base=base,
            diagonal_qubits=(*range(num_controls), *(q + num_controls for q in base.diagonal_qubits)),
            is_permutation=base.is_permutation,
            x_like_qubits=[q + num_controls for q in base.x_like_qubits],
            is_real=base.is_real,
            is_pure=base.is_pure,
            symbol=facts.pop("symbol", base.symbol),
            data=base.data,
            **facts,
        )

    @property
    def generator(self) -> Matrix | None:
        generator = self.base.generator
        return None if generator is None else self._embed(generator, 0.0)

    def matrix(self, *params: Angle) -> Matrix:
        return self._embed(self.base.matrix(*params), 1.0)

    def derivative(self, k: int, *params: Angle) -> Matrix:
        return self._embed(self.base.derivative(k, *params), 0.0)

    def diagonal(self, *params: Angle) -> np.ndarray:
        diagonal = np.ones(1 << self.num_qubits, dtype=np.complex128)
        diagonal[self._selected()] = self.base.diagonal(*params)
        return diagonal

    def inverse(self, params: Params = ()) -> tuple[Gate, Params]:
        base, params = self.base.inverse(params)
        return _control(base, self.num_controls, self.ctrl_state), params

    def _selected(self) -> slice:
        # The controls are the low bits, so the indices on which they have their values are evenly spaced.
        return slice(self.ctrl_state, None, 1 << self.num_controls)

    def _embed(self, inner: Matrix, elsewhere: float) -> Matrix:
        check_matrix(self.num_qubits)
        size = 1 << self.num_qubits
        matrix = np.zeros((size, size), dtype=np.complex128)
        np.fill_diagonal(matrix, elsewhere)
        matrix[self._selected(), self._selected()] = inner
        return matrix

    def __reduce__(self) -> tuple[Any, ...]:
        return _control, (self.base, self.num_controls, self.ctrl_state)


def structure(matrix: Matrix) -> dict[str, Any]:
    """What a matrix shows: diagonal_qubits, is_permutation, is_real, is_pure. Zeros count only when exact."""
    rows, columns = np.nonzero(matrix)
    mixed = int(np.bitwise_or.reduce(rows ^ columns))
    num_qubits = matrix.shape[0].bit_length() - 1
    return {
        "diagonal_qubits": tuple(q for q in range(num_qubits) if not mixed >> q & 1),
        "is_permutation": len(rows) == matrix.shape[0] and bool(np.all(matrix[rows, columns] == 1)),
        "is_real": not np.any(matrix.imag),
        "is_pure": not np.any(matrix.real * matrix.imag),
    }


def check_ctrl_state(num_controls: int, ctrl_state: int | str | None) -> int:
    """`ctrl_state` as an int; raises CircuitError unless it fits `num_controls` controls."""
    if not isinstance(num_controls, int | np.integer) or num_controls < 0:
        raise CircuitError(f"the number of controls must be an int >= 0; got {num_controls!r}")
    if ctrl_state is None:
        return (1 << num_controls) - 1
    if isinstance(ctrl_state, str):
        if len(ctrl_state) != num_controls or set(ctrl_state) - {"0", "1"}:
            raise CircuitError(f"ctrl_state {ctrl_state!r} must be a string of {num_controls} characters 0 or 1")
        return int(ctrl_state or "0", 2)
    if not isinstance(ctrl_state, int | np.integer) or not 0 <= ctrl_state < 1 << num_controls:
        raise CircuitError(
            f"ctrl_state {ctrl_state!r} must be an int from 0 to {(1 << num_controls) - 1} for {num_controls} controls"
        )
    return int(ctrl_state)


# Gates that have a name of their own and carry no data; gates.py fills it.
NAMED: dict[str, Gate] = {}

# Controlled forms of the table's gates made so far, so that equal gates are one object.
_CONTROLLED: dict[tuple[Gate, int, int], Gate] = {}


def standard_name(gate: Gate) -> str:
    """The gate's name if it is a row of the table; "" for others, which may have any name."""
    return gate.name if NAMED.get(gate.name) is gate else ""


def named_gate(name: str) -> Gate:
    """The gate of that name, as pickles ask for it."""
    return NAMED[name]


def register_controlled(name: str, base: Gate, num_controls: int = 1, **facts: Any) -> Gate:
    """Make a controlled gate that has a name of its own, and let `controlled` find it."""
    state = (1 << num_controls) - 1
    gate = ControlledGate(base, num_controls, state, name, **facts)
    _CONTROLLED[base, num_controls, state] = gate
    return gate


def _control(base: Gate, num_controls: int, ctrl_state: int) -> Gate:
    if num_controls == 0:
        return base
    if base is NAMED["gphase"] and ctrl_state >> (num_controls - 1):
        # A phase on the condition that a qubit is 1 is the phase gate on that qubit.
        return _control(NAMED["p"], num_controls - 1, ctrl_state ^ 1 << (num_controls - 1))
    key = (base, num_controls, ctrl_state)
    named = bool(standard_name(base))
    gate = _CONTROLLED.get(key) if named else None
    if gate is None:
        name = f"c{num_controls if num_controls > 1 else ''}{base.name}"
        if ctrl_state != (1 << num_controls) - 1:
            name += f"_o{ctrl_state}"
        gate = ControlledGate(base, num_controls, ctrl_state, name)
        if named:
            _CONTROLLED[key] = gate
    return gate
