"""Derivatives of tapes by the adjoint sweep: vector-Jacobian products in one sweep for all measurements, Jacobians."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pennylane as qml
from numpy.typing import NDArray
from pennylane.tape import QuantumScript

from qdist.program import adjoint, initial_states
from qdist.state.moves.relayout import relayout
from qdist.state.outputs import Output

from . import rows
from .binding import bound
from .execution import outputs_of
from .operations import gives_amplitudes
from .outputs import OfAnyNorm
from .tapes import Compiler, TapeProgram, places

__all__ = ["Gradients", "jacobian", "jvp", "vjp", "vjps"]


class Gradients(tuple[Any, ...]):
    """Derivatives by the trainable parameters of a tape, whose shapes may differ: some are batched, some are not.

    PennyLane asks NumPy for the shape of all of them together, which is that of a list of things.
    """

    several: tuple[int, ...] = ()
    """The axis of the cotangents, if there are several."""
    axis = 0
    """Where that axis is in each derivative: behind the rows of a batch whose rows all have the same cotangents."""

    def squeeze(self) -> NDArray[Any]:
        return np.empty(len(self), dtype=object)


def vjps(
    tapes: Sequence[QuantumScript],
    cotangents: Sequence[Any],
    compiler: Compiler,
    wires: Any,
    per_row: bool = False,
    conjugate: bool = False,
) -> tuple[Gradients, ...]:
    """The ``vjp`` of each tape. Where some have several cotangents, and others one, as a Jacobian of the results of one
    tape gives zero to those that it does not depend on, the derivatives of these are repeated."""
    found = [vjp(tape, g, compiler, wires, per_row, conjugate) for tape, g in zip(tapes, cotangents)]
    most = max(found, key=lambda gradients: len(gradients.several), default=Gradients())
    return tuple(one if one.several else _repeated(one, most) for one in found) if most.several else tuple(found)


def _repeated(found: Gradients, like: Gradients) -> Gradients:
    axes = range(like.axis, like.axis + len(like.several))
    shapes = [entry.shape[: like.axis] + like.several + entry.shape[like.axis :] for entry in found]
    return Gradients(np.broadcast_to(np.expand_dims(e, tuple(axes)), shape) for e, shape in zip(found, shapes))


def vjp(
    tape: QuantumScript,
    cotangents: Any,
    compiler: Compiler,
    wires: Any,
    per_row: bool = False,
    conjugate: bool = False,
) -> Gradients:
    """The vector-Jacobian product by each trainable parameter, of the parameter's shape.

    Args:
        tape: its measurements are expectation values, variances, probabilities, or the state.
        cotangents: of its result's structure and shape; for a complex value a + ib: dL/da - i dL/db, as PennyLane has
            it.
        per_row: whether parameters that all rows of a batch share get a derivative for each row, rather than their sum.
        conjugate: whether the derivative by a complex parameter a + ib is dL/da + i dL/db, as torch has it.
    """
    found, place, theta, starts = bound(tape, compiler, wires)
    outputs = _differentiable(tape, place)
    given = (cotangents,) if len(tape.measurements) == 1 else cotangents
    checked = [_cotangent(output, g) for output, g in zip(outputs, given)]
    shapes = [theta.shape[:-1] + _shape(output, found) for output in outputs]
    rows_first = False
    if per_row and theta.ndim == 2:
        checked, rows_first = _several_first(checked, shapes, len(theta))
    extra = max((g.shape[: g.ndim - len(shape)] for g, shape in zip(checked, shapes)), key=len, default=())
    checked = [np.broadcast_to(_aligned(g, shape, extra), extra + shape) for g, shape in zip(checked, shapes)]
    by_start = None
    if not tape.trainable_params or not any(np.any(g) for g in checked):
        gradient = np.zeros(extra + theta.shape)
    elif starts is not None and _is_start_trainable(tape):
        gradient, by_start = _by_start(tape, found, outputs, theta, checked, starts, extra)
    elif extra:
        # Several cotangents of one tape, as jax.jacobian has them, are rows of one batch.
        many = np.broadcast_to(theta, extra + theta.shape).reshape(-1, theta.shape[-1])
        flat = [g.reshape(len(many), *_shape(output, found)) for output, g in zip(outputs, checked)]
        repeated = starts
        if starts is not None and starts.ndim == 2:
            repeated = np.broadcast_to(starts, extra + starts.shape).reshape(-1, starts.shape[-1])
        gradient = found.vjp(outputs, many, flat, repeated).reshape(extra + theta.shape)
    else:
        columns = found.row_columns(tape.operations) if theta.ndim == 2 and not per_row else None
        gradient = _swept(found, outputs, theta, checked, starts, columns)
    if by_start is not None and not conjugate:
        by_start = by_start.conj()
    result = _by_parameter(tape, found, gradient, theta.ndim - 1, per_row, by_start)
    if rows_first:
        result = Gradients(entry.swapaxes(0, 1) if entry.ndim > 1 else entry for entry in result)
    result.several, result.axis = extra, int(rows_first)
    return result


def jacobian(tape: QuantumScript, compiler: Compiler, wires: Any) -> Any:
    """The derivatives of every measurement by every trainable parameter, in PennyLane's nested tuples.

    An entry has the shape of the measurement's value. For a batch it has the batch in front, and is the derivative of a
    row's value by the row's parameter.
    """
    if _is_start_trainable(tape):
        raise qml.exceptions.DeviceError(
            f"{tape.operations[0].name} has vector-Jacobian products by its amplitudes here, no Jacobians: call "
            "the device through a QNode, which takes those"
        )
    found, place, theta, starts = bound(tape, compiler, wires)
    outputs = _differentiable(tape, place)
    rows = np.atleast_2d(theta)
    gradients = [_jacobian(found, output, rows, starts) for output in outputs]
    columns = []
    for entry in gradients:
        by_angle = found.all_angles(entry if theta.ndim == 2 else entry[0])
        columns.append([_entry(tape, found, by_angle, k) for k in tape.trainable_params])
    nested = tuple(column[0] if len(column) == 1 else tuple(column) for column in columns)
    return nested[0] if len(nested) == 1 else nested


def jvp(tape: QuantumScript, tangents: Sequence[Any], compiler: Compiler, wires: Any) -> Any:
    """The Jacobian-vector product: for each measurement the change of its value along the tangents."""
    nested = jacobian(tape, compiler, wires)
    columns = (nested,) if len(tape.measurements) == 1 else nested
    results = []
    for mp, column in zip(tape.measurements, columns):
        entries = (column,) if len(tape.trainable_params) == 1 else column
        terms = [_times(entry, np.asarray(tangent)) for entry, tangent in zip(entries, tangents)]
        shape = mp.shape(shots=None, num_device_wires=len(places(tape, wires)))
        results.append(sum(terms) if terms else np.zeros(shape, mp.numeric_type))
    return results[0] if len(results) == 1 else tuple(results)


def _times(entry: NDArray[Any], tangent: NDArray[Any]) -> NDArray[Any]:
    return entry * tangent.reshape(tangent.shape + (1,) * (np.ndim(entry) - tangent.ndim))


def _differentiable(tape: QuantumScript, place: Any) -> list[Any]:
    if tape.shots:
        raise qml.exceptions.DeviceError(
            "samples have no adjoint derivative: differentiate a QNode with shots by diff_method='parameter-shift'"
        )
    outputs = outputs_of(tape, place)
    for mp, output in zip(tape.measurements, outputs):
        if output is None:
            raise qml.exceptions.DeviceError(
                f"{mp} has no adjoint derivative on qdist.qubit: call the device through a QNode, which takes it from "
                "the derivative of the state"
            )
    return outputs


def _cotangent(output: Output, given: Any) -> NDArray[Any]:
    """In our convention: dL/da + i dL/db."""
    array = np.asarray(given)
    return array.conj() if _is_complex(output) else array.real


def _is_complex(output: Output) -> bool:
    return np.dtype(output.dtype).kind == "c"


def _shape(output: Output, found: TapeProgram) -> tuple[int, ...]:
    return output.shape(found.program.num_qubits)


def _several_first(
    cotangents: Sequence[NDArray[Any]], shapes: Sequence[tuple[int, ...]], rows: int
) -> tuple[list[NDArray[Any]], bool]:
    """The cotangents of a batch that jax.vmap has made, with the axis of several of them, if they have one, in front of
    that of the rows; and whether the rows come first in the derivatives, as ``jax.vmap(jax.jacrev(f))`` has them.

    shapes: (rows, *output), of each measurement. Those of ``vmap(jacrev)`` are (rows, several, *output), or (several,
    *output) where all rows have the same; those of ``jacrev(vmap)`` are (several, rows, *output).
    """
    axes = [g.shape[: g.ndim + 1 - len(shape)] for g, shape in zip(cotangents, shapes)]
    most = max(axes, key=len, default=())
    longest = [g for g, own in zip(cotangents, axes) if len(own) == len(most)]
    if len(most) == 2:
        rows_first = most[0] == rows and most[1] != rows
        if most == (rows, rows) and any(np.any(g[~np.eye(rows, dtype=bool)]) for g in longest):
            raise qml.exceptions.DeviceError(
                f"a Jacobian of {rows} numbers and a batch of {rows} rows under jax.vmap: their axes cannot be told "
                "apart here. Give the circuit batches of another size, or map it by jax.lax.map"
            )
    else:
        # As many as there are rows are one a row, unless they are the basis, each number's one behind the other, that
        # Jacobians are made of; so is one of one row, as of a mean.
        is_one_each = most == (rows,) and (rows == 1 or not _is_basis(longest))
        rows_first = len(most) == 1 and not is_one_each
    if not rows_first:
        return list(cotangents), False
    found = []
    for g, own, shape in zip(cotangents, axes, shapes):
        several = g.swapaxes(0, 1) if len(own) == 2 else np.expand_dims(g, len(own))
        found.append(np.broadcast_to(several, (most[-1], *shape)))
    return found, True


def _is_basis(cotangents: Sequence[NDArray[Any]]) -> bool:
    return np.array_equal(np.hstack([g.reshape(len(g), -1) for g in cotangents]), np.eye(len(cotangents[0])))


def _aligned(cotangent: NDArray[Any], shape: tuple[int, ...], extra: tuple[int, ...]) -> NDArray[Any]:
    """A cotangent that may lack the extra axes, or have its own axes flattened."""
    for whole in (extra + shape, shape):
        if cotangent.size == math.prod(whole):
            return cotangent.reshape(whole)
    return cotangent


def _swept(
    found: TapeProgram,
    outputs: Sequence[Any],
    theta: NDArray[np.float64],
    cotangents: Sequence[Any],
    starts: NDArray[Any] | None,
    columns: Sequence[int] | None,
) -> NDArray[np.float64]:
    """One adjoint sweep; from the state of the forward run, if that is still there. columns: of a batch whose shared
    parameters get the sum over all rows, those that are not shared."""
    if columns is not None and rows.takes(found, outputs, starts):
        gradient = rows.gradient(found, outputs, theta, columns, cotangents)
        if gradient is not None:
            return gradient
    program, kept = found.program, found.kept
    found.kept = None
    if kept is not None and np.array_equal(kept[0], theta):
        runner, _ = program.for_gradients_at(theta).bind_for(outputs, theta)
        if runner is kept[1]:
            ket = found.workspace
            assert ket is not None, "it was kept"
            relayout(ket, kept[2])
            return adjoint.vjp(program, outputs, theta, cotangents, [ket])[1]
    return found.vjp(outputs, theta, cotangents, starts)


def _is_start_trainable(tape: QuantumScript) -> bool:
    """Whether the first parameter is trainable, and amplitudes that the tape begins with."""
    return 0 in tape.trainable_params and gives_amplitudes(tape.operations)


def _by_start(
    tape: QuantumScript,
    found: TapeProgram,
    outputs: Sequence[Any],
    theta: NDArray[np.float64],
    cotangents: Sequence[NDArray[Any]],
    starts: NDArray[Any],
    extra: tuple[int, ...],
) -> tuple[NDArray[np.float64], NDArray[Any]]:
    """The gradients by the program's parameters, and by the amplitudes a + ib that the tape begins with, dL/da + i
    dL/db: of all rows."""
    every = extra + theta.shape[:-1]
    count = math.prod(every)
    many = np.broadcast_to(theta, every + theta.shape[-1:]).reshape(count, theta.shape[-1])
    begun = np.broadcast_to(starts, every + starts.shape[-1:]).reshape(count, starts.shape[-1])
    # Of cotangents that are given by one number kernels take a copy.
    flat = [np.asarray(g.reshape(count, *_shape(output, found)), order="C") for output, g in zip(outputs, cotangents)]
    own_outputs = [OfAnyNorm(output) for output in outputs]
    _, gradient, states = initial_states.vjp(found.program, own_outputs, many, flat, begun, by_states=True)
    assert states is not None, "they were asked for"
    order, wires = found.order, tape.operations[0].wires
    assert order is not None, "the tape begins with amplitudes"
    # All other wires begin in 0.
    own = states.reshape(count, *(2,) * len(order))[(slice(None), *(slice(None) if w in wires else 0 for w in order))]
    kept = [wire for wire in order if wire in wires]
    own = own.transpose(0, *(1 + kept.index(wire) for wire in wires))
    return gradient.reshape(every + theta.shape[-1:]), own.reshape(*every, 1 << len(wires))


def _jacobian(found: TapeProgram, output: Any, theta: NDArray[np.float64], starts: NDArray[Any] | None) -> NDArray[Any]:
    """The derivatives of all numbers of one output by the program's parameters, a sweep each: shape (rows, *output,
    parameters)."""
    shape = _shape(output, found)
    count, rows = math.prod(shape), len(theta)
    directions = [np.eye(count), 1j * np.eye(count)] if _is_complex(output) else [np.eye(count)]
    repeated = starts if starts is None or starts.ndim == 1 else np.repeat(starts, count, axis=0)
    found_parts = []
    for direction in directions:
        cotangent = np.tile(direction, (rows, 1)).reshape(rows * count, *shape)
        gradient = found.vjp([output], np.repeat(theta, count, axis=0), [cotangent], repeated)
        found_parts.append(gradient.reshape(rows, *shape, theta.shape[1]))
    return found_parts[0] if len(found_parts) == 1 else found_parts[0] + 1j * found_parts[1]


def _entry(tape: QuantumScript, found: TapeProgram, by_angle: NDArray[Any], index: int) -> NDArray[Any]:
    slot = found.slots[index] if index < len(found.slots) else -1
    return np.zeros(by_angle.shape[:-1], by_angle.dtype) if slot < 0 else np.array(by_angle[..., slot])


def _by_parameter(
    tape: QuantumScript,
    found: TapeProgram,
    gradient: NDArray[Any],
    batched: int,
    per_row: bool,
    by_start: NDArray[Any] | None,
) -> Gradients:
    """Derivatives by the angles as derivatives by the trainable parameters; those of observables are 0.

    ``batched``: 1 where the last axis but one is that of the batch, over which parameters of all rows are summed.
    ``by_start``: those by the amplitudes that the tape begins with.
    """
    by_angle = found.all_angles(gradient)
    if by_angle.ndim == 1 and -1 not in found.slots and all(k < len(found.slots) for k in tape.trainable_params):
        return Gradients(by_angle[[found.slots[k] for k in tape.trainable_params]])
    totals = by_angle.sum(axis=-2) if batched else by_angle
    result = []
    for index, datum in zip(tape.trainable_params, tape.get_parameters()):
        slot = found.slots[index] if index < len(found.slots) else -1
        if index == 0 and by_start is not None:
            shared = batched and not per_row and np.ndim(datum) == 1
            entry = by_start.sum(axis=-2) if shared else by_start
            result.append(entry if "complex" in qml.math.get_dtype_name(datum) else entry.real)
        elif slot < 0:
            result.append(np.zeros((by_angle if per_row else totals).shape[:-1] + np.shape(datum)))
        else:
            result.append(by_angle[..., slot] if per_row or np.ndim(datum) else totals[..., slot])
    return Gradients(np.array(entry) for entry in result)
