"""What a block of the adjoint sweep's kernel keeps in shared memory beside its tiles: the tables that it reads for each
tile."""

from __future__ import annotations

import numpy as np

from qdist.backends.cuda.lowering.back_tables import PARITY, Extent
from qdist.backends.cuda.lowering.resident import norms
from qdist.backends.cuda.lowering.tables import OP, TERM, StageTables
from qdist.backends.cuda.lowering.tile import Shape

__all__ = ["resident"]

_ALIGNMENT = 16
_STEP, _OWN, _PIECE, _INT, _INDEX, _DOUBLE = 64, 4, 24, 4, 8, 8
"""Bytes of backward.cu's records."""


def resident(stage: StageTables, extent: Extent, shape: Shape) -> tuple[tuple[np.int32, ...], int]:
    """What the kernel takes of the places of a stage's tables, and the shared memory that a block needs in all."""
    threads = 1 << stage.size - shape.registers
    number = shape.itemsize // 2
    end = shape.states * shape.itemsize << stage.size
    arguments: list[int] = []
    for count, width, told in (
        (stage.num_coefficients, number, ()),
        (2 * (shape.registers + threads), _INDEX, ()),
        (stage.num_numbers, number, (stage.first_number, stage.num_numbers)),
        (stage.num_ops, OP.itemsize, (stage.num_ops,)),
        (stage.num_phases, _STEP, ()),
        (stage.num_phases * threads, _OWN, ()),
        (extent.terms[1], TERM.itemsize, extent.terms),
        (extent.parities[1], PARITY.itemsize, extent.parities),
        (extent.weighs[1], _INT, extent.weighs),
        (stage.num_coefficients + 1, _INT, ()),
        (extent.parts, _PIECE, ()),
        (norms(threads, shape), _DOUBLE, ()),
    ):
        start = -(-end // _ALIGNMENT) * _ALIGNMENT
        arguments += [start, *told]
        end = start + count * width
    return tuple(np.int32(x) for x in arguments), end
