"""LinearGate: a matrix that need not be unitary, for one Kraus operator on a ket or a channel on vec(rho)."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..errors import CircuitError
from ..gate import Gate, Params, structure
from ..matrices import Matrix
from ..parameters import Angle

__all__ = ["LinearGate"]


class LinearGate(Gate):
    """A gate given by any matrix. It has no inverse: adjoint sweeps cannot pass it."""

    __slots__ = ()

    def __init__(self, matrix: Matrix) -> None:
        frozen = np.array(matrix, np.complex128)
        frozen.flags.writeable = False
        facts = structure(frozen)
        num_qubits = len(frozen).bit_length() - 1
        # Never diagonal: planners take the entries of a diagonal for phases.
        super().__init__(
            "linear", num_qubits, data=frozen, symbol="K", is_real=facts["is_real"], is_pure=facts["is_pure"]
        )

    def matrix(self, *params: Angle) -> Matrix:
        self._floats(params)
        return self.data

    def inverse(self, params: Params = ()) -> tuple[Gate, Params]:
        raise CircuitError("a Kraus operator has no inverse")

    def __reduce__(self) -> tuple[Any, ...]:
        return LinearGate, (self.data,)
