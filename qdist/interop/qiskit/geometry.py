"""The quantum geometric tensor from derivatives of states."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from qdist.backends.memory import check_copies
from qdist.program.program import Program
from qdist.state.outputs import State

__all__ = ["geometric_tensor"]


def geometric_tensor(program: Program, theta: NDArray[np.float64], phase_fix: bool, part: str) -> NDArray[Any]:
    """<d_i psi|d_j psi>, with ``phase_fix`` less <d_i psi|psi><psi|d_j psi>; part: REAL, IMAG or COMPLEX.

    The real part with the phase fix is the metric tensor, by one adjoint sweep a parameter. Otherwise all derivatives
    of the state are made: raises MemoryError, on all ranks, where they do not fit.
    """
    if phase_fix and part == "REAL":
        return program.metric_tensor(theta)
    count = len(theta)
    nbytes = count * 16 << program.num_qubits
    check_copies(program.comm, nbytes, f"the derivatives of a state by {count} parameters", "ask for the real part")
    (states,), (changes,) = program.jvp([State()], theta, np.eye(count))
    tensor = changes.conj() @ changes.T
    if phase_fix:
        along = changes @ states[0].conj()
        tensor = tensor - np.outer(along.conj(), along)
    return {"REAL": tensor.real, "IMAG": tensor.imag}.get(part, tensor)
