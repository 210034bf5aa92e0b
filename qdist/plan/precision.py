"""Which programs for complex64 are computed in double precision, so that long circuits are as exact as short ones.

A block in single precision rounds every amplitude that it writes. That moves a state by 2e-8 to 3e-8 of its length, in
a direction of its own, and about twice as far where the matrix has complex entries: more products are rounded, and more
entries. After blocks of total weight W (see ``roundings``) a state is off by about 1.6e-8 sqrt(W), the value of an
observable by less. A gradient, whose ket and bra go through all blocks again, is off by up to 8e-8 sqrt(W) of its
length on 9 to 12 qubits and less on more, where matrices with complex entries weigh less: 12 scrambling layers of them
on 9 to 14 qubits by 7e-7 to 1e-6, on 18 by 3.5e-7.

Where that would pass about 1e-6, tiles are computed in double precision while they are in cache, and rounded once a
stage, of which there are far fewer than blocks. Other circuits keep the speed of single precision, which is up to twice
as high; so do the runs of circuits of which only the gradients are computed in double.

Matrices whose numbers a backend chooses (``Target.chooses_numbers``) weigh less, unless the state is mostly one
amplitude: then errors are not spread over many directions, and the derivatives themselves are small. Ten Trotter steps
on 20 to 26 qubits whose angles spread the state had gradients that were off by 4e-7 in the median, by 1.0e-6 in one of
twenty draws and by 1.8e-6 at most of 155, which double precision reaches too where angles are small; but in single that
is up to 8.7e-6 for angles within 0.01, and 3.9e-6 within 0.2 (H200, benchmarks/gpu_notes.md). So where these
weights are what counts, the angles decide (``angles_decide``), by the probability of the most probable path through the
circuit (backends/spread.py).
"""

from __future__ import annotations

import math

import numpy as np

from qdist.plan.cost import is_real
from qdist.plan.fuse import Block
from qdist.plan.plan import Plan
from qdist.plan.stages.target import Target

__all__ = [
    "LONG",
    "MOST_OF_VALUES",
    "MOST_OF_VALUES_A_QUBIT",
    "angles_decide",
    "can_follow",
    "computes_in_double",
    "most_of_one_path",
    "most_roundings_of_values",
    "roundings",
]

LONG = 1000
"""Gates of a circuit in complex64 after which its norm is restored: rounding errors may change it by 1e-6, and to
compute it takes a few per cent of their time."""

MOST_OF_VALUES_A_QUBIT = 64
"""The weight up to which states and values of circuits with parameters are computed in single precision, divided by the
number of qubits: small states are cheap, and in long circuits on few qubits roundings are alike and add up."""
MOST_OF_VALUES = 4096
"""The same of circuits that have no parameters."""

_COMPLEX, _COMPLEX_OF_GRADIENTS = 4, 2
"""What a matrix with complex entries weighs; others, phases and Pauli rotations weigh 1."""
_CHOSEN_OF_GRADIENTS = 1.6
"""The same of those whose numbers are chosen (``Target.chooses_numbers``), where angles decide."""
_FEWEST_QUBITS = 22
"""Where angles may decide: for fewer qubits that takes as long as single precision gains on an H200."""
_PATH_A_QUBIT = 0.8
"""What the logarithm of the most probable path's probability must fall by for each qubit, for gradients in single: ten
Trotter steps do so with most angles within 0.8."""


def computes_in_double(plan: Plan, has_parameters: bool, gradients: bool = True, one_by_one: bool = False) -> bool:
    """Whether a plan is computed in complex128, whatever its state is stored in. gradients: whether they are wanted by
    the parameters, if there are. one_by_one: where Pauli rotations of a block run one after the other, as those of row
    programs do."""
    if plan.dtype == np.complex128:
        return True
    if not has_parameters or not (gradients or one_by_one):
        most = most_roundings_of_values(plan.target, plan.num_qubits, has_parameters)
    elif one_by_one:
        most = plan.target.row_roundings
    else:
        most = max(plan.target.roundings, plan.target.roundings_a_qubit * plan.num_qubits)
    of_gradients = has_parameters and gradients and not one_by_one
    return roundings(plan, one_by_one, _COMPLEX_OF_GRADIENTS if of_gradients else _COMPLEX) > most


def most_roundings_of_values(target: Target, num_qubits: int, has_parameters: bool) -> int:
    """The weight up to which states and values are computed in single precision."""
    return max(target.roundings, MOST_OF_VALUES_A_QUBIT * num_qubits) if has_parameters else MOST_OF_VALUES


def angles_decide(plan: Plan, has_parameters: bool) -> bool:
    """Whether a plan whose gradients are computed in double has gradients in single precision all the same where angles
    make the most probable path less probable than ``most_of_one_path``. The states must begin as |0...0>."""
    if plan.dtype == np.complex128 or not has_parameters or plan.far or plan.num_qubits < _FEWEST_QUBITS:
        return False
    if any(part.instruction is not None for part in plan.parts) or not all(map(can_follow, plan.blocks)):
        return False
    weight = roundings(plan, of_complex=_COMPLEX_OF_GRADIENTS, of_chosen=_CHOSEN_OF_GRADIENTS)
    return weight <= plan.target.roundings_a_qubit * plan.num_qubits


def most_of_one_path(num_qubits: int) -> float:
    """The probability of the most probable path (backends/spread.py) below which a state is spread over so many
    amplitudes that gradients may be computed in single precision."""
    return math.exp(-_PATH_A_QUBIT * num_qubits)


def can_follow(block: Block) -> bool:
    """Whether it is told from a matrix of one or two qubits, or without any, where a block takes a basis state."""
    return block.kind in ("diagonal", "table", "linear") or (block.is_plain_dense and block.mixes.bit_count() <= 2)


def roundings(
    plan: Plan, one_by_one: bool = False, of_complex: int = _COMPLEX, of_chosen: float | None = None
) -> float:
    """How often amplitudes are rounded in single precision: a sum over all blocks, weighted by what each leaves.
    of_complex: the weight of matrices with complex entries; of_chosen: of those whose numbers are chosen, if less."""

    def weight(block: Block) -> float:
        own = _weight(block, one_by_one, of_complex)
        return of_chosen if of_chosen and own > of_chosen and plan.target.chooses_numbers(block) else own

    return sum(map(weight, plan.blocks))


def _weight(block: Block, one_by_one: bool, of_complex: int) -> int:
    if block.kind in ("linear", "permute"):
        return 0  # Amplitudes only move.
    if block.kind == "rotation" and one_by_one:
        return len(block.operations)
    if block.kind != "dense":
        return 1
    first, *others = block.operations
    # A product of matrices is simple if all are real; one alone may have imaginary entries beside real ones, and so may
    # turns about the same axis, which are one turn.
    pure = first.gate is not None and first.gate.is_pure
    axis = first.gate.pauli if first.gate is not None else None
    alike = all(axis and op.gate and (op.gate.pauli, op.targets) == (axis, first.targets) for op in others)
    return 1 if (pure and alike) or is_real(block) else of_complex
