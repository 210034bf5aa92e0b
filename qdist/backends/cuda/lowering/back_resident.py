"""What a block of the adjoint sweep's kernel keeps in shared memory beside its tiles: the tables that it reads for each
tile."""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

from qdist.backends.cuda.lowering.back_tables import Extent
from qdist.backends.cuda.lowering.records.tiles import BACKWARD_PLACES, BACKWARD_STEP, OP, OWN, PARITY, PIECE, TERM
from qdist.backends.cuda.lowering.resident import norms
from qdist.backends.cuda.lowering.tables import StageTables
from qdist.backends.cuda.lowering.tile import Shape

__all__ = ["resident"]

_ALIGNMENT = 16
_INT, _INDEX, _DOUBLE = 4, 8, 8


def resident(stage: StageTables, extent: Extent, shape: Shape) -> tuple[NDArray[Any], int]:
    """Where a stage's tables go, as the kernel takes it (a BackwardPlaces), and the shared memory that a block needs in
    all."""
    threads = 1 << stage.size - shape.registers
    number = shape.itemsize // 2
    end = shape.states * shape.itemsize << stage.size
    arguments = {"first_number": stage.first_number, "num_numbers": stage.num_numbers, "num_ops": stage.num_ops}
    for name, own in (("term", extent.terms), ("weigh", extent.weighs)):
        arguments[f"first_{name}"], arguments[f"num_{name}s"] = own
    arguments["first_parity"], arguments["num_parities"] = extent.parities
    for name, count, width in (
        ("coefficients", stage.num_coefficients, number),
        ("places", 2 * (shape.registers + threads), _INDEX),
        ("numbers", stage.num_numbers, number),
        ("ops", stage.num_ops, OP.dtype.itemsize),
        ("steps", stage.num_phases, BACKWARD_STEP.dtype.itemsize),
        ("own", stage.num_phases * threads, OWN.dtype.itemsize),
        ("terms", extent.terms[1], TERM.dtype.itemsize),
        ("parities", extent.parities[1], PARITY.dtype.itemsize),
        ("weighs", extent.weighs[1], _INT),
        ("begins", stage.num_coefficients + 1, _INT),
        ("pieces", extent.parts, PIECE.dtype_of(number).itemsize),
        ("norms", norms(threads, shape), _DOUBLE),
    ):
        arguments[name] = -(-end // _ALIGNMENT) * _ALIGNMENT
        end = arguments[name] + count * width
    return BACKWARD_PLACES.filled(arguments), end
