"""What the tile kernels read, forward and back: operations, phases, and what a launch of them takes."""

from __future__ import annotations

from qdist.backends.cuda.lowering.records.record import Field, Kinds, Record
from qdist.backends.cuda.lowering.tile import FOURS_BYTES

__all__ = [
    "BACKWARD_PLACES",
    "BACKWARD_STEP",
    "COLUMN_BITS",
    "FLIP",
    "FORWARD_PLACES",
    "FORWARD_STEP",
    "FOURS",
    "GROUP_ENDS",
    "KINDS",
    "LAUNCH",
    "MODES",
    "OP",
    "OPS",
    "OWN",
    "PARITY",
    "PART",
    "PHASE",
    "PIECE",
    "RECORDS",
    "SLOT",
    "SUM_ENDS",
    "SUM_NAMES",
    "SWEEP",
    "TERM",
    "TWO_SUMS",
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
            "register mask; of REAL1 and IMAG1 the register bits that have a matrix, and from bit 16 on those whose "
            "matrix need not be unitary; of CORE, LEAN and CORE_TRANSITION the number of two bits; of TURNED those of "
            "opposite sign; of PATTERNED what each register bit changes of the pattern; of WEIGH how many groups of "
            "parities there are",
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
        Field("zeros", "Index", "bits of the tile: amplitudes whose index has a 1 there are zero before the stage"),
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
        Field("keep", "int", "what of the tiles is written back: 0 nothing, 1 what the stage began with, 2 all"),
    ),
)

RECORDS = (
    *(OP, PHASE, FLIP, TERM, PART, SLOT, PARITY),
    *(OWN, FORWARD_STEP, BACKWARD_STEP, PIECE),
    *(LAUNCH, FORWARD_PLACES, FOURS, BACKWARD_PLACES, SWEEP),
)
KINDS: Kinds = (
    ("how a phase reads the tile", MODES),
    ("kinds of operations", OPS),
    ("bits of what a register bit changes of a pattern", {"column_bits": COLUMN_BITS}),
    ("beside the numbers of a transition matrix that are summed up", {"two_sums": TWO_SUMS}),
    ("beside the register bits of a parity with a factor", {"group_ends": GROUP_ENDS, "sum_ends": SUM_ENDS}),
)
