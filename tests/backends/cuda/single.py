"""The interpreters with amplitudes in single precision: rounded after each operation, in lean matrices as the kernel
does. Sums stay in double, as the kernel's."""

from __future__ import annotations

from typing import Any

import numpy as np
from back_interpreter import BackInterpreter
from interpreter import Interpreter, name_of

import qdist as qd
from qdist.backends.cuda.lowering.back_tables import BackTables
from qdist.backends.cuda.lowering.patterns import multiples
from qdist.backends.cuda.lowering.tables import Tables
from qdist.backends.cuda.target import CudaTarget
from qdist.plan.plan import Plan


def rounded(amplitudes: np.ndarray) -> np.ndarray:
    return amplitudes.astype(np.complex64).astype(np.complex128)


class _Single(Interpreter):
    def _read(self, *given: Any) -> np.ndarray:
        return rounded(super()._read(*given))

    def _op(self, op: Any, amplitudes: np.ndarray, *given: Any) -> None:
        amplitudes[:] = rounded(amplitudes)
        if name_of(int(op["kind"]))[0] == "lean":
            self._lean(op, amplitudes)
            return
        super()._op(op, amplitudes, *given)
        amplitudes[:] = rounded(amplitudes)

    def _lean(self, op: Any, amplitudes: np.ndarray) -> None:
        data, places = int(op["data"]), self.of_two(int(op["word"]))
        numbers, tangents = self.reals[data : data + 8].reshape(2, 4), self.reals[data + 8 : data + 12]
        undoes = self.tables.shape.states == 2
        b = [amplitudes[:, place] for place in places]
        for tilts in (undoes, not undoes):
            if tilts:
                for k, tangent in zip((3, 1, 2), tangents[1:]):
                    b[k] = rounded((1 + 1j * tangent) * b[k])
            else:
                for (p, q), (m00, m01, m10, m11) in zip(((0, 3), (1, 2)), numbers):
                    above, below = (-m10, -m01) if undoes else (m01, m10)
                    first = rounded(m00 * b[p] + rounded(-1j * above * b[q]))
                    b[q] = rounded(m11 * b[q] + rounded(1j * below * b[p]))
                    b[p] = first
        for place, own in zip(places, b):
            amplitudes[:, place] = own


class Single(_Single):
    """The forward run."""


class BackSingle(_Single, BackInterpreter):
    """The adjoint sweep."""


def gradient(circuit: qd.Circuit, plan: Plan, observable: qd.PauliSum, params: np.ndarray) -> np.ndarray:
    """As a plan of one segment computes it in complex64 on a GPU."""
    n, kind, affine = circuit.num_qubits, np.dtype("complex64"), circuit.affine()
    angles = affine(params)
    (segment,) = plan.segments
    back = plan.backward(segment, 0)
    assert isinstance(plan.target, CudaTarget)
    assert isinstance(back.target, CudaTarget)
    ket = np.eye(1, 1 << n, dtype=np.complex128)[0]
    Single(Tables(n, kind, segment.stages, plan.target.shape), angles).run(ket)
    ket = rounded(ket)
    bra = rounded(qd.StateVector.from_amplitudes(ket, "complex128").apply_pauli_sum(observable).amplitudes())
    # The sweep takes away the multiple of the ket that bras mostly are.
    bra = rounded(bra - np.vdot(ket, bra).real * ket)
    sweep = BackSingle(BackTables(n, kind, back.stages, back.target.shape, multiples(affine)), angles)
    sweep.run(ket, bra)
    return affine.transposed(sweep.gradient())
