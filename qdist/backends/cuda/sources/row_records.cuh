// What the kernels for batches of small circuits read and take.
//
// Generated from qdist/backends/cuda/lowering/records/rows.py: do not edit. __init__.py there explains the words.
#pragma once

#include "types.cuh"

// kinds of operations of rows, flips of those that do not commute, and doubles of a row's room
enum { ROW_ROTATIONS = 0, ROW_PHASES = 1, ROW_MATRIX = 2, ROW_UNEVEN = 256, ROW_ROOM = 192 };

// An operation of a row: rotations, the phases of a diagonal, or a matrix. Places are swizzled.
struct __align__(16) RowOp {
    int kind;
    int count;  // rotations, or targets of the matrix
    int first;  // the diagonal's number, or the first target
    int matrix;  // its first entry
    int columns;  // of its walk, which has 2**columns steps
    int starts;  // where the threads' first steps are listed
    int high;  // the column by which a thread's second step differs; others follow
    int wanted;  // whether derivatives by the diagonal's angles are
    unsigned signs;  // bit 4 j + r: the sine of pair r of rotation j is negative
    unsigned direction[3];  // places that a rotation mixes, by XOR
    int angle[3];
    unsigned flips;  // bit o: number o of a group has the other sign; or row_uneven
};
static_assert(sizeof(RowOp) == 64, "size of RowOp");

// A summand of a diagonal's phases.
struct RowTerm {
    unsigned place;  // the mask, as a place
    int angle;
};
static_assert(sizeof(RowTerm) == 8, "size of RowTerm");

// An entry of a sparse matrix, in the row of what it belongs to.
struct RowEntry {
    double coefficient;
    int other;
    int unused;
};
static_assert(sizeof(RowEntry) == 16, "size of RowEntry");

// Pauli strings that flip the same bits.
struct RowFlip {
    unsigned bits;
    int pivot;  // the lowest of them
    int imaginary;  // whether their sums are of imaginary parts
    int first;  // their masks: the first, and the end
    int end;
};
static_assert(sizeof(RowFlip) == 20, "size of RowFlip");

// A batch of rows; first, up to row_bytes, what differs from call to call. Sparse matrices are lists of entries and where each row's begin.
struct RowLaunch {
    const void* row_values;  // per_row parameters of each row
    const void* shared_values;  // parameters that all rows share
    double* values;  // num_outputs of each row; none if null
    float* single_values;  // the same rounded; none if null
    const void* cotangents;  // as many
    double* by_angle;  // derivatives by each angle, of each row
    Complex* states;  // in logical order; none if null
    Real* kets;  // states as they are at the end, from a forward run to its backward run; none if null
    double* shared_slots;  // what constants and shared parameters give
    Complex* turned;  // cosine and sine of half of each angle that all rows share
    Complex* phases;  // of each diagonal and amplitude
    Real* scratch;  // a row's turns and sums of masks, where shared memory has no room; else null
    Real* far_states;  // ket, bra and work of each block, where shared memory has no room for them
    Turn* far_turns;  // phases of each diagonal, likewise
    Index num_rows;
    int first_op;  // where the way back ends
    int undo_start;  // whether derivatives by the angles of the start are wanted
    int singles;  // what is float, not double: 1 row_values, 2 shared_values, 4 cotangents, 8 gradients
    int known;  // whether values holds the outputs already
    int row_bytes;  // shared memory of a row
    int num_masks;
    Table<double> constants;  // one an angle
    Table<int> begins;  // of each angle
    Table<RowEntry> entries;  // slots
    Table<int> traits;  // of each angle: OF_ROW, EVERYWHERE
    Table<double> slot_constants;  // one a slot
    Table<int> shared_begins;  // of each slot
    Table<RowEntry> shared_entries;  // shared parameters
    Table<int> row_begins;  // of each slot
    Table<RowEntry> row_entries;  // parameters of rows
    Table<int> shared_uses;  // of each shared parameter
    Table<RowEntry> shared_users;  // angles
    Table<int> row_uses;  // of each parameter of rows
    Table<RowEntry> row_users;  // angles
    Table<int> start_begins;  // of each qubit
    Table<int> factors;  // axis and angle of its first rotations
    Table<RowOp> ops;
    Table<unsigned> starts;
    Table<unsigned> columns;
    Table<RowTerm> terms;
    Table<int> diagonals;  // first term and end of each
    Table<unsigned> targets;
    Table<Complex> matrices;
    Table<unsigned> logical;  // the place of |0...0>, and what each qubit adds to it
    Table<RowFlip> flips;  // the first flips nothing
    Table<unsigned> masks;  // as places
    Table<int> sum_begins;  // of each Pauli sum
    Table<RowEntry> sum_entries;  // masks
    Table<int> sum_outputs;  // which output each is
    Table<int> mask_begins;  // of each mask
    Table<RowEntry> mask_entries;  // outputs
    const int* marginals;  // first output, number of qubits, first place, and a column a qubit
    int num_bits;
    int per_row;
    int num_angles;
    int num_ops;
    int num_flips;
    int num_sums;
    int num_outputs;
    int num_marginals;
    int identity;  // the mask that is empty, of the strings that flip nothing
    int phase;  // the angle of the global phase; none if negative
    int num_slots;
};
static_assert(sizeof(RowLaunch) == 440, "size of RowLaunch");

#ifdef CHECK_OFFSETS
static_assert(OFFSET(RowOp, kind) == 0, "kind");
static_assert(OFFSET(RowOp, count) == 4, "count");
static_assert(OFFSET(RowOp, first) == 8, "first");
static_assert(OFFSET(RowOp, matrix) == 12, "matrix");
static_assert(OFFSET(RowOp, columns) == 16, "columns");
static_assert(OFFSET(RowOp, starts) == 20, "starts");
static_assert(OFFSET(RowOp, high) == 24, "high");
static_assert(OFFSET(RowOp, wanted) == 28, "wanted");
static_assert(OFFSET(RowOp, signs) == 32, "signs");
static_assert(OFFSET(RowOp, direction) == 36, "direction");
static_assert(OFFSET(RowOp, angle) == 48, "angle");
static_assert(OFFSET(RowOp, flips) == 60, "flips");
static_assert(OFFSET(RowTerm, place) == 0, "place");
static_assert(OFFSET(RowTerm, angle) == 4, "angle");
static_assert(OFFSET(RowEntry, coefficient) == 0, "coefficient");
static_assert(OFFSET(RowEntry, other) == 8, "other");
static_assert(OFFSET(RowEntry, unused) == 12, "unused");
static_assert(OFFSET(RowFlip, bits) == 0, "bits");
static_assert(OFFSET(RowFlip, pivot) == 4, "pivot");
static_assert(OFFSET(RowFlip, imaginary) == 8, "imaginary");
static_assert(OFFSET(RowFlip, first) == 12, "first");
static_assert(OFFSET(RowFlip, end) == 16, "end");
static_assert(OFFSET(RowLaunch, row_values) == 0, "row_values");
static_assert(OFFSET(RowLaunch, shared_values) == 8, "shared_values");
static_assert(OFFSET(RowLaunch, values) == 16, "values");
static_assert(OFFSET(RowLaunch, single_values) == 24, "single_values");
static_assert(OFFSET(RowLaunch, cotangents) == 32, "cotangents");
static_assert(OFFSET(RowLaunch, by_angle) == 40, "by_angle");
static_assert(OFFSET(RowLaunch, states) == 48, "states");
static_assert(OFFSET(RowLaunch, kets) == 56, "kets");
static_assert(OFFSET(RowLaunch, shared_slots) == 64, "shared_slots");
static_assert(OFFSET(RowLaunch, turned) == 72, "turned");
static_assert(OFFSET(RowLaunch, phases) == 80, "phases");
static_assert(OFFSET(RowLaunch, scratch) == 88, "scratch");
static_assert(OFFSET(RowLaunch, far_states) == 96, "far_states");
static_assert(OFFSET(RowLaunch, far_turns) == 104, "far_turns");
static_assert(OFFSET(RowLaunch, num_rows) == 112, "num_rows");
static_assert(OFFSET(RowLaunch, first_op) == 120, "first_op");
static_assert(OFFSET(RowLaunch, undo_start) == 124, "undo_start");
static_assert(OFFSET(RowLaunch, singles) == 128, "singles");
static_assert(OFFSET(RowLaunch, known) == 132, "known");
static_assert(OFFSET(RowLaunch, row_bytes) == 136, "row_bytes");
static_assert(OFFSET(RowLaunch, num_masks) == 140, "num_masks");
static_assert(OFFSET(RowLaunch, constants) == 144, "constants");
static_assert(OFFSET(RowLaunch, begins) == 152, "begins");
static_assert(OFFSET(RowLaunch, entries) == 160, "entries");
static_assert(OFFSET(RowLaunch, traits) == 168, "traits");
static_assert(OFFSET(RowLaunch, slot_constants) == 176, "slot_constants");
static_assert(OFFSET(RowLaunch, shared_begins) == 184, "shared_begins");
static_assert(OFFSET(RowLaunch, shared_entries) == 192, "shared_entries");
static_assert(OFFSET(RowLaunch, row_begins) == 200, "row_begins");
static_assert(OFFSET(RowLaunch, row_entries) == 208, "row_entries");
static_assert(OFFSET(RowLaunch, shared_uses) == 216, "shared_uses");
static_assert(OFFSET(RowLaunch, shared_users) == 224, "shared_users");
static_assert(OFFSET(RowLaunch, row_uses) == 232, "row_uses");
static_assert(OFFSET(RowLaunch, row_users) == 240, "row_users");
static_assert(OFFSET(RowLaunch, start_begins) == 248, "start_begins");
static_assert(OFFSET(RowLaunch, factors) == 256, "factors");
static_assert(OFFSET(RowLaunch, ops) == 264, "ops");
static_assert(OFFSET(RowLaunch, starts) == 272, "starts");
static_assert(OFFSET(RowLaunch, columns) == 280, "columns");
static_assert(OFFSET(RowLaunch, terms) == 288, "terms");
static_assert(OFFSET(RowLaunch, diagonals) == 296, "diagonals");
static_assert(OFFSET(RowLaunch, targets) == 304, "targets");
static_assert(OFFSET(RowLaunch, matrices) == 312, "matrices");
static_assert(OFFSET(RowLaunch, logical) == 320, "logical");
static_assert(OFFSET(RowLaunch, flips) == 328, "flips");
static_assert(OFFSET(RowLaunch, masks) == 336, "masks");
static_assert(OFFSET(RowLaunch, sum_begins) == 344, "sum_begins");
static_assert(OFFSET(RowLaunch, sum_entries) == 352, "sum_entries");
static_assert(OFFSET(RowLaunch, sum_outputs) == 360, "sum_outputs");
static_assert(OFFSET(RowLaunch, mask_begins) == 368, "mask_begins");
static_assert(OFFSET(RowLaunch, mask_entries) == 376, "mask_entries");
static_assert(OFFSET(RowLaunch, marginals) == 384, "marginals");
static_assert(OFFSET(RowLaunch, num_bits) == 392, "num_bits");
static_assert(OFFSET(RowLaunch, per_row) == 396, "per_row");
static_assert(OFFSET(RowLaunch, num_angles) == 400, "num_angles");
static_assert(OFFSET(RowLaunch, num_ops) == 404, "num_ops");
static_assert(OFFSET(RowLaunch, num_flips) == 408, "num_flips");
static_assert(OFFSET(RowLaunch, num_sums) == 412, "num_sums");
static_assert(OFFSET(RowLaunch, num_outputs) == 416, "num_outputs");
static_assert(OFFSET(RowLaunch, num_marginals) == 420, "num_marginals");
static_assert(OFFSET(RowLaunch, identity) == 424, "identity");
static_assert(OFFSET(RowLaunch, phase) == 428, "phase");
static_assert(OFFSET(RowLaunch, num_slots) == 432, "num_slots");
#endif
