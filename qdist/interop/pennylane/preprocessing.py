"""What happens to a tape before it runs: which operations and measurements are accepted, and PennyLane's transforms."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from functools import partial
from typing import Any

import numpy as np
import pennylane as qml
from pennylane.devices.preprocess import (
    decompose,
    device_resolve_dynamic_wires,
    validate_adjoint_trainable_params,
    validate_device_wires,
    validate_measurements,
)
from pennylane.measurements import (
    ClassicalShadowMP,
    ExpectationMP,
    MeasurementProcess,
    ProbabilityMP,
    SampleMeasurement,
    ShadowExpvalMP,
    StateMeasurement,
    StateMP,
    VarianceMP,
)
from pennylane.operation import Operator
from pennylane.ops import Conditional, MidMeasure, Sum
from pennylane.ops.functions import bind_new_parameters
from pennylane.tape import QuantumScript
from pennylane.transforms import broadcast_expand, defer_measurements, split_to_single_terms
from pennylane.transforms.core import CompilePipeline, transform

from . import operations
from .measurements import on_positions, wire_order
from .tapes import places, standard_order

__all__ = ["NAME", "pipeline", "supports_adjoint"]

NAME = "qdist.qubit"


def pipeline(wires: Any, mcm_method: str | None, adjoint: bool, equal_shapes: bool = False) -> CompilePipeline:
    """PennyLane's transforms for tapes on these wires (None: any).

    equal_shapes: whether the trainable parameters of a tape must have one shape.
    """
    program = CompilePipeline()
    deferred = mcm_method in (None, "deferred")
    if deferred:
        program.add_transform(defer_measurements, allow_postselect=not adjoint)
    accepted = partial(_accepted, allow_mcms=not deferred, adjoint=adjoint)
    if wires is None:
        program.add_transform(_name_all_wires_where_none_are_named, accepted=accepted, allow_resets=not deferred)
    program.add_transform(
        decompose, stopping_condition=accepted, decomposer=operations.decomposition, device_wires=wires, name=NAME
    )
    program.add_transform(device_resolve_dynamic_wires, wires=wires, allow_resets=not deferred)
    program.add_transform(validate_device_wires, wires, name=NAME)
    program.add_transform(
        validate_measurements, analytic_measurements=_is_analytic, sample_measurements=_is_sampled, name=NAME
    )
    program.add_transform(_expand_where_rows_differ_in_more_than_angles)
    if adjoint:
        program.add_transform(_validate_trainable_parameters)
        program.add_transform(_split_sums_with_trained_coefficients)
        program.add_transform(_divide_by_how_measurements_are_differentiated, wires=wires)
        if equal_shapes:
            program.add_transform(_give_every_row_its_own_parameters)
    return program


def _accepted(op: Operator, allow_mcms: bool, adjoint: bool) -> bool:
    """Whether an operation is left as it is."""
    if operations.all_in_table((op,)):
        return True
    if isinstance(op, MidMeasure):
        return allow_mcms
    if isinstance(op, Conditional):
        return allow_mcms and _accepted(op.base, False, adjoint)
    if isinstance(op, qml.Projector):
        return not adjoint and isinstance(op, qml.ops.qubit.observables.BasisStateProjector)
    if op.name in ("Allocate", "Deallocate"):
        return True
    if adjoint and operations.num_angles(op) == 0 and any(qml.math.requires_grad(datum) for datum in op.data):
        return False  # A matrix is differentiated through the angles that it is made of.
    return operations.is_native(op) and not operations.forgets_control_values(op)


@transform
def _name_all_wires_where_none_are_named(
    tape: QuantumScript, accepted: Callable[[Operator], bool], allow_resets: bool
) -> Any:
    """Measurements of all wires with those wires in PennyLane's standard order, which is that of operations as large as
    they come: when all of them are decomposed, others may be first, or some gone."""
    unnamed = [k for k, mp in enumerate(tape.measurements) if mp.obs is None and mp.mv is None and not mp.wires]
    if not unnamed:
        return (tape,), _first
    if not operations.all_in_table(tape.operations):
        large = partial(_accepted_or_matrix, accepted=accepted)
        ((tape,), _) = decompose(tape, stopping_condition=large, name=NAME)
        ((tape,), _) = device_resolve_dynamic_wires(tape, wires=None, allow_resets=allow_resets)
    order = qml.wires.Wires(standard_order(tape))
    named = list(tape.measurements)
    for k in unnamed:
        named[k] = copy(named[k])
        named[k]._wires = order
    return (tape.copy(measurements=named, trainable_params=tape.trainable_params),), _first


def _accepted_or_matrix(op: Operator, accepted: Callable[[Operator], bool]) -> bool:
    return accepted(op) or op.has_matrix or op.has_sparse_matrix


def _is_analytic(mp: MeasurementProcess) -> bool:
    return isinstance(mp, StateMeasurement) and (mp.obs is None or _has_values(mp.obs))


def _is_sampled(mp: MeasurementProcess) -> bool:
    if not isinstance(mp, SampleMeasurement | ClassicalShadowMP | ShadowExpvalMP):
        return False
    return mp.obs is None or _can_be_rotated(mp.obs)


def _has_values(obs: Operator) -> bool:
    if obs.pauli_rep is not None:
        return True
    if isinstance(obs, qml.ops.CompositeOp):
        return all(_has_values(operand) for operand in obs.operands)
    return obs.has_matrix or obs.has_sparse_matrix


def _can_be_rotated(obs: Operator) -> bool:
    if isinstance(obs, qml.ops.CompositeOp):
        return all(_can_be_rotated(operand) for operand in obs.operands)
    if isinstance(obs, qml.ops.SymbolicOp):
        return _can_be_rotated(obs.base)
    return obs.has_diagonalizing_gates


@transform
def _expand_where_rows_differ_in_more_than_angles(tape: QuantumScript) -> Any:
    """One tape for each row of a batch, where rows have matrices or states of their own, or measure mid-circuit."""
    if not _needs_rows(tape) or tape.batch_size is None:
        return (tape,), _first
    return broadcast_expand(tape)


def _needs_rows(tape: QuantumScript) -> bool:
    if any(isinstance(mp, ClassicalShadowMP | ShadowExpvalMP) for mp in tape.measurements):
        return True
    if operations.all_in_table(tape.operations):
        return False
    begun = bool(tape.operations) and operations.is_amplitudes(tape.operations[0])
    return any(_has_branches_or_data(op) for op in tape.operations[1 if begun else 0 :])


def _has_branches_or_data(op: Operator) -> bool:
    if isinstance(op, MidMeasure | Conditional | qml.Projector):
        return True
    return op.num_params > 0 and operations.num_angles(op) == 0 and op.batch_size is not None


@transform
def _validate_trainable_parameters(tape: QuantumScript) -> Any:
    """PennyLane's validation, but of amplitudes that the tape begins with and of observables: both have derivatives."""
    begun = operations.gives_amplitudes(tape.operations)
    validate_adjoint_trainable_params(tape.copy(ops=tape.operations[1 if begun else 0 :], measurements=[]))
    return (tape,), _first


@transform
def _split_sums_with_trained_coefficients(tape: QuantumScript) -> Any:
    """Expectation values of Pauli strings where the coefficients of sums of them are differentiated, which the user's
    framework multiplies."""
    trained = [mp.obs for mp in tape.measurements if isinstance(mp, ExpectationMP) and _is_trained(mp)]
    # Coefficients of other operators come without their derivatives.
    if tape.shots or not trained or any(obs.pauli_rep is None for obs in trained):
        return (tape,), _first
    return split_to_single_terms(tape)


def _is_trained(mp: MeasurementProcess) -> bool:
    """Whether numbers of the observable are differentiated; of PennyLane's NumPy those are boxes, not arrays."""
    data = () if mp.obs is None else mp.obs.data
    return any(qml.math.requires_grad(datum) and not isinstance(datum, np.ndarray) for datum in data)


@transform
def _give_every_row_its_own_parameters(tape: QuantumScript) -> Any:
    """A batch with all angles repeated for its rows: the framework sums the derivatives of those that rows share."""
    if tape.batch_size is None:
        return (tape,), _first
    ones = np.ones(tape.batch_size)
    ops = []
    for op in tape.operations:
        if op.batch_size is None and operations.num_angles(op):
            op = bind_new_parameters(op, [qml.math.multiply(datum, ones) for datum in op.data])
        ops.append(op)
    return (tape.copy(ops=ops),), _first


@transform
def _divide_by_how_measurements_are_differentiated(tape: QuantumScript, wires: Any) -> Any:
    """A tape for the measurements that are outputs of the adjoint sweep; one for probabilities in each other basis,
    with the rotation to it as operations; and one that measures the state in the place of all others, whose values
    PennyLane computes from it in the user's framework, which differentiates them."""
    natives = [k for k, mp in enumerate(tape.measurements) if _is_differentiable(mp)]
    # Of tapes that run together, as snapshots of a circuit do, those with shots have values and no derivatives.
    if tape.shots or len(natives) == len(tape.measurements):
        return (tape,), _first
    if not any(qml.math.requires_grad(datum) for datum in tape.get_parameters(trainable_only=False)):
        return (tape,), _first
    rotated = [k for k, mp in enumerate(tape.measurements) if isinstance(mp, ProbabilityMP) and mp.obs is not None]
    others = [k for k in range(len(tape.measurements)) if k not in natives and k not in rotated]
    tapes = [tape.copy(measurements=[tape.measurements[k] for k in natives])] if natives else []
    for k in rotated:
        mp = tape.measurements[k]
        ops = [*tape.operations, *mp.diagonalizing_gates()]
        tapes.append(tape.copy(ops=ops, measurements=[ProbabilityMP(wires=mp.wires)]))
    place = places(tape, wires)
    from_state = [on_positions(tape.measurements[k], place) for k in others]
    if others:
        tapes.append(tape.copy(measurements=[StateMP(wires=wire_order(place))]))

    def measured(results: Sequence[Any]) -> Any:
        found: dict[int, Any] = {}
        left = list(results)
        if natives:
            first = left.pop(0)
            found.update(zip(natives, (first,) if len(natives) == 1 else first))
        found.update(zip(rotated, left))
        if others:
            found.update((k, _value(mp, left[-1], len(place))) for k, mp in zip(others, from_state))
        return found[0] if len(found) == 1 else tuple(found[k] for k in range(len(found)))

    return tuple(tapes), measured


def _value(mp: MeasurementProcess, state: Any, num_wires: int) -> Any:
    """The value of a measurement in a state, or those in rows of states, computed in the framework of the state."""
    if mp.obs is None:
        return mp.process_state(state, qml.wires.Wires(range(num_wires)))
    if isinstance(mp, ExpectationMP) and isinstance(mp.obs, Sum):  # On all of its wires its matrix may be too large.
        return sum(_value(ExpectationMP(operand), state, num_wires) for operand in mp.obs.operands)
    # By the matrix, not by eigenvectors as PennyLane does: these have no derivatives where two eigenvalues are equal.
    math, wires = qml.math, list(mp.obs.wires)
    matrix = math.cast(mp.obs.matrix(), math.get_dtype_name(state))
    # The state is NumPy's where the circuit itself has nothing to differentiate.
    state, matrix = math.coerce([state, matrix], like=math.get_interface(state, matrix))
    rows, own = math.shape(state)[:-1], 1 << len(wires)
    others = [wire for wire in range(num_wires) if wire not in wires]
    tensor = math.transpose(math.reshape(state, (-1, *(2,) * num_wires)), [0, *(1 + wire for wire in others + wires)])
    ket = math.reshape(tensor, (-1, (1 << num_wires) // own, own))
    image = ket @ math.transpose(matrix, (1, 0))
    mean = math.sum(math.real(math.conj(ket) * image), axis=(-2, -1))
    if isinstance(mp, VarianceMP):
        mean = math.sum(math.real(math.conj(image) * image), axis=(-2, -1)) - mean**2
    return math.reshape(mean, rows)


def _is_differentiable(mp: MeasurementProcess) -> bool:
    if isinstance(mp, ExpectationMP | VarianceMP):
        return mp.obs is not None and not _is_trained(mp)
    return type(mp) is StateMP or (isinstance(mp, ProbabilityMP) and mp.obs is None and mp.mv is None)


def _first(results: Sequence[Any]) -> Any:
    return results[0]


def supports_adjoint(tape: QuantumScript, wires: Any) -> bool:
    """Whether a tape can be differentiated by the adjoint method: all of it is unitary, and nothing is sampled."""
    if tape.shots:
        return False
    if operations.all_in_table(tape.operations) or all(_is_plain(op) for op in tape.operations):
        return True
    try:
        pipeline(wires, "deferred", adjoint=True)((tape,))
    except _REFUSED:
        return False
    return True


def _is_plain(op: Operator) -> bool:
    """Whether it can be seen without taking it apart that an operation is differentiable."""
    if _accepted(op, allow_mcms=False, adjoint=True):
        return op.name not in ("Allocate", "Deallocate")
    return type(op).__module__.startswith(("pennylane.templates.layers", "pennylane.templates.embeddings.angle"))


_REFUSED = (
    qml.exceptions.AllocationError,
    qml.exceptions.DecompositionUndefinedError,
    qml.exceptions.DeviceError,
    qml.exceptions.QuantumFunctionError,
    ValueError,
)
