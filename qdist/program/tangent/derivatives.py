"""Jacobian-vector products, their vector-Jacobian products, and the metric tensor: all by a program's tangent program.

A tangent program (tangent/circuit.py) has twice the amplitudes. Running it gives values and their changes along a
tangent; one adjoint sweep of it gives derivatives of those changes by the parameters, which are second derivatives, and
by the tangents, which are first ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from qdist.backends.errors import StateError
from qdist.circuit.binding import flat_values
from qdist.program import adjoint, batches
from qdist.program.runner import Runner
from qdist.program.source import Source
from qdist.program.tangent.circuit import tangent_circuit
from qdist.program.tangent.outputs import Lifted
from qdist.state.checking import checks, same
from qdist.state.measuring.expectation import Observable
from qdist.state.outputs import Expectation, Output, Probabilities, as_output

__all__ = ["TangentProgram"]

_STEP = {np.dtype(np.complex64): 2.0**-13, np.dtype(np.complex128): 2.0**-26}
"""The sum of the angles of all added rotations: its square, the error, is below rounding."""

_SMALL = 2.0**-80
"""What tangents are multiplied by where the angles of added rotations are looked at: those are proportional to the
tangents, but known modulo 4 pi."""


class TangentProgram:
    """Derivatives of a program along tangents of its parameters.

    Raises StateError for circuits that cannot be differentiated.
    """

    def __init__(self, program: Runner) -> None:
        adjoint.check_differentiable(program)
        self._program, self._count = program, program.circuit.num_parameters
        made = tangent_circuit(program.circuit)
        dtype = program.backend.tangent_dtype(program.dtype)
        source = program.source
        self.runner = Runner(
            own := Source.of(made.circuit, program.comm, program.device, dtype, source.levels, source.schedule),
            own.compiled(None),
        )
        self._slots = made.slots

    def jvp(self, outputs: Sequence[Observable | Output], params: Any, tangents: Any) -> tuple[list[Any], list[Any]]:
        """See ``Program.jvp``."""
        lifted = self._lifted(outputs)
        theta, h, batched = self._bound(params, tangents)
        found = batches.output_values(self.runner, [*lifted.values, *lifted.changes], theta)
        values, changes = lifted.of(found, h)
        return (values, changes) if batched else ([_first(v) for v in values], [_first(v) for v in changes])

    def second(
        self, outputs: Sequence[Observable | Output], params: Any, cotangents: Sequence[Any], tangents: Any
    ) -> tuple[list[Any], NDArray[np.float64], NDArray[np.float64]]:
        """The changes of the outputs along the tangents; with L the sum of cotangent times change, dL by the parameters
        (a Hessian-vector product of what the cotangents weigh) and dL by the tangents (the vector-Jacobian product).

        Arguments are those of ``Program.vjp`` and ``Program.jvp``; for a batch all of them, and results, have the batch
        in front.
        """
        lifted = self._lifted(outputs)
        theta, h, batched = self._bound(params, tangents)
        wanted = [as_output(output, self._program.num_qubits) for output in outputs]
        if len(cotangents) != len(wanted):
            raise StateError(f"{len(wanted)} outputs take as many cotangents; got {len(cotangents)}")
        rows = (len(theta),) if batched else ()
        given = [adjoint.checked_cotangent(self._program, o, g, rows) for o, g in zip(wanted, cotangents)]
        given = given if batched else [np.asarray(g)[None] for g in given]
        found: list[Any] = []
        if lifted.has_variances:
            found = batches.output_values(self.runner, [*lifted.values, *lifted.changes], theta)
        used, weights = lifted.cotangents(given, found, h)
        values, gradient = self._vjp(used, theta, weights)
        if lifted.has_variances:
            changes = lifted.of(found, h)[1]
        else:
            changes = lifted.of([*values, *values], h)[1]
        by_theta, by_tangents = gradient[:, : self._count], gradient[:, self._count :] * h[:, None]
        if batched:
            return changes, by_theta, by_tangents
        return [_first(v) for v in changes], by_theta[0], by_tangents[0]

    def metric_vector(self, params: Any, vector: Any) -> NDArray[np.float64]:
        """See ``Program.metric_vector``."""
        theta, h, batched = self._bound(params, vector)
        extra = self._program.num_qubits
        berry, norm = Expectation(f"Y{extra}"), Probabilities([extra])
        # <Psi|Y|Psi> / 2h = Im <psi|phi>.
        (along,) = batches.output_values(self.runner, [berry], theta)
        along = along / (2 * h)
        weights = [-along / 2, np.stack([np.zeros_like(h), 1 / (2 * h)], axis=1)]
        _, gradient = self._vjp([berry, norm], theta, weights)
        found = gradient[:, self._count :]
        return found if batched else found[0]

    def metric_tensor(self, params: Any) -> NDArray[np.float64]:
        """See ``Program.metric_tensor``."""
        if checks.is_batch(params):
            rows = checks.checked_batch(params, self._count, self._program.comm)
            return np.array([self.metric_tensor(row) for row in rows]).reshape(len(rows), self._count, self._count)
        found = self.metric_vector(params, np.eye(self._count)) if self._count else np.zeros((0, 0))
        return (found + found.T) / 2

    def _vjp(
        self, outputs: Sequence[Output], theta: NDArray[np.float64], cotangents: Sequence[NDArray[Any]]
    ) -> tuple[list[Any], NDArray[np.float64]]:
        if len(theta) != 1:
            return adjoint.vjp(self.runner, outputs, theta, cotangents)
        values, gradient = adjoint.vjp(self.runner, outputs, theta[0], [g[0] for g in cotangents])
        return [np.asarray(value)[None] for value in values], gradient[None]

    def _lifted(self, outputs: Sequence[Observable | Output]) -> Lifted:
        if isinstance(outputs, str | dict) or not isinstance(outputs, Sequence):
            raise StateError(f"outputs must be a list of observables and outputs; got {outputs!r}")
        n = self._program.num_qubits
        return Lifted([as_output(output, n) for output in outputs], n, self.runner.dtype)

    def _bound(self, params: Any, tangents: Any) -> tuple[NDArray[np.float64], NDArray[np.float64], bool]:
        """For each row the values of the tangent program's parameters, and h; and whether there is a batch."""
        values, batched = self._rows(params, "parameter")
        changes, several = self._rows(tangents, "tangent")
        if batched and several and len(values) != len(changes):
            raise StateError(f"{len(values)} parameter sets and {len(changes)} tangents: a batch has one of each a row")
        values, changes = np.broadcast_arrays(values, changes) if self._count else _widest(values, changes)
        largest = np.abs(changes).max(axis=1, initial=0.0)
        largest[largest == 0] = 1.0
        theta = np.concatenate([values, changes / largest[:, None] * _SMALL], axis=1)
        angles = self.runner.affine.rows(self.runner.source.extended(theta))[:, self._slots]
        total = np.abs(angles).sum(axis=1)
        total[total == 0] = _SMALL
        step = _STEP[self.runner.dtype] / total
        # Of the tangents as they are given, not of the small ones.
        largest = largest / _SMALL
        theta[:, self._count :] *= step[:, None]
        return theta, step / largest, batched or several

    def _rows(self, given: Any, what: str) -> tuple[NDArray[np.float64], bool]:
        if checks.is_batch(given):
            return checks.checked_batch(given, self._count, self._program.comm), True
        if given is None and what == "parameter":
            theta = self._program.values(None).theta
            assert theta is not None, "users bind parameters"
            return theta[None, : self._count], False
        flat = flat_values(self._program.source.parameters, [] if given is None else given)
        return same.values(self._program.comm, flat, what)[None], False


def _widest(*arrays: NDArray[np.float64]) -> list[NDArray[np.float64]]:
    count = max((len(a) for a in arrays if len(a) != 1), default=1)
    return [np.zeros((count, 0)) for _ in arrays]


def _first(value: Any) -> Any:
    found = value[0]
    return found.item() if np.ndim(found) == 0 else found
