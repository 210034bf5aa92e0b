"""The reference simulator: dense NumPy in complex128, the definition that every executor is tested against.

It is meant to be obviously right, and fast enough for about 14 qubits. A state is a tensor with one axis of
length 2 a qubit. Qubit 0 is the least significant bit of an amplitude's index, so qubit q is axis -1 - q;
axes in front of the qubits' carry several states along. Differentiation is forward mode, by the product rule
with the gates' derivative matrices: it shares nothing with the adjoint method.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from qdist.circuit import GATES, Circuit, CircuitError, Expression, Gate, Instruction, Parameter
from qdist.circuit.binding import ParameterValues
from qdist.circuit.data_gates import DiagonalGate, PauliRotationGate, PermutationGate
from qdist.circuit.matrices import check_matrix

State = NDArray[np.complex128]

# Larger ones are refused before they take gigabytes.
_MAX_QUBITS = 20
_MAX_UNITARY_QUBITS = 12

# Outcomes less likely than this are taken as rounding errors of impossible ones.
_IMPOSSIBLE = 1e-14


class Branch(NamedTuple):
    """One sequence of outcomes of a circuit with measurements: its probability, bits and state."""

    probability: float
    clbits: tuple[int, ...]
    state: State


class Run(NamedTuple):
    """The result of one execution: the state, and the value of each classical bit."""

    state: State
    clbits: tuple[int, ...]


def state(circuit: Circuit, params: ParameterValues | None = None, initial: ArrayLike | None = None) -> State:
    """The 2**n amplitudes after the circuit, started in |0...0> or in the amplitudes `initial`.

    Raises CircuitError where the outcome is random: measurements and resets are allowed only of qubits whose
    value is certain. `branches` and `run` are for the others; `circuit.remove_final_measurements()` drops
    those at the end.
    """
    outcomes = branches(circuit, params, initial)
    if len(outcomes) > 1:
        raise CircuitError(
            f"the circuit measures or resets at random and can end in {len(outcomes)} ways; use run() for "
            "one, branches() for all, or remove_final_measurements() for the state before the last ones"
        )
    return outcomes[0].state


def branches(circuit: Circuit, params: ParameterValues | None = None, initial: ArrayLike | None = None) -> list[Branch]:
    """All branches of a circuit with measurements and resets, with their exact probabilities.

    Branches that differ in nothing that can be observed (equal classical bits, states equal up to a phase) may
    appear as one.
    """
    bound = _bound(circuit, params)
    tree = [Branch(1.0, (0,) * bound.num_clbits, _start(bound.num_qubits, initial))]
    for instruction in bound:
        tree = [outcome for branch in tree for outcome in _step(branch, instruction)]
    return [branch._replace(state=branch.state.reshape(-1)) for branch in tree]


def run(
    circuit: Circuit,
    params: ParameterValues | None = None,
    seed: int | np.random.Generator | None = None,
    initial: ArrayLike | None = None,
) -> Run:
    """One execution, with the outcomes of measurements drawn at random from `seed`."""
    rng = np.random.default_rng(seed)
    bound = _bound(circuit, params)
    branch = Branch(1.0, (0,) * bound.num_clbits, _start(bound.num_qubits, initial))
    for instruction in bound:
        outcomes = _step(branch, instruction)
        if len(outcomes) > 1:
            weights = np.array([outcome.probability for outcome in outcomes])
            outcomes = [outcomes[rng.choice(len(outcomes), p=weights / weights.sum())]]
        branch = outcomes[0]
    return Run(branch.state.reshape(-1), branch.clbits)


def unitary(circuit: Circuit, params: ParameterValues | None = None) -> State:
    """The 2**n by 2**n matrix of a circuit without measurement, reset or initialisation."""
    bound = _bound(circuit, params, limit=_MAX_UNITARY_QUBITS)
    check_matrix(bound.num_qubits, 3)
    size = 1 << bound.num_qubits
    columns = np.eye(size, dtype=np.complex128).reshape((size,) + (2,) * bound.num_qubits)
    for instruction in _unconditional(bound):
        if not instruction.gate.is_unitary:
            raise CircuitError(f"a circuit with {instruction.gate.name} has no unitary")
        columns = _apply(columns, instruction)
    return columns.reshape(size, size).T


def probabilities(state: ArrayLike, qubits: Sequence[int] | None = None) -> NDArray[np.float64]:
    """The probabilities of the values of `qubits` (default: all), indexed with qubits[0] as bit 0."""
    weights = np.abs(np.asarray(state, dtype=np.complex128)) ** 2
    num_qubits = _num_qubits(weights)
    chosen = list(range(num_qubits)) if qubits is None else list(qubits)
    if len(set(chosen)) != len(chosen) or not all(0 <= q < num_qubits for q in chosen):
        raise CircuitError(f"qubits must be different and from 0 to {num_qubits - 1}; got {chosen}")
    kept = [num_qubits - 1 - q for q in reversed(chosen)]
    summed = [axis for axis in range(num_qubits) if axis not in kept]
    return weights.reshape((2,) * num_qubits).transpose(kept + summed).reshape(1 << len(kept), -1).sum(axis=1)


def sample(state: ArrayLike, shots: int, seed: int | np.random.Generator | None = None) -> NDArray[np.int64]:
    """`shots` basis-state indices, drawn independently with the state's probabilities."""
    weights = probabilities(state)
    return np.random.default_rng(seed).choice(len(weights), size=shots, p=weights / weights.sum())


def expectation(circuit_or_state: Circuit | ArrayLike, observable: Any, params: ParameterValues | None = None) -> float:
    """The expectation value of a Hermitian observable, in a state or after a circuit.

    `observable` is a 2**n by 2**n matrix, a PauliSum, or an object with `to_matrix(num_qubits)`. After a
    circuit that measures, the value is the average over all outcomes.
    """
    if isinstance(circuit_or_state, Circuit):
        outcomes = branches(circuit_or_state, params)
        return sum(probability * _mean(observable, ket) for probability, _, ket in outcomes)
    return _mean(observable, np.asarray(circuit_or_state, dtype=np.complex128))


def state_jacobian(circuit: Circuit, params: ParameterValues | None = None, initial: ArrayLike | None = None) -> State:
    """The derivatives of the amplitudes, of shape (2**n, number of parameters).

    The columns are in the order of `circuit.parameters`. Raises CircuitError for circuits that measure or
    reset, or that initialize qubits after a parameter was used.
    """
    return _state_and_jacobian(circuit, params, initial)[1]


def gradient(
    circuit: Circuit,
    observable: Any,
    params: ParameterValues | None = None,
    initial: ArrayLike | None = None,
) -> NDArray[np.float64]:
    """The derivatives of an observable's expectation value, in the order of `circuit.parameters`.

    Raises CircuitError as `state_jacobian` does.
    """
    ket, jacobian = _state_and_jacobian(circuit, params, initial)
    return 2 * (_observed(observable, ket).conj() @ jacobian).real


def _state_and_jacobian(
    circuit: Circuit, params: ParameterValues | None, initial: ArrayLike | None
) -> tuple[State, State]:
    column: dict[Parameter, int] = {}  # In the order of first use: behind these, all derivatives are still zero.
    bound = _bound(circuit, params)
    values = dict(zip(circuit.parameters, circuit.parameter_values([] if params is None else params)))
    ket = _start(circuit.num_qubits, initial)
    tangents = np.zeros((len(circuit.parameters),) + ket.shape, dtype=np.complex128)
    for symbolic, instruction in zip(_unconditional(circuit), _unconditional(bound)):
        gate = instruction.gate
        used = tangents[: len(column)]
        if gate.kind == "initialize" and not used.any():
            outcomes = _step(Branch(1.0, (), ket), instruction)
            if len(outcomes) > 1:
                raise CircuitError("initialize acts on entangled qubits; the state after it is random")
            ket = outcomes[0].state
            continue
        if not gate.is_unitary:
            raise CircuitError(f"a circuit with {gate.name} cannot be differentiated here")
        used[:] = _apply(used, instruction)
        for k, param in enumerate(symbolic.params):
            if isinstance(param, Expression):
                change = _apply(ket, instruction, derivative=k)
                for parameter in param.parameters:
                    row = column.setdefault(parameter, len(column))
                    tangents[row] += _derivative(param, parameter, values) * change
        ket = _apply(ket, instruction)
    for parameter in circuit.parameters:
        column.setdefault(parameter, len(column))
    ordered = tangents[[column[parameter] for parameter in circuit.parameters]]
    return ket.reshape(-1), ordered.reshape(len(column), ket.size).T


def _derivative(angle: Expression, parameter: Parameter, values: dict[Parameter, float]) -> float:
    """By one parameter: its coefficient, or a central difference of fourth order where functions depend on it."""
    if not any(symbol != parameter and parameter in symbol.parameters for symbol in angle.terms):
        return angle.terms[parameter]
    step = 1e-3
    near, far = (
        float(angle.bind(values | {parameter: values[parameter] + m * step}))
        - float(angle.bind(values | {parameter: values[parameter] - m * step}))
        for m in (1, 2)
    )
    return (8 * near - far) / (12 * step)


def _unconditional(circuit: Circuit) -> Iterator[Instruction]:
    """The instructions that run where all classical bits are still 0, without their conditions."""
    bits = (0,) * circuit.num_clbits
    for instruction in circuit:
        if not instruction.gate.is_directive and all(test.holds(bits) for test in instruction.condition):
            yield instruction._replace(condition=())


def _step(branch: Branch, instruction: Instruction) -> list[Branch]:
    """The branches after one instruction."""
    gate = instruction.gate
    if gate.is_directive or not all(test.holds(branch.clbits) for test in instruction.condition):
        return [branch]
    if gate.kind == "measure":
        (clbit,) = instruction.clbits
        before, after = branch.clbits[:clbit], branch.clbits[clbit + 1 :]
        return [
            outcome._replace(clbits=(*before, value, *after))
            for value, outcome in _measured(branch, instruction.qubits[0])
        ]
    if gate.kind in ("reset", "initialize"):
        outcomes = [branch]
        for qubit in instruction.qubits:
            outcomes = [after for outcome in outcomes for after in _reset(outcome, qubit)]
        if gate.kind == "initialize":
            outcomes = [o._replace(state=_prepared(o.state, gate, instruction.qubits)) for o in outcomes]
        return outcomes
    return [branch._replace(state=_apply(branch.state, instruction))]


def _measured(branch: Branch, qubit: int) -> list[tuple[int, Branch]]:
    """The possible values of a qubit, each with the normalised state after it was found."""
    outcomes = []
    for value in (0, 1):
        projected = np.zeros_like(branch.state)
        selection = (..., value) + (slice(None),) * qubit
        projected[selection] = branch.state[selection]
        weight = float(np.vdot(projected, projected).real)
        if weight > _IMPOSSIBLE:
            after = projected / math.sqrt(weight)
            outcomes.append((value, Branch(branch.probability * weight, branch.clbits, after)))
    return outcomes


def _reset(branch: Branch, qubit: int) -> list[Branch]:
    outcomes = []
    for value, outcome in _measured(branch, qubit):
        flipped = np.flip(outcome.state, -1 - qubit) if value else outcome.state
        outcomes.append(outcome._replace(state=flipped))
    if len(outcomes) == 2:
        first, second = outcomes
        # A qubit that was entangled with nothing leaves the same state behind whichever value it had.
        if abs(np.vdot(first.state, second.state)) > 1 - 1e-12:
            return [first._replace(probability=first.probability + second.probability)]
    return outcomes


def _prepared(tensor: State, gate: Gate, qubits: tuple[int, ...]) -> State:
    """The state with `qubits`, which are all |0>, in the state that an initialize gate holds."""
    if isinstance(gate.data, int):
        amplitudes = np.zeros(1 << gate.num_qubits, dtype=np.complex128)
        amplitudes[gate.data] = 1
    elif gate.data.ndim == 2:
        amplitudes = np.ones(1, dtype=np.complex128)
        for single in gate.data:
            amplitudes = np.kron(single, amplitudes)
    else:
        amplitudes = gate.data
    return _on(tensor, qubits, lambda state: state[..., :1] * amplitudes)


def _apply(tensor: State, instruction: Instruction, derivative: int | None = None) -> State:
    """A gate, or its derivative with respect to one of its angles, applied to a tensor."""
    gate, qubits, params, *_ = instruction
    controls, targets = qubits[: gate.num_controls], qubits[gate.num_controls :]
    if not controls:
        return _apply_base(tensor, gate.base, targets, params, derivative)
    selection = [slice(None)] * tensor.ndim
    for i, control in enumerate(controls):
        value = gate.ctrl_state >> i & 1
        selection[-1 - control] = slice(value, value + 1)
    selected = tuple(selection)
    # Where the controls have other values the gate is the identity, and its derivative zero.
    result = tensor.copy() if derivative is None else np.zeros_like(tensor)
    result[selected] = _apply_base(tensor[selected], gate.base, targets, params, derivative)
    return result


def _apply_base(
    tensor: State, gate: Gate, targets: tuple[int, ...], params: tuple[Any, ...], derivative: int | None
) -> State:
    # Three kinds of gate may be as wide as the state, where their matrix would not fit.
    if isinstance(gate, PauliRotationGate):
        (angle,) = params
        cosine, sine = math.cos(angle / 2), math.sin(angle / 2)
        if derivative is not None:
            cosine, sine = -sine / 2, cosine / 2
        return cosine * tensor - 1j * sine * _apply_pauli(tensor, dict(zip(targets, reversed(gate.data))))
    if isinstance(gate, DiagonalGate):
        return _on(tensor, targets, lambda amplitudes: amplitudes * gate.data)
    if isinstance(gate, PermutationGate):
        # |i> becomes |data[i]>, so the amplitude found at data[i] is the one that was at i.
        return _on(tensor, targets, lambda amplitudes: amplitudes[..., np.argsort(gate.data)])
    matrix = gate.matrix(*params) if derivative is None else gate.derivative(derivative, *params)
    return _on(tensor, targets, partial(_multiplied, matrix=matrix))


def _multiplied(amplitudes: State, matrix: State) -> State:
    return amplitudes @ matrix.T


def _apply_pauli(tensor: State, letters: Mapping[int, str]) -> State:
    """A Pauli string, given by the letter on each of its qubits."""
    for qubit, letter in letters.items():
        if letter != "I":
            tensor = _on(tensor, (qubit,), partial(_multiplied, matrix=GATES[letter.lower()].matrix()))
    return tensor


def _on(tensor: State, qubits: Sequence[int], function: Callable[[State], State]) -> State:
    """`function` of the tensor with the qubits' axes as one, the second of two, whose index has qubits[0] as bit 0."""
    last = [tensor.ndim - 1 - q for q in reversed(qubits)]
    order = [axis for axis in range(tensor.ndim) if axis not in last] + last
    moved = tensor.transpose(order)
    # One matrix of two axes: NumPy would multiply the many small ones of a tensor of many axes one by one.
    changed = function(moved.reshape(-1, 1 << len(last)))
    return changed.reshape(moved.shape).transpose(sorted(range(tensor.ndim), key=order.__getitem__))


def _observed(observable: Any, ket: State) -> State:
    """The observable applied to a state vector."""
    num_qubits = _num_qubits(ket)
    if not hasattr(observable, "to_matrix"):
        observable = np.asarray(observable)
        if observable.shape != (ket.size, ket.size):
            raise CircuitError(
                f"the matrix of an observable of {num_qubits} qubits has shape ({ket.size}, {ket.size}); "
                f"got {observable.shape}"
            )
        return observable @ ket
    if not isinstance(observable, Iterable):
        return _observed(observable.to_matrix(num_qubits), ket)
    tensor, total = ket.reshape((2,) * num_qubits), np.zeros_like(ket)
    for string, coefficient in observable:
        if string.num_qubits > num_qubits:
            raise CircuitError(f"the observable acts on {string.num_qubits} qubits; the state has {num_qubits}")
        letters = {qubit: string.letter(qubit) for qubit in string.qubits}
        total += coefficient * _apply_pauli(tensor, letters).reshape(-1)
    return total


def _mean(observable: Any, ket: State) -> float:
    value = np.vdot(ket, _observed(observable, ket))
    if abs(value.imag) > 1e-9 * (1 + abs(value)):
        raise CircuitError(f"the observable is not Hermitian: its expectation value is {value:.6g}")
    return float(value.real)


def _bound(circuit: Circuit, params: ParameterValues | None, limit: int = _MAX_QUBITS) -> Circuit:
    if circuit.num_qubits > limit:
        raise CircuitError(
            f"the reference simulator takes up to {limit} qubits here; the circuit has {circuit.num_qubits}"
        )
    return circuit.bind(circuit.parameter_values({} if params is None else params))


def _start(num_qubits: int, initial: ArrayLike | None) -> State:
    ket = np.zeros(1 << num_qubits, dtype=np.complex128)
    if initial is None:
        ket[0] = 1
    else:
        given = np.asarray(initial, dtype=np.complex128)
        if given.shape != ket.shape:
            raise CircuitError(f"the initial state of {num_qubits} qubits has shape {ket.shape}; got {given.shape}")
        ket[:] = given
    return ket.reshape((2,) * num_qubits)


def _num_qubits(ket: np.ndarray) -> int:
    if ket.ndim != 1 or ket.size == 0 or ket.size & (ket.size - 1):
        raise CircuitError(f"a state vector has shape (2**n,); got {ket.shape}")
    return ket.size.bit_length() - 1
