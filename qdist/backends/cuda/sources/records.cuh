// Generated from qdist/backends/cuda/lowering/records.py, where the words are explained: do not edit.
#pragma once

#include "types.cuh"

// how a phase reads the tile
enum { SHARED = 0, PERMUTE = 1, ROTATION = 2, MIXED = 3, WIDE = 4 };

// kinds of operations
enum { REAL1 = 0, DENSE1 = 8, DENSE2 = 16, CONTROLLED1 = 24, CONTROLLED2 = 32, PHASES = 40, CROSS = 48, TURN = 56, LOOKUP = 64, TRANSITION1 = 72, TRANSITION2 = 80, WEIGH = 88, CORE_TRANSITION = 96, PAIR = 104, IMAG1 = 112, CORE = 120, TURNED = 128, LEAN = 136, PATTERNED = 144, EXCHANGE = 152 };

// bits of what a register bit changes of a pattern
enum { COLUMN_BITS = 5 };

// beside the numbers of a transition matrix that are summed up
enum { TWO_SUMS = 256 };

// beside the register bits of a parity with a factor
enum { GROUP_ENDS = 16, SUM_ENDS = 32 };

// kinds of operations of rows, flips of those that do not commute, and doubles of a row's room
enum { ROW_ROTATIONS = 0, ROW_PHASES = 1, ROW_MATRIX = 2, ROW_UNEVEN = 256, ROW_ROOM = 192 };

// An operation on a thread's registers.
struct __align__(16) Op {
    int kind;  // what it does; the register bit, or pair of bits, is added where there is one
    int data;  // where its numbers are in reals; of CROSS and TURN the first term; of sums the result or the list
    unsigned threads;  // condition on the thread; of CROSS and TURN the end of its terms; of REAL1 and IMAG1 the bits to sum for; of TURNED a mask, whose parity is a sign; of WEIGH how many conditions there are; of CORE_TRANSITION the numbers to sum, and TWO_SUMS
    unsigned word;  // register mask; of REAL1 and IMAG1 the register bits that have a matrix; of CORE, LEAN and CORE_TRANSITION the number of two bits; of TURNED those of opposite sign; of PATTERNED what each register bit changes of the pattern; of WEIGH how many groups of parities there are
    Index far_mask;  // condition on far bits; of REAL1 and IMAG1 the first sum; of TURNED a mask, whose parity is a sign; of PATTERNED the list of its parities
    Index far_value;  // of TURNED and PATTERNED twice the number of its flip, and 1 if Ys are odd; from bit 8 on the sum's number and 1, or 0
};
static_assert(sizeof(Op) == 32, "size of Op");

// A part of a stage during which the register bits are the same: read the tile, run operations, write it.
struct __align__(8) Phase {
    int mode;  // how the tile is read: SHARED, or as an operation that mixes threads
    int end_op;  // the operation after its last, counted from the stage's first
    int first_flip;  // changes of places that depend on far bits
    int end_flip;
    int exclusive;  // whether a thread writes what others read: a barrier lies in between
    int special;  // the list of what reading performs, if mode is not SHARED
    int load[5];  // columns of the register bits when reading
    int store[5];  // columns of the register bits when writing
    int index[5];  // the register bits in the tile's index
    int turns;  // whether all amplitudes of a thread get a common phase at the end
    int apart;  // whether adjacent places are read one by one, not by one access of 16 bytes
    int fours;  // kinds of its 4x4 matrices, if it has no other operations (fours.py)
};
static_assert(sizeof(Phase) == 96, "size of Phase");

// Index bits that are flipped where the far bits meet a condition.
struct Flip {
    Index mask;
    Index value;
    Index bits;  // bits of the index, or of a place
};
static_assert(sizeof(Flip) == 24, "size of Flip");

// A summand of a phase angle, for the threads that meet a condition.
struct __align__(8) Term {
    unsigned threads;  // condition on the thread
    int coefficient;  // its number in the stage
};
static_assert(sizeof(Term) == 8, "size of Term");

// A summand of a coefficient (a phase angle in fixed point), for the tiles whose far bits meet a condition.
struct Part {
    Index mask;
    Index value;
    int turn;  // its place in the table of phase angles
    int unused;
};
static_assert(sizeof(Part) == 24, "size of Part");

// Where a thread has its first amplitude in a phase.
struct __align__(8) Slot {
    unsigned short load;  // the place when reading
    unsigned short store;  // the place when writing
    unsigned short index;  // in the tile's index
    unsigned short unused;
};
static_assert(sizeof(Slot) == 8, "size of Slot");

// A sum over amplitudes with the sign of a parity.
struct __align__(16) Parity {
    unsigned threads;  // mask of the thread's number
    int result;  // the sum's number in the stage; none if negative
    Index far;  // mask of far bits
};
static_assert(sizeof(Parity) == 16, "size of Parity");

// A Pauli string of a pass over tiles.
struct __align__(8) String {
    Index far;  // mask of Z and Y at far bits
    unsigned near;  // mask of Z and Y at thread bits
    unsigned unused;
    double factor;  // its coefficient, in which every Y counts
};
static_assert(sizeof(String) == 24, "size of String");

// Pauli strings that flip the same bits of a tile.
struct __align__(16) Group {
    unsigned x;  // the flips, in the tile's index
    unsigned short word;  // register mask: amplitudes with the opposite sign in the strings from middle on
    unsigned short imaginary;  // whether their factors lack an i
    int middle;  // strings before it have one sign for all of a thread's amplitudes
    int end;  // the string after the last
};
static_assert(sizeof(Group) == 16, "size of Group");

// Where a thread has its first amplitude of a phase: in bytes (forward) or places (backward).
struct __align__(4) Own {
    unsigned short load;
    unsigned short store;
};
static_assert(sizeof(Own) == 4, "size of Own");

// A phase. Columns are bytes of the first four register bits.
struct ForwardStep {
    uint4 load;  // columns when reading
    uint4 store;  // columns when writing
    int2 head;  // flags (forward.cu), and the operation after its last
    unsigned fifth;  // column of the fifth register bit when reading
    unsigned unused;
};
static_assert(sizeof(ForwardStep) == 48, "size of ForwardStep");

// A phase of the adjoint sweep. Columns are bytes.
struct BackwardStep {
    int mode;
    int end_op;
    int first_flip;
    int end_flip;
    int exclusive;
    int unused[3];
    uint4 load;  // columns when reading
    uint4 store;  // columns when writing
};
static_assert(sizeof(BackwardStep) == 64, "size of BackwardStep");

// A Part with the phase angle itself.
struct Piece {
    Index mask;
    Index value;
    Turn turn;
};
static_assert(sizeof(Piece) == 24, "size of Piece");

// The stage that a launch runs.
struct Launch {
    Stored* ket;  // `size` amplitudes a row of the batch
    Index size;
    Index offset;  // index of the shard's first amplitude in the whole state
    Index tiles;  // how many there are
    Index outside;  // bits of the index that number the tiles
    Table<int> runs;  // (shift in the tile's number, width, shift in the index): number to first index
    Table<Phase> phases;
    Table<Op> ops;
    Table<Slot> slots;  // a row a phase, one for each thread
    Table<Index> places;  // columns of registers, offsets of threads in memory: to load, then to store
    Table<Flip> flips;
    Table<Term> terms;
    Table<int> begins;  // the first part of each coefficient, then the end
    Table<Part> parts;
    Table<int> lists;  // what operations that mix threads, and tables of phases, read
    Table<Real> reals;  // matrices and phase factors, a row a state
    Index reals_stride;
    Table<Turn> turns;  // phase angles in fixed point, a row a state
    Index turns_stride;
    int num_runs;
    int num_phases;
    int num_coefficients;
    int load_flip;  // changes of index on the way from memory
    int load_flip_end;
    int store_flip;  // changes of index on the way to memory
    int store_flip_end;
};
static_assert(sizeof(Launch) == 184, "size of Launch");

// Where a block of the forward kernel has its tables in shared memory, in bytes (resident.py).
struct ForwardPlaces {
    int coefficients;
    int places;
    int numbers;  // where number 0 of all stages would be
    int first_number;  // the stage's first, in reals
    int num_numbers;
    int ops;
    int num_ops;
    int steps;
    int own;
    int norms;
    int plain;  // 1: tiles are loaded without a change of index, 16 bytes at a time; 2: stored so
    int with_launch;  // whether the matrices in Fours are those of all states
};
static_assert(sizeof(ForwardPlaces) == 48, "size of ForwardPlaces");

// 4x4 matrices passed as kernel arguments (constant bank): two slots a phase (fours.py).
struct Fours {
    Complex of[(sizeof(Real) == 4 ? 28 : 14)][16];
};
static_assert(sizeof(Fours) == 3584, "size of Fours");

// Where a block of the adjoint sweep has its tables in shared memory, in bytes (back_resident.py).
struct BackwardPlaces {
    int coefficients;
    int places;
    int numbers;
    int first_number;  // what the stage reads of a table: the first, and how many
    int num_numbers;
    int ops;
    int num_ops;
    int steps;
    int own;
    int terms;
    int first_term;
    int num_terms;
    int parities;
    int first_parity;
    int num_parities;
    int weighs;
    int first_weigh;
    int num_weighs;
    int begins;
    int pieces;
    int norms;
};
static_assert(sizeof(BackwardPlaces) == 84, "size of BackwardPlaces");

// What the adjoint sweep has beside a stage.
struct Sweep {
    Stored* bra;  // as many amplitudes as the ket
    double* partial;  // num_sums doubles of its own for each warp
    Table<Parity> parities;
    Table<int> weighs;  // lists of the sums that diagonals need
    Table<double> shifts;  // for each row the multiple of the ket to subtract from the bra, or null
    int num_sums;
    int keep;  // whether the tiles are written back
};
static_assert(sizeof(Sweep) == 48, "size of Sweep");

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
#define OFFSET(T, FIELD) __INTADDR__(&((T*)0)->FIELD)
static_assert(OFFSET(Op, kind) == 0, "kind");
static_assert(OFFSET(Op, data) == 4, "data");
static_assert(OFFSET(Op, threads) == 8, "threads");
static_assert(OFFSET(Op, word) == 12, "word");
static_assert(OFFSET(Op, far_mask) == 16, "far_mask");
static_assert(OFFSET(Op, far_value) == 24, "far_value");
static_assert(OFFSET(Phase, mode) == 0, "mode");
static_assert(OFFSET(Phase, end_op) == 4, "end_op");
static_assert(OFFSET(Phase, first_flip) == 8, "first_flip");
static_assert(OFFSET(Phase, end_flip) == 12, "end_flip");
static_assert(OFFSET(Phase, exclusive) == 16, "exclusive");
static_assert(OFFSET(Phase, special) == 20, "special");
static_assert(OFFSET(Phase, load) == 24, "load");
static_assert(OFFSET(Phase, store) == 44, "store");
static_assert(OFFSET(Phase, index) == 64, "index");
static_assert(OFFSET(Phase, turns) == 84, "turns");
static_assert(OFFSET(Phase, apart) == 88, "apart");
static_assert(OFFSET(Phase, fours) == 92, "fours");
static_assert(OFFSET(Flip, mask) == 0, "mask");
static_assert(OFFSET(Flip, value) == 8, "value");
static_assert(OFFSET(Flip, bits) == 16, "bits");
static_assert(OFFSET(Term, threads) == 0, "threads");
static_assert(OFFSET(Term, coefficient) == 4, "coefficient");
static_assert(OFFSET(Part, mask) == 0, "mask");
static_assert(OFFSET(Part, value) == 8, "value");
static_assert(OFFSET(Part, turn) == 16, "turn");
static_assert(OFFSET(Part, unused) == 20, "unused");
static_assert(OFFSET(Slot, load) == 0, "load");
static_assert(OFFSET(Slot, store) == 2, "store");
static_assert(OFFSET(Slot, index) == 4, "index");
static_assert(OFFSET(Slot, unused) == 6, "unused");
static_assert(OFFSET(Parity, threads) == 0, "threads");
static_assert(OFFSET(Parity, result) == 4, "result");
static_assert(OFFSET(Parity, far) == 8, "far");
static_assert(OFFSET(String, far) == 0, "far");
static_assert(OFFSET(String, near) == 8, "near");
static_assert(OFFSET(String, unused) == 12, "unused");
static_assert(OFFSET(String, factor) == 16, "factor");
static_assert(OFFSET(Group, x) == 0, "x");
static_assert(OFFSET(Group, word) == 4, "word");
static_assert(OFFSET(Group, imaginary) == 6, "imaginary");
static_assert(OFFSET(Group, middle) == 8, "middle");
static_assert(OFFSET(Group, end) == 12, "end");
static_assert(OFFSET(Own, load) == 0, "load");
static_assert(OFFSET(Own, store) == 2, "store");
static_assert(OFFSET(ForwardStep, load) == 0, "load");
static_assert(OFFSET(ForwardStep, store) == 16, "store");
static_assert(OFFSET(ForwardStep, head) == 32, "head");
static_assert(OFFSET(ForwardStep, fifth) == 40, "fifth");
static_assert(OFFSET(ForwardStep, unused) == 44, "unused");
static_assert(OFFSET(BackwardStep, mode) == 0, "mode");
static_assert(OFFSET(BackwardStep, end_op) == 4, "end_op");
static_assert(OFFSET(BackwardStep, first_flip) == 8, "first_flip");
static_assert(OFFSET(BackwardStep, end_flip) == 12, "end_flip");
static_assert(OFFSET(BackwardStep, exclusive) == 16, "exclusive");
static_assert(OFFSET(BackwardStep, unused) == 20, "unused");
static_assert(OFFSET(BackwardStep, load) == 32, "load");
static_assert(OFFSET(BackwardStep, store) == 48, "store");
static_assert(OFFSET(Piece, mask) == 0, "mask");
static_assert(OFFSET(Piece, value) == 8, "value");
static_assert(OFFSET(Piece, turn) == 16, "turn");
static_assert(OFFSET(Launch, ket) == 0, "ket");
static_assert(OFFSET(Launch, size) == 8, "size");
static_assert(OFFSET(Launch, offset) == 16, "offset");
static_assert(OFFSET(Launch, tiles) == 24, "tiles");
static_assert(OFFSET(Launch, outside) == 32, "outside");
static_assert(OFFSET(Launch, runs) == 40, "runs");
static_assert(OFFSET(Launch, phases) == 48, "phases");
static_assert(OFFSET(Launch, ops) == 56, "ops");
static_assert(OFFSET(Launch, slots) == 64, "slots");
static_assert(OFFSET(Launch, places) == 72, "places");
static_assert(OFFSET(Launch, flips) == 80, "flips");
static_assert(OFFSET(Launch, terms) == 88, "terms");
static_assert(OFFSET(Launch, begins) == 96, "begins");
static_assert(OFFSET(Launch, parts) == 104, "parts");
static_assert(OFFSET(Launch, lists) == 112, "lists");
static_assert(OFFSET(Launch, reals) == 120, "reals");
static_assert(OFFSET(Launch, reals_stride) == 128, "reals_stride");
static_assert(OFFSET(Launch, turns) == 136, "turns");
static_assert(OFFSET(Launch, turns_stride) == 144, "turns_stride");
static_assert(OFFSET(Launch, num_runs) == 152, "num_runs");
static_assert(OFFSET(Launch, num_phases) == 156, "num_phases");
static_assert(OFFSET(Launch, num_coefficients) == 160, "num_coefficients");
static_assert(OFFSET(Launch, load_flip) == 164, "load_flip");
static_assert(OFFSET(Launch, load_flip_end) == 168, "load_flip_end");
static_assert(OFFSET(Launch, store_flip) == 172, "store_flip");
static_assert(OFFSET(Launch, store_flip_end) == 176, "store_flip_end");
static_assert(OFFSET(ForwardPlaces, coefficients) == 0, "coefficients");
static_assert(OFFSET(ForwardPlaces, places) == 4, "places");
static_assert(OFFSET(ForwardPlaces, numbers) == 8, "numbers");
static_assert(OFFSET(ForwardPlaces, first_number) == 12, "first_number");
static_assert(OFFSET(ForwardPlaces, num_numbers) == 16, "num_numbers");
static_assert(OFFSET(ForwardPlaces, ops) == 20, "ops");
static_assert(OFFSET(ForwardPlaces, num_ops) == 24, "num_ops");
static_assert(OFFSET(ForwardPlaces, steps) == 28, "steps");
static_assert(OFFSET(ForwardPlaces, own) == 32, "own");
static_assert(OFFSET(ForwardPlaces, norms) == 36, "norms");
static_assert(OFFSET(ForwardPlaces, plain) == 40, "plain");
static_assert(OFFSET(ForwardPlaces, with_launch) == 44, "with_launch");
static_assert(OFFSET(Fours, of) == 0, "of");
static_assert(OFFSET(BackwardPlaces, coefficients) == 0, "coefficients");
static_assert(OFFSET(BackwardPlaces, places) == 4, "places");
static_assert(OFFSET(BackwardPlaces, numbers) == 8, "numbers");
static_assert(OFFSET(BackwardPlaces, first_number) == 12, "first_number");
static_assert(OFFSET(BackwardPlaces, num_numbers) == 16, "num_numbers");
static_assert(OFFSET(BackwardPlaces, ops) == 20, "ops");
static_assert(OFFSET(BackwardPlaces, num_ops) == 24, "num_ops");
static_assert(OFFSET(BackwardPlaces, steps) == 28, "steps");
static_assert(OFFSET(BackwardPlaces, own) == 32, "own");
static_assert(OFFSET(BackwardPlaces, terms) == 36, "terms");
static_assert(OFFSET(BackwardPlaces, first_term) == 40, "first_term");
static_assert(OFFSET(BackwardPlaces, num_terms) == 44, "num_terms");
static_assert(OFFSET(BackwardPlaces, parities) == 48, "parities");
static_assert(OFFSET(BackwardPlaces, first_parity) == 52, "first_parity");
static_assert(OFFSET(BackwardPlaces, num_parities) == 56, "num_parities");
static_assert(OFFSET(BackwardPlaces, weighs) == 60, "weighs");
static_assert(OFFSET(BackwardPlaces, first_weigh) == 64, "first_weigh");
static_assert(OFFSET(BackwardPlaces, num_weighs) == 68, "num_weighs");
static_assert(OFFSET(BackwardPlaces, begins) == 72, "begins");
static_assert(OFFSET(BackwardPlaces, pieces) == 76, "pieces");
static_assert(OFFSET(BackwardPlaces, norms) == 80, "norms");
static_assert(OFFSET(Sweep, bra) == 0, "bra");
static_assert(OFFSET(Sweep, partial) == 8, "partial");
static_assert(OFFSET(Sweep, parities) == 16, "parities");
static_assert(OFFSET(Sweep, weighs) == 24, "weighs");
static_assert(OFFSET(Sweep, shifts) == 32, "shifts");
static_assert(OFFSET(Sweep, num_sums) == 40, "num_sums");
static_assert(OFFSET(Sweep, keep) == 44, "keep");
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
