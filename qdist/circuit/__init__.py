"""What to compute: gates, circuits, their parameters, and observables."""

from .binding import AffineMap
from .circuit import Circuit
from .errors import CircuitError
from .gates import GATES, Gate, diagonal_gate, pauli_rotation_gate, permutation_gate, unitary_gate
from .instruction import Condition, Instruction
from .lowered import lowered
from .own_gates import generator_gate, matrix_gate
from .parameters import Expression, Parameter, ParameterVector
from .pauli import Hermitian, PauliString, PauliSum

__all__ = [
    "GATES",
    "AffineMap",
    "Circuit",
    "CircuitError",
    "Condition",
    "Expression",
    "Gate",
    "Hermitian",
    "Instruction",
    "Parameter",
    "ParameterVector",
    "PauliString",
    "PauliSum",
    "diagonal_gate",
    "generator_gate",
    "lowered",
    "matrix_gate",
    "pauli_rotation_gate",
    "permutation_gate",
    "unitary_gate",
]
