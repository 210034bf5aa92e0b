"""What the passes over tiles for observables read: Pauli strings, and those that flip the same bits."""

from __future__ import annotations

from qdist.backends.cuda.lowering.records.record import Field, Record

__all__ = [
    "GROUP",
    "RECORDS",
    "STRING",
]

STRING = Record(
    "String",
    "A Pauli string of a pass over tiles.",
    (
        Field("far", "Index", "mask of Z and Y at far bits"),
        Field("near", "unsigned", "mask of Z and Y at thread bits"),
        Field("unused", "unsigned"),
        Field("factor", "double", "its coefficient, in which every Y counts"),
    ),
    align=8,
)

GROUP = Record(
    "Group",
    "Pauli strings that flip the same bits of a tile.",
    (
        Field("x", "unsigned", "the flips, in the tile's index"),
        Field(
            "word", "unsigned short", "register mask: amplitudes with the opposite sign in the strings from middle on"
        ),
        Field("imaginary", "unsigned short", "whether their factors lack an i"),
        Field("middle", "int", "strings before it have one sign for all of a thread's amplitudes"),
        Field("end", "int", "the string after the last"),
    ),
    align=16,
)

RECORDS = (STRING, GROUP)
