// What the tile kernel's sources share: the records of qdist/cuda/tables.py, field by field, and where things are.
//
// Compiled with Real (float or double), Pair (float2 or double2), Turn (unsigned of the same size), REGISTER_BITS, STATES (1, or
// 2 for a ket and a bra), RARE (whether what few circuits need is part of it; without, it compiles in half the time) and
// KEEP_NORM (norm.cu) defined.

typedef unsigned long long Index;

struct __align__(2 * sizeof(Real)) Complex {
    Real x, y;
};

struct __align__(16) Op {
    int kind, data;
    unsigned threads, word;
    Index far_mask, far_value;
};

struct __align__(8) Phase {
    int mode, end_op, first_flip, end_flip, exclusive, special;
    int load[5], store[5], index[5];
    int turns, apart, fours;
};

struct Flip {
    Index mask, value, bits;
};

struct __align__(8) Term {
    unsigned threads;
    int coefficient;
};

struct Part {
    Index mask, value;
    int turn, unused;
};

struct __align__(8) Slot {
    unsigned short load, store, index, unused;
};

// A sum over amplitudes with the sign of a parity. threads: mask of the thread's number; far: of positions outside the tile.
struct __align__(16) Parity {
    unsigned threads;
    int result;
    Index far;
};

// Numbers of operations of 4 by 4 that come with the launch: two slots a phase, one for the first pair of register bits and one
// for another. The compiler has each an operand of its own, which no register is read for, where a loop's counter tells the slot.
constexpr int FOUR_PHASES = FOURS_BYTES / (2 * 32 * sizeof(Real));
struct Fours {
    Complex of[2 * FOUR_PHASES][16];
};

constexpr int R = REGISTER_BITS;
constexpr int N = 1 << R;
// A bit that three register bits do not have is never asked for.
constexpr int FOURTH = R > 3 ? 3 : R - 1;

// A thread's own amplitudes of each state.
typedef Complex States[STATES][N];

// States that lie side by side in shared memory, where one access of 16 bytes reads or writes both; else one state's tile
// follows the other's.
constexpr int TOGETHER = STATES * sizeof(Complex) <= 16 ? STATES : 1;
constexpr unsigned PLACE_BYTES = TOGETHER * sizeof(Complex);

struct __align__(PLACE_BYTES) Place {
    Complex of[TOGETHER];
};

// Amplitudes of one state that lie side by side there: those that the last register bit tells apart.
constexpr int SIDE = STATES * sizeof(Complex) == 8 && R > 2 ? 2 : 1;

struct __align__(SIDE * sizeof(Complex)) Neighbours {
    Complex of[SIDE];
};

enum { REAL1 = 0, DENSE1 = 8, DENSE2 = 16, CONTROLLED1 = 24, CONTROLLED2 = 32, PHASES = 40, CROSS = 48, TURN = 56, LOOKUP = 64, TRANSITION1 = 72, TRANSITION2 = 80, WEIGH = 88, PAIR = 96 };
enum { SHARED = 0, PERMUTE = 1, ROTATION = 2, WIDE = 3 };

__device__ __forceinline__ bool holds(unsigned thread, unsigned condition) {
    return (thread & condition & 0xffff) == condition >> 16;
}

__device__ __forceinline__ Index joined(const int* halves) {
    return Index(unsigned(halves[0])) | Index(unsigned(halves[1])) << 32;
}
