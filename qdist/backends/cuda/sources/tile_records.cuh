// What the tile kernels read, and what a launch of them takes.
//
// Generated from qdist/backends/cuda/lowering/records/tiles.py: do not edit. __init__.py there explains the words.
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

// An operation on a thread's registers.
struct __align__(16) Op {
    int kind;  // what it does; the register bit, or pair of bits, is added where there is one
    int data;  // where its numbers are in reals; of CROSS and TURN the first term; of sums the result or the list
    unsigned threads;  // condition on the thread; of CROSS and TURN the end of its terms; of REAL1 and IMAG1 the bits to sum for; of TURNED a mask, whose parity is a sign; of WEIGH how many conditions there are; of CORE_TRANSITION the numbers to sum, and TWO_SUMS
    unsigned word;  // register mask; of REAL1 and IMAG1 the register bits that have a matrix, and from bit 16 on those whose matrix need not be unitary; of CORE, LEAN and CORE_TRANSITION the number of two bits; of TURNED those of opposite sign; of PATTERNED what each register bit changes of the pattern; of WEIGH how many groups of parities there are
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
    Index zeros;  // bits of the tile: amplitudes whose index has a 1 there are zero before the stage
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
static_assert(sizeof(Launch) == 192, "size of Launch");

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
    int keep;  // what of the tiles is written back: 0 nothing, 1 what the stage began with, 2 all
};
static_assert(sizeof(Sweep) == 48, "size of Sweep");

#ifdef CHECK_OFFSETS
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
static_assert(OFFSET(Launch, zeros) == 40, "zeros");
static_assert(OFFSET(Launch, runs) == 48, "runs");
static_assert(OFFSET(Launch, phases) == 56, "phases");
static_assert(OFFSET(Launch, ops) == 64, "ops");
static_assert(OFFSET(Launch, slots) == 72, "slots");
static_assert(OFFSET(Launch, places) == 80, "places");
static_assert(OFFSET(Launch, flips) == 88, "flips");
static_assert(OFFSET(Launch, terms) == 96, "terms");
static_assert(OFFSET(Launch, begins) == 104, "begins");
static_assert(OFFSET(Launch, parts) == 112, "parts");
static_assert(OFFSET(Launch, lists) == 120, "lists");
static_assert(OFFSET(Launch, reals) == 128, "reals");
static_assert(OFFSET(Launch, reals_stride) == 136, "reals_stride");
static_assert(OFFSET(Launch, turns) == 144, "turns");
static_assert(OFFSET(Launch, turns_stride) == 152, "turns_stride");
static_assert(OFFSET(Launch, num_runs) == 160, "num_runs");
static_assert(OFFSET(Launch, num_phases) == 164, "num_phases");
static_assert(OFFSET(Launch, num_coefficients) == 168, "num_coefficients");
static_assert(OFFSET(Launch, load_flip) == 172, "load_flip");
static_assert(OFFSET(Launch, load_flip_end) == 176, "load_flip_end");
static_assert(OFFSET(Launch, store_flip) == 180, "store_flip");
static_assert(OFFSET(Launch, store_flip_end) == 184, "store_flip_end");
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
#endif
