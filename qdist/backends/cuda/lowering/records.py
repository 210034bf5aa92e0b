"""The records that the tables of a GPU program are made of, and those that its kernels take by value.

``header`` makes C++ of them, which is kept as sources/records.cuh, for compilers and editors to read. After a change
here, write it anew: ``python -m qdist.backends.cuda.lowering.records``.

Words of the fields: a tile's index has *register* bits, which number a thread's own amplitudes, and *thread* bits,
which number the threads. *far* are the bits of the state's index that lie outside of the tile. A *place* is the number
of an amplitude in shared memory; a *column* is what a bit of an index adds to a place by XOR. A *condition* on the
thread is mask | value << 16 of its number; on far bits it is a mask and a value. A *register mask* has a bit for each
of a thread's amplitudes: whether it takes part. A *turn* is a phase angle as a fraction of 2 pi, in fixed point.
"""

from __future__ import annotations

from pathlib import Path

from qdist.backends.cuda.lowering.record import Field, Record
from qdist.backends.cuda.lowering.tile import FOURS_BYTES

__all__ = [
    "BACKWARD_PLACES",
    "BACKWARD_STEP",
    "COLUMN_BITS",
    "FLIP",
    "FORWARD_PLACES",
    "FORWARD_STEP",
    "FOURS",
    "GROUP",
    "GROUP_ENDS",
    "HEADER",
    "LAUNCH",
    "MODES",
    "OP",
    "OPS",
    "OWN",
    "PARITY",
    "PART",
    "PHASE",
    "PIECE",
    "ROW_ENTRY",
    "ROW_FLIP",
    "ROW_LAUNCH",
    "ROW_OP",
    "ROW_ROOM",
    "ROW_TERM",
    "ROW_UNEVEN",
    "SLOT",
    "STRING",
    "SUM_ENDS",
    "SUM_NAMES",
    "SWEEP",
    "TERM",
    "TWO_SUMS",
    "header",
]

_OP_NAMES = ("real1", "dense1", "dense2", "controlled1", "controlled2", "phases", "cross", "turn", "lookup")
SUM_NAMES = ("transition1", "transition2", "weigh", "core_transition")
"""Operations that are sums over a ket and a bra, which change nothing (back_tables.py)."""
_MORE_NAMES = ("pair", "imag1", "core", "turned", "lean", "patterned", "exchange")
OPS = {name: 8 * k for k, name in enumerate((*_OP_NAMES, *SUM_NAMES, *_MORE_NAMES))}
"""Kinds of operations; the register bit (or pair of bits) is added where there is one. "patterned" and 1 is the sum of
such rotations alone."""

TWO_SUMS = 256
"""Beside the numbers that CORE_TRANSITION sums up: at most one of the first four, and one of the others."""

GROUP_ENDS, SUM_ENDS = 16, 32
"""Beside the register bits of a parity with a factor: no other of its sum has the same ones; it is its sum's last."""

COLUMN_BITS = 5
"""Of a word that has what each register bit changes of a pattern (patterns.py)."""

MODES = {name: k for k, name in enumerate(("shared", "permute", "rotation", "mixed", "wide"))}
"""How a phase reads the tile."""

HEADER = Path(__file__).parents[1] / "sources" / "records.cuh"

# Tables in global memory --------------------------------------------------------------------------------------------

OP = Record(
    "Op",
    "An operation on a thread's registers.",
    (
        Field("kind", "int", "what it does; the register bit, or pair of bits, is added where there is one"),
        Field(
            "data",
            "int",
            "where its numbers are in reals; of CROSS and TURN the first term; of sums the result or the list",
        ),
        Field(
            "threads",
            "unsigned",
            "condition on the thread; of CROSS and TURN the end of its terms; of REAL1 and IMAG1 the bits to sum for; "
            "of TURNED a mask, whose parity is a sign; of WEIGH how many conditions there are; of "
            "CORE_TRANSITION the numbers to sum, and TWO_SUMS",
        ),
        Field(
            "word",
            "unsigned",
            "register mask; of REAL1 and IMAG1 the register bits that have a matrix; of CORE, LEAN and CORE_TRANSITION "
            "the number of two bits; of TURNED those of opposite sign; of PATTERNED what each register bit changes of "
            "the pattern; of WEIGH how many groups of parities there are",
        ),
        Field(
            "far_mask",
            "Index",
            "condition on far bits; of REAL1 and IMAG1 the first sum; of TURNED a mask, whose parity is a sign; of "
            "PATTERNED the list of its parities",
        ),
        Field(
            "far_value",
            "Index",
            "of TURNED and PATTERNED twice the number of its flip, and 1 if Ys are odd; from bit 8 on the sum's number "
            "and 1, or 0",
        ),
    ),
    align=16,
)

PHASE = Record(
    "Phase",
    "A part of a stage during which the register bits are the same: read the tile, run operations, write it.",
    (
        Field("mode", "int", "how the tile is read: SHARED, or as an operation that mixes threads"),
        Field("end_op", "int", "the operation after its last, counted from the stage's first"),
        Field("first_flip", "int", "changes of places that depend on far bits"),
        Field("end_flip", "int"),
        Field("exclusive", "int", "whether a thread writes what others read: a barrier lies in between"),
        Field("special", "int", "the list of what reading performs, if mode is not SHARED"),
        Field("load", "int", "columns of the register bits when reading", (5,)),
        Field("store", "int", "columns of the register bits when writing", (5,)),
        Field("index", "int", "the register bits in the tile's index", (5,)),
        Field("turns", "int", "whether all amplitudes of a thread get a common phase at the end"),
        Field("apart", "int", "whether adjacent places are read one by one, not by one access of 16 bytes"),
        Field("fours", "int", "kinds of its 4x4 matrices, if it has no other operations (fours.py)"),
    ),
    align=8,
)

FLIP = Record(
    "Flip",
    "Index bits that are flipped where the far bits meet a condition.",
    (Field("mask", "Index"), Field("value", "Index"), Field("bits", "Index", "bits of the index, or of a place")),
)

TERM = Record(
    "Term",
    "A summand of a phase angle, for the threads that meet a condition.",
    (Field("threads", "unsigned", "condition on the thread"), Field("coefficient", "int", "its number in the stage")),
    align=8,
)

PART = Record(
    "Part",
    "A summand of a coefficient (a phase angle in fixed point), for the tiles whose far bits meet a condition.",
    (
        Field("mask", "Index"),
        Field("value", "Index"),
        Field("turn", "int", "its place in the table of phase angles"),
        Field("unused", "int"),
    ),
)

SLOT = Record(
    "Slot",
    "Where a thread has its first amplitude in a phase.",
    (
        Field("load", "unsigned short", "the place when reading"),
        Field("store", "unsigned short", "the place when writing"),
        Field("index", "unsigned short", "in the tile's index"),
        Field("unused", "unsigned short"),
    ),
    align=8,
)

PARITY = Record(
    "Parity",
    "A sum over amplitudes with the sign of a parity.",
    (
        Field("threads", "unsigned", "mask of the thread's number"),
        Field("result", "int", "the sum's number in the stage; none if negative"),
        Field("far", "Index", "mask of far bits"),
    ),
    align=16,
)

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

# What a block keeps in shared memory --------------------------------------------------------------------------------

OWN = Record(
    "Own",
    "Where a thread has its first amplitude of a phase: in bytes (forward) or places (backward).",
    (Field("load", "unsigned short"), Field("store", "unsigned short")),
    align=4,
)

FORWARD_STEP = Record(
    "ForwardStep",
    "A phase. Columns are bytes of the first four register bits.",
    (
        Field("load", "uint4", "columns when reading"),
        Field("store", "uint4", "columns when writing"),
        Field("head", "int2", "flags (forward.cu), and the operation after its last"),
        Field("fifth", "unsigned", "column of the fifth register bit when reading"),
        Field("unused", "unsigned"),
    ),
)

BACKWARD_STEP = Record(
    "BackwardStep",
    "A phase of the adjoint sweep. Columns are bytes.",
    (
        Field("mode", "int"),
        Field("end_op", "int"),
        Field("first_flip", "int"),
        Field("end_flip", "int"),
        Field("exclusive", "int"),
        Field("unused", "int", "", (3,)),
        Field("load", "uint4", "columns when reading"),
        Field("store", "uint4", "columns when writing"),
    ),
)

PIECE = Record(
    "Piece",
    "A Part with the phase angle itself.",
    (Field("mask", "Index"), Field("value", "Index"), Field("turn", "Turn")),
)

# What kernels take by value -----------------------------------------------------------------------------------------

LAUNCH = Record(
    "Launch",
    "The stage that a launch runs.",
    (
        Field("ket", "Stored*", "`size` amplitudes a row of the batch"),
        Field("size", "Index"),
        Field("offset", "Index", "index of the shard's first amplitude in the whole state"),
        Field("tiles", "Index", "how many there are"),
        Field("outside", "Index", "bits of the index that number the tiles"),
        Field("runs", "Table<int>", "(shift in the tile's number, width, shift in the index): number to first index"),
        Field("phases", "Table<Phase>"),
        Field("ops", "Table<Op>"),
        Field("slots", "Table<Slot>", "a row a phase, one for each thread"),
        Field("places", "Table<Index>", "columns of registers, offsets of threads in memory: to load, then to store"),
        Field("flips", "Table<Flip>"),
        Field("terms", "Table<Term>"),
        Field("begins", "Table<int>", "the first part of each coefficient, then the end"),
        Field("parts", "Table<Part>"),
        Field("lists", "Table<int>", "what operations that mix threads, and tables of phases, read"),
        Field("reals", "Table<Real>", "matrices and phase factors, a row a state"),
        Field("reals_stride", "Index"),
        Field("turns", "Table<Turn>", "phase angles in fixed point, a row a state"),
        Field("turns_stride", "Index"),
        Field("num_runs", "int"),
        Field("num_phases", "int"),
        Field("num_coefficients", "int"),
        Field("load_flip", "int", "changes of index on the way from memory"),
        Field("load_flip_end", "int"),
        Field("store_flip", "int", "changes of index on the way to memory"),
        Field("store_flip_end", "int"),
    ),
)

FORWARD_PLACES = Record(
    "ForwardPlaces",
    "Where a block of the forward kernel has its tables in shared memory, in bytes (resident.py).",
    (
        Field("coefficients", "int"),
        Field("places", "int"),
        Field("numbers", "int", "where number 0 of all stages would be"),
        Field("first_number", "int", "the stage's first, in reals"),
        Field("num_numbers", "int"),
        Field("ops", "int"),
        Field("num_ops", "int"),
        Field("steps", "int"),
        Field("own", "int"),
        Field("norms", "int"),
        Field("plain", "int", "1: tiles are loaded without a change of index, 16 bytes at a time; 2: stored so"),
        Field("with_launch", "int", "whether the matrices in Fours are those of all states"),
    ),
)

FOURS = Record(
    "Fours",
    "4x4 matrices passed as kernel arguments (constant bank): two slots a phase (fours.py).",
    (Field("of", "Complex", "", ((FOURS_BYTES // 128, FOURS_BYTES // 256), 16)),),
)

BACKWARD_PLACES = Record(
    "BackwardPlaces",
    "Where a block of the adjoint sweep has its tables in shared memory, in bytes (back_resident.py).",
    (
        Field("coefficients", "int"),
        Field("places", "int"),
        Field("numbers", "int"),
        Field("first_number", "int", "what the stage reads of a table: the first, and how many"),
        Field("num_numbers", "int"),
        Field("ops", "int"),
        Field("num_ops", "int"),
        Field("steps", "int"),
        Field("own", "int"),
        Field("terms", "int"),
        Field("first_term", "int"),
        Field("num_terms", "int"),
        Field("parities", "int"),
        Field("first_parity", "int"),
        Field("num_parities", "int"),
        Field("weighs", "int"),
        Field("first_weigh", "int"),
        Field("num_weighs", "int"),
        Field("begins", "int"),
        Field("pieces", "int"),
        Field("norms", "int"),
    ),
)

SWEEP = Record(
    "Sweep",
    "What the adjoint sweep has beside a stage.",
    (
        Field("bra", "Stored*", "as many amplitudes as the ket"),
        Field("partial", "double*", "num_sums doubles of its own for each warp"),
        Field("parities", "Table<Parity>"),
        Field("weighs", "Table<int>", "lists of the sums that diagonals need"),
        Field("shifts", "Table<double>", "for each row the multiple of the ket to subtract from the bra, or null"),
        Field("num_sums", "int"),
        Field("keep", "int", "whether the tiles are written back"),
    ),
)

# Batches of small circuits ------------------------------------------------------------------------------------------

_ROW_KINDS = {"row_rotations": 0, "row_phases": 1, "row_matrix": 2}
"""Kinds of operations: those of plan/rows/records.py."""

ROW_UNEVEN = 1 << 8
"""The flips of a group whose rotations do not commute."""

ROW_ROOM = 192
"""Doubles in which the threads of a row add up their sums: of three rotations and 32 warps, twice in turn."""

ROW_OP = Record(
    "RowOp",
    "An operation of a row: rotations, the phases of a diagonal, or a matrix. Places are swizzled.",
    (
        Field("kind", "int"),
        Field("count", "int", "rotations, or targets of the matrix"),
        Field("first", "int", "the diagonal's number, or the first target"),
        Field("matrix", "int", "its first entry"),
        Field("columns", "int", "of its walk, which has 2**columns steps"),
        Field("starts", "int", "where the threads' first steps are listed"),
        Field("high", "int", "the column by which a thread's second step differs; others follow"),
        Field("wanted", "int", "whether derivatives by the diagonal's angles are"),
        Field("signs", "unsigned", "bit 4 j + r: the sine of pair r of rotation j is negative"),
        Field("direction", "unsigned", "places that a rotation mixes, by XOR", (3,)),
        Field("angle", "int", "", (3,)),
        Field("flips", "unsigned", "bit o: number o of a group has the other sign; or row_uneven"),
    ),
    align=16,
)

ROW_TERM = Record(
    "RowTerm",
    "A summand of a diagonal's phases.",
    (Field("place", "unsigned", "the mask, as a place"), Field("angle", "int")),
)

ROW_ENTRY = Record(
    "RowEntry",
    "An entry of a sparse matrix, in the row of what it belongs to.",
    (Field("coefficient", "double"), Field("other", "int"), Field("unused", "int")),
)

ROW_FLIP = Record(
    "RowFlip",
    "Pauli strings that flip the same bits.",
    (
        Field("bits", "unsigned"),
        Field("pivot", "int", "the lowest of them"),
        Field("imaginary", "int", "whether their sums are of imaginary parts"),
        Field("first", "int", "their masks: the first, and the end"),
        Field("end", "int"),
    ),
)

ROW_LAUNCH = Record(
    "RowLaunch",
    "A batch of rows; first, up to row_bytes, what differs from call to call. Sparse matrices are lists of entries "
    "and where each row's begin.",
    (
        Field("row_values", "const void*", "per_row parameters of each row"),
        Field("shared_values", "const void*", "parameters that all rows share"),
        Field("values", "double*", "num_outputs of each row; none if null"),
        Field("single_values", "float*", "the same rounded; none if null"),
        Field("cotangents", "const void*", "as many"),
        Field("by_angle", "double*", "derivatives by each angle, of each row"),
        Field("states", "Complex*", "in logical order; none if null"),
        Field("kets", "Real*", "states as they are at the end, from a forward run to its backward run; none if null"),
        Field("shared_slots", "double*", "what constants and shared parameters give"),
        Field("turned", "Complex*", "cosine and sine of half of each angle that all rows share"),
        Field("phases", "Complex*", "of each diagonal and amplitude"),
        Field("scratch", "Real*", "a row's turns and sums of masks, where shared memory has no room; else null"),
        Field("far_states", "Real*", "ket, bra and work of each block, where shared memory has no room for them"),
        Field("far_turns", "Turn*", "phases of each diagonal, likewise"),
        Field("num_rows", "Index"),
        Field("first_op", "int", "where the way back ends"),
        Field("undo_start", "int", "whether derivatives by the angles of the start are wanted"),
        Field("singles", "int", "what is float, not double: 1 row_values, 2 shared_values, 4 cotangents, 8 gradients"),
        Field("known", "int", "whether values holds the outputs already"),
        Field("row_bytes", "int", "shared memory of a row"),
        Field("num_masks", "int"),
        Field("constants", "Table<double>", "one an angle"),
        Field("begins", "Table<int>", "of each angle"),
        Field("entries", "Table<RowEntry>", "slots"),
        Field("traits", "Table<int>", "of each angle: OF_ROW, EVERYWHERE"),
        Field("slot_constants", "Table<double>", "one a slot"),
        Field("shared_begins", "Table<int>", "of each slot"),
        Field("shared_entries", "Table<RowEntry>", "shared parameters"),
        Field("row_begins", "Table<int>", "of each slot"),
        Field("row_entries", "Table<RowEntry>", "parameters of rows"),
        Field("shared_uses", "Table<int>", "of each shared parameter"),
        Field("shared_users", "Table<RowEntry>", "angles"),
        Field("row_uses", "Table<int>", "of each parameter of rows"),
        Field("row_users", "Table<RowEntry>", "angles"),
        Field("start_begins", "Table<int>", "of each qubit"),
        Field("factors", "Table<int>", "axis and angle of its first rotations"),
        Field("ops", "Table<RowOp>"),
        Field("starts", "Table<unsigned>"),
        Field("columns", "Table<unsigned>"),
        Field("terms", "Table<RowTerm>"),
        Field("diagonals", "Table<int>", "first term and end of each"),
        Field("targets", "Table<unsigned>"),
        Field("matrices", "Table<Complex>"),
        Field("logical", "Table<unsigned>", "the place of |0...0>, and what each qubit adds to it"),
        Field("flips", "Table<RowFlip>", "the first flips nothing"),
        Field("masks", "Table<unsigned>", "as places"),
        Field("sum_begins", "Table<int>", "of each Pauli sum"),
        Field("sum_entries", "Table<RowEntry>", "masks"),
        Field("sum_outputs", "Table<int>", "which output each is"),
        Field("mask_begins", "Table<int>", "of each mask"),
        Field("mask_entries", "Table<RowEntry>", "outputs"),
        Field("marginals", "const int*", "first output, number of qubits, first place, and a column a qubit"),
        Field("num_bits", "int"),
        Field("per_row", "int"),
        Field("num_angles", "int"),
        Field("num_ops", "int"),
        Field("num_flips", "int"),
        Field("num_sums", "int"),
        Field("num_outputs", "int"),
        Field("num_marginals", "int"),
        Field("identity", "int", "the mask that is empty, of the strings that flip nothing"),
        Field("phase", "int", "the angle of the global phase; none if negative"),
        Field("num_slots", "int"),
    ),
)

_TABLES = (OP, PHASE, FLIP, TERM, PART, SLOT, PARITY, STRING, GROUP)
_ROWS = (ROW_OP, ROW_TERM, ROW_ENTRY, ROW_FLIP, ROW_LAUNCH)
_SHARED = (OWN, FORWARD_STEP, BACKWARD_STEP, PIECE)
_TAKEN = (LAUNCH, FORWARD_PLACES, FOURS, BACKWARD_PLACES, SWEEP)


def header() -> str:
    """The records and the kinds of operations as C++."""
    opening = "// Generated from qdist/backends/cuda/lowering/records.py, where the words are explained: do not edit.\n"
    kinds = (
        ("how a phase reads the tile", MODES),
        ("kinds of operations", OPS),
        ("bits of what a register bit changes of a pattern", {"column_bits": COLUMN_BITS}),
        ("beside the numbers of a transition matrix that are summed up", {"two_sums": TWO_SUMS}),
        ("beside the register bits of a parity with a factor", {"group_ends": GROUP_ENDS, "sum_ends": SUM_ENDS}),
        (
            "kinds of operations of rows, flips of those that do not commute, and doubles of a row's room",
            {**_ROW_KINDS, "row_uneven": ROW_UNEVEN, "row_room": ROW_ROOM},
        ),
    )
    enums = [f"// {what}\nenum {{ {', '.join(f'{n.upper()} = {k}' for n, k in of.items())} }};\n" for what, of in kinds]
    records = (*_TABLES, *_SHARED, *_TAKEN, *_ROWS)
    # NVRTC has no offsetof; __INTADDR__ is its front end's own, so that only tests rely on it.
    offsets = "#ifdef CHECK_OFFSETS\n#define OFFSET(T, FIELD) __INTADDR__(&((T*)0)->FIELD)\n"
    offsets += "".join(record.offsets() for record in records) + "#endif\n"
    start = opening + '#pragma once\n\n#include "types.cuh"\n'
    return "\n".join([start, *enums, *(record.struct() for record in records), offsets])


if __name__ == "__main__":
    HEADER.write_text(header())
