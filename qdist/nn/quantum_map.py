"""CircuitMap: a circuit as a function of rows of features and of weights, and its derivatives. What layers share.

Rows of small circuits go to the kernels of batches (program/rows.py), with the weights shared by all rows; what those
do not take runs row by row. A layer of another framework is this function under that framework's names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from threading import local
from typing import Any, NamedTuple
from weakref import WeakValueDictionary, ref

import numpy as np
from numpy.typing import NDArray

from qdist.backends import on_host
from qdist.program import adjoint, batches
from qdist.program.program import Program
from qdist.program.rows import Reading, RowProgram
from qdist.program.runner import Runner
from qdist.state.checking import checks, same
from qdist.state.moves.relayout import relayout
from qdist.state.outputs import Expectation, Output, values
from qdist.state.statevector import StateVector

from ..comm import Communicator
from ..plan import Layout
from .quantum_outputs import Columns
from .quantum_parameters import Division

__all__ = ["CircuitMap", "Kept"]

_BATCH_BYTES = 1 << 26
"""Of the states that are computed at once."""


class CircuitMap:
    """(batch, features) and weights in, (batch, numbers of all outputs) out.

    Arrays are NumPy's or, on a GPU, CuPy's, of which ``xp`` is the module. Weights are those of all rows, (weights,);
    ``forward_each`` and the derivatives of second order also take (batch, weights), those of every row. Values that are
    not finite raise StateError on the CPU, and give NaN on a GPU.

    in_rows: whether batches may go to the kernels of rows.
    """

    def __init__(self, program: Program, outputs: list[Output], division: Division, in_rows: bool = True) -> None:
        self.program, self.outputs, self.division = program, outputs, division
        self.columns = Columns(outputs, program.num_qubits)
        self.in_rows = in_rows
        self._rows = self._row_program()
        self._alone: dict[np.dtype[Any], tuple[Any, Any]] = {}

    def _row_program(self) -> tuple[RowProgram, Reading] | None:
        """The circuit for rows of x, with the weights shared, where batches run so; and what is read from them."""
        programs = self.program.row_programs
        if not self.in_rows or not programs.takes(self.outputs):
            return None
        rows = programs.of(self.division.row_columns, self.division.shared_columns)
        return rows, rows.reading(self.outputs)

    def __getstate__(self) -> dict[str, Any]:
        # Kernels are made again where the map is copied to or loaded.
        return {name: value for name, value in self.__dict__.items() if name not in ("_rows", "_alone")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._rows, self._alone = self._row_program(), {}

    def takes_rows(self, count: int) -> bool:
        """Whether so many rows go to the kernels of rows, which on a GPU take and give arrays there."""
        return self._rows is not None and not self._is_alone(count)

    def _is_alone(self, count: int) -> bool:
        """Whether there is one row, of a circuit that runs faster by itself than as a batch."""
        return count == 1 and self.program.num_qubits > self.program.row_programs.one_row

    def params(self, x: Any, weights: Any) -> NDArray[np.float64]:
        """One row of the circuit's parameters for every row of x. Raises StateError where one is not finite."""
        given = None if weights is None else on_host(weights)
        params = self.division.parameters(np, on_host(x), given)
        params = same.values(self.program.comm, params, "input and weight")
        return checks.checked_batch(params, params.shape[1])

    def forward(self, xp: Any, x: Any, weights: Any, differentiated: bool = False) -> tuple[Any, Any]:
        """The outputs for every row of x, in its dtype, and what ``backward`` takes. differentiated: whether it will be
        called; of one row and one number the gradient is then computed with it, in one go."""
        if self._rows is None or self._is_alone(len(x)):
            params = self.params(x, weights)
            Kept.drop(self.program.comm)
            if differentiated and self._is_alone(len(x)) and self.columns.width == 1:
                values, gradient = adjoint.vjp(self.program, self.outputs, params[0], self._unit)
                derivatives = Derivatives(*self.division.gradients(gradient[None]))
                return xp.asarray(self.columns.of(values)[None].astype(x.dtype)), derivatives
            found, *kept = self._values(params)
            return xp.asarray(found.astype(x.dtype)), (params, Kept(self.program.comm, *kept))
        rows, reading = self._rows
        comm = self.program.comm
        bound = self.division.of_rows(xp, x, weights)
        Kept.drop(comm)
        read = rows.values(*bound, reading, True)
        if read is None:
            self.params(x, weights)  # Says which value is not finite.
            raise AssertionError("a value is not finite")
        numbers, kets = read
        out = numbers if reading.is_flat else reading.columns.flat(numbers)
        if out.dtype is not x.dtype:
            out = out.astype(x.dtype, copy=False)
        again = self.read_again(xp, x, weights)
        own = None if again and self.division.is_whole else bound
        return out if out.__class__ is x.__class__ else xp.asarray(out), (
            *again,
            (own, numbers, Kept(comm, kets, None)),
        )

    def read_again(self, xp: Any, x: Any, weights: Any) -> tuple[Any, ...]:
        """What of rows and weights ``backward`` reads once more, which must not change until then: x and the weights
        where gradients follow from functions of them, or where kernels read them as they lie on a GPU; else nothing.
        In ``saved`` they come first, as arrays, so that a graph of tensors sees to it."""
        whole_there = xp is not np and self.division.is_whole
        return (x, weights) if whole_there or self.division.has_functions else ()

    def backward(self, xp: Any, g: Any, saved: Any, needs: Sequence[bool]) -> tuple[Any, Any]:
        """The derivatives of a loss by x and by the weights, None where they are not needed; given those by the
        outputs."""
        if saved.__class__ is Derivatives:
            upstream = on_host(g).astype(np.float64)
            return xp.asarray(upstream * saved.by_x), xp.asarray(upstream[0] * saved.by_weights)
        if len(saved) == 2:
            params, kept = saved
            cotangents = self.columns.cotangents(on_host(g).astype(np.float64))
            if self._is_alone(len(params)):
                one = [cotangent[0] for cotangent in cotangents]
                gradient = adjoint.vjp(self.program, self.outputs, params[0], one, kept.take())[1][None]
            else:
                _, gradient = adjoint.vjp(self.program, self.outputs, params, cotangents, kept.take())
            by_x, by_weights = self.division.gradients(gradient)
            return xp.asarray(by_x), xp.asarray(by_weights)
        *again, (own, numbers, kept) = saved
        x, weights = again or (None, None)
        rows, shared = self.division.of_rows(xp, x, weights) if own is None else own
        assert self._rows is not None, "the forward run was of rows"
        program, reading = self._rows
        together = self.division.has_functions
        by_weights = together or (len(needs) > 1 and needs[1])  # Without weights there is one input.
        found = program.vjp(rows, shared, reading, g, together or needs[0], by_weights, numbers, kept.take())
        assert found is not None, "the forward run has checked the values"
        _, by_rows, by_shared = found
        return self.division.gradients_of_rows(xp, x, weights, by_rows, by_shared)

    @cached_property
    def takes_lent(self) -> bool:
        """Whether rows on the host may be given to ``read_lent``: x and the weights are what kernels read as it is."""
        if self._rows is None or not self.program.backend.is_host:
            return False
        return self.division.is_whole and not self._rows[1].columns.has_variances

    def read_lent(self, x: Any, weights: Any) -> tuple[NDArray[Any], Kept]:
        """``forward`` where the kernels of rows take x and the weights as they are lent for the call (see
        ``RowKernel``): the outputs, and the states."""
        assert self._rows is not None, "see takes_lent"
        rows, reading = self._rows
        comm = self.program.comm
        Kept.drop(comm)
        read = rows.values(x, weights, reading, keep=True)
        if read is None:
            self.params(np.from_dlpack(x), np.from_dlpack(weights))  # Says which value is not finite.
            raise AssertionError("a value is not finite")
        return read[0], Kept(comm, read[1], None)

    def pull_back_lent(
        self, x: Any, weights: Any, g: Any, values: NDArray[Any], kept: Kept, needs: Sequence[bool]
    ) -> tuple[Any, Any]:
        """``backward`` of ``read_lent``, with the x and weights of then."""
        assert self._rows is not None, "see takes_lent"
        rows, reading = self._rows
        found = rows.vjp(x, weights, reading, g, needs[0], needs[1], values, kept.take())
        assert found is not None, "the forward run has checked the values"
        return found[1:]

    @property
    def is_number(self) -> bool:
        """Whether ``number`` is the way to a value that will be differentiated: there is one output, of features alone,
        which are the circuit's parameters as they are."""
        return self.columns.width == 1 and self.division.is_plain and not (self.reads_there and self._is_mixed)

    @property
    def reads_there(self) -> bool:
        """Whether a kernel reads the parameters of one row on a GPU: then ``number_there`` is the way."""
        return not self.program.backend.is_host and self.takes_rows(1)

    @property
    def _is_mixed(self) -> bool:
        """Whether there is more than expectation values and gates of parameters."""
        return self.division.has_functions or not all(isinstance(output, Expectation) for output in self.outputs)

    def number_there(self, xp: Any, params: Any) -> tuple[Any, Any]:
        """``number`` for parameters on a GPU, in their dtype, there: without a row that has parameters of its own, as
        ``one_row.vjp`` does it. NaN where a value is not finite."""
        rows = self.program.row_programs.of(())
        if params.dtype not in self._alone:
            self._alone[params.dtype] = xp.empty((1, 0), params.dtype), xp.ones((1, 1), params.dtype)
        row, one = self._alone[params.dtype]
        Kept.drop(self.program.comm)
        found = rows.vjp(row, params, rows.reading(self.outputs), one, by_rows=False)
        assert found is not None, "values on a GPU are not looked at"
        return found[0].reshape(()), found[2]

    def number(self, params: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        """The only number for one row of features, where ``is_number``, and its gradient, in one go."""
        theta = checks.checked_batch(params[None], self.division.in_features)[0]
        Kept.drop(self.program.comm)
        (value,), gradient = adjoint.vjp(self.program, self.outputs, theta, self._unit)
        return float(value), gradient

    def queued_number(self, params: NDArray[Any], dtype: np.dtype[Any]) -> tuple[Any, Any] | None:
        """What ``number`` gives, in arrays on a GPU that has still to compute them; None where the host has a part in
        it."""
        (output,) = self.outputs
        if self.program.backend.is_host or not isinstance(output, Expectation):
            return None
        theta = checks.checked_batch(params[None], self.division.in_features)[0]
        Kept.drop(self.program.comm)
        return adjoint.queued_gradient(self.program, output, theta, dtype)

    @cached_property
    def _unit(self) -> list[Any]:
        """The cotangents of one number by itself."""
        return [cotangent[0] for cotangent in self.columns.cotangents(np.ones((1, 1)))]

    # With weights of all rows or of each, on the host.

    def forward_each(self, x: NDArray[Any], weights: NDArray[Any] | None) -> NDArray[np.float64]:
        """The outputs for every row."""
        found = batches.output_values(self.program, self.outputs, self.params(x, weights))
        return self.columns.of_rows(found)

    def backward_each(
        self, x: NDArray[Any], weights: NDArray[Any] | None, g: NDArray[Any]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """The derivatives by x and by the weights, which have the weights' shape."""
        cotangents = self.columns.cotangents(g.astype(np.float64))
        _, gradient = adjoint.vjp(self.program, self.outputs, self.params(x, weights), cotangents)
        return self._divided(gradient, weights)

    def second(
        self,
        x: NDArray[Any],
        weights: NDArray[Any] | None,
        g: NDArray[Any],
        dx: NDArray[Any],
        dweights: NDArray[Any] | None,
    ) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
        """The changes along tangents, and the derivatives by x and by the weights of the changes' product with g."""
        tangents = self.division.parameters(np, dx, dweights)
        cotangents = self.columns.cotangents(g.astype(np.float64))
        changes, gradient = self.program.curvature(self.outputs, self.params(x, weights), cotangents, tangents)
        return self.columns.of_rows(changes), *self._divided(gradient, weights)

    def _divided(
        self, gradient: NDArray[np.float64], weights: NDArray[Any] | None
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        if weights is None or weights.ndim == 1:
            return self.division.gradients(gradient)
        return self.division.gradients_of_each(gradient)

    def _values(self, params: NDArray[np.float64]) -> tuple[NDArray[np.float64], Any, Layout | None]:
        """The outputs for every row of parameters; the states, if a gradient can go on from them; and their layout, if
        reading may have changed it."""
        # States of which gradients may be computed have the precision that these need.
        program, outputs = self.program.for_gradients, self.outputs
        fit = batches.fit(program, outputs) and not self._is_alone(len(params))
        if fit and not program.backend.is_host:
            return batches.values(program, outputs, program.source.extended(params)), None, None
        if len(params) == 1 and not fit:
            bound, gates = self.program.for_gradients_at(params[0]).bind_for(outputs, params[0])
            ket = bound.evolved()
            layout = ket.layout
            return self.columns.of(values(ket, outputs, gates))[None], [ket], layout
        kets = _batch(program, params) if fit and batches.one_part(program, len(params)) else None
        states = _states(program, params) if kets is None else _loaded(kets, program.device)
        found = np.empty((len(params), self.columns.width))
        for row, state in zip(found, states):
            row[:] = self.columns.of(values(state, outputs))
        return found, kets, None


class Derivatives(NamedTuple):
    """Of one number of one row, which came with it: by x, (1, features), and by the weights."""

    by_x: Any
    by_weights: Any


class Kept:
    """The states of a forward, for its backward: until another forward of its thread on the same ranks, or a backward
    there that has none of its own. Where nothing is recorded, they are gone with the forward.

    So a model of many layers takes no more memory than its gradients do; and what only some ranks run, on their own,
    leaves alone what all of them must find again.
    """

    def __init__(self, comm: Communicator | None, kets: Any, layout: Layout | None) -> None:
        self._comm, self._kets, self._layout = comm, kets, layout
        if comm is None:
            _last.alone = ref(self)
        else:
            _last.kept[comm] = self

    def take(self) -> Any:
        """The states as they came from the runs, if they are still there."""
        kets, self._kets = self._kets, None
        if kets is None:
            Kept.drop(self._comm)
        elif self._layout is not None:
            relayout(kets, self._layout)  # The outputs were read in layouts of their own.
        return kets

    @staticmethod
    def drop(comm: Communicator | None) -> None:
        last = _last.alone() if comm is None else _last.kept.pop(comm, None)
        if last is not None:
            last._kets = None


class _Last(local):
    """This thread's last forward on each group of ranks."""

    def __init__(self) -> None:
        self.alone: Callable[[], Kept | None] = (
            _nothing  # Of this process by itself: as often as a step, so no dictionary.
        )
        self.kept: WeakValueDictionary[Communicator, Kept] = WeakValueDictionary()


def _nothing() -> None:
    return None


_last = _Last()


def _batch(program: Runner, params: NDArray[np.float64]) -> NDArray[Any]:
    return batches.states(program, checks.checked_batch(params, program.circuit.num_parameters, program.comm))


def _states(program: Runner, params: NDArray[np.float64]) -> Iterator[StateVector]:
    """The state of each row, valid until the next is asked for. Small ones are computed many at once."""
    at_once = _BATCH_BYTES // (program.dtype.itemsize << program.num_qubits) if program.backend.is_host else 1
    if at_once > 1 and not program.plan.far and all(part.instruction is None for part in program.plan.parts):
        for start in range(0, len(params), at_once):
            yield from _loaded(_batch(program, params[start : start + at_once]), program.device)
        return
    state = None
    for row in params:
        state = program.evolved(row, out=state)
        yield state


def _loaded(kets: NDArray[Any], device: str) -> Iterator[StateVector]:
    return (StateVector.from_amplitudes(amplitudes, device=device) for amplitudes in kets)
