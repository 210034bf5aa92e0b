"""What the kernels for batches of small circuits read: a row's operations and outputs, and what a launch takes."""

from __future__ import annotations

from qdist.backends.cuda.lowering.records.record import Field, Kinds, Record

__all__ = [
    "KINDS",
    "RECORDS",
    "ROW_ENTRY",
    "ROW_FLIP",
    "ROW_LAUNCH",
    "ROW_OP",
    "ROW_ROOM",
    "ROW_TERM",
    "ROW_UNEVEN",
]

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

RECORDS = (ROW_OP, ROW_TERM, ROW_ENTRY, ROW_FLIP, ROW_LAUNCH)
KINDS: Kinds = (
    (
        "kinds of operations of rows, flips of those that do not commute, and doubles of a row's room",
        {**_ROW_KINDS, "row_uneven": ROW_UNEVEN, "row_room": ROW_ROOM},
    ),
)
