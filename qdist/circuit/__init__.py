"""What to compute: gates, circuits and their parameters."""

from .circuit import Circuit
from .errors import CircuitError
from .gates import GATES, Gate, diagonal_gate, pauli_rotation_gate, permutation_gate, unitary_gate
from .instruction import Condition, Instruction
from .parameters import AffineMap, Expression, Parameter, ParameterVector

__all__ = [
    "GATES",
    "AffineMap",
    "Circuit",
    "CircuitError",
    "Condition",
    "Expression",
    "Gate",
    "Instruction",
    "Parameter",
    "ParameterVector",
    "diagonal_gate",
    "pauli_rotation_gate",
    "permutation_gate",
    "unitary_gate",
]
