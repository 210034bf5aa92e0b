// One row of a batch, with what it works on, in shared memory or, of more qubits, in global memory.
#pragma once

#include "row_team.cuh"

struct Row {
    const RowLaunch& launch;
    Team team;
    Index number;
    Real *ket, *bra, *work, *leaves, *qubits;
    Turned* turns;
    double* room;

    __device__ __forceinline__ unsigned size() const { return 1u << launch.num_bits; }
    // What leads from a real part to the imaginary part.
    __device__ __forceinline__ unsigned plane() const { return swizzled(size()); }
    __device__ __forceinline__ void note(int angle, double derivative) const { launch.by_angle[Index(angle) * launch.num_rows + number] = derivative; }

    // Calls step with the place of each of a thread's steps.
    template <class Step>
    __device__ __forceinline__ void walk(const RowOp& op, Step step) const {
        const unsigned count = 1u << op.columns;
        if (team.thread >= count) return;
        unsigned place = launch.starts[op.starts + team.thread];
        const unsigned rounds = count / team.threads;
        // In Gray code order. One call, so that it is inlined.
#pragma unroll 1
        for (unsigned k = 1;; ++k) {
            step(place);
            if (k >= rounds) break;
            place ^= launch.columns[op.high + __ffs(k) - 1];
        }
    }

    // Its start (row_start.cuh).
    __device__ __forceinline__ void bind() const;
    __device__ __forceinline__ void start_qubits() const;
    __device__ __forceinline__ void start() const;
    __device__ __forceinline__ Complex product(Complex a, unsigned s, int begin, int end) const;
    __device__ __forceinline__ void undo_start() const;

    // Groups of rotations (row_rotations.cuh).
    template <int K, bool BACK, bool EVEN>
    __device__ __forceinline__ void rotate(const RowOp& op, int parity) const;
    template <int SUMS>
    __device__ __forceinline__ void note_sums(const RowOp& op, int count, Real own, int parity) const;
    template <bool BACK>
    __device__ __forceinline__ void rotate_group(const RowOp& op, int parity) const;

    // Diagonals (row_phases.cuh).
    // Tables of phases of so many qubits are larger than what shared memory leaves to the cache.
    static constexpr int STREAMED_BITS = 11;
    template <int COUNT>
    __device__ __forceinline__ void fetch_phases(const RowOp& op, unsigned first, Complex* phase) const;
    template <int COUNT>
    __device__ __forceinline__ void phases(const RowOp& op) const;
    template <int BITS>
    __device__ __forceinline__ void undo_phases(const RowOp& op) const;
    template <bool BACK>
    __device__ __forceinline__ void multiply_phases(const RowOp& op) const;
    __device__ __forceinline__ void sum_terms(int begin, int end, int low, int high) const;

    // Matrices, and all operations in order (row_operations.cuh).
    template <int BITS, bool BACK>
    __device__ __forceinline__ void multiply(const RowOp& op, Real* state) const;
    template <bool BACK>
    __device__ __forceinline__ void multiply_matrix(const RowOp& op) const;
    __device__ __forceinline__ RowOp op_of(int k) const;
    template <bool BACK>
    __device__ __forceinline__ void run(int first) const;

    // Outputs, and the bra that they pull back (row_outputs.cuh).
    // Few strings are summed one by one; more are cheaper together, by a Walsh-Hadamard transform of all.
    static constexpr int FEW = 4;
    __device__ __forceinline__ Real overlap(const RowFlip& flip, unsigned a, unsigned b) const;
    __device__ __forceinline__ Real probability(unsigned place) const;
    template <class Pair>
    __device__ __forceinline__ void flipped(const RowFlip& flip, Pair pair) const;
    __device__ __forceinline__ double cotangent(int output) const;
    __device__ __forceinline__ void put_value(int output, double value) const;
    __device__ __forceinline__ unsigned mask_of(int m) const;
    __device__ __forceinline__ void sum_few(const RowFlip& flip) const;
    __device__ __forceinline__ void outputs() const;
    __device__ __forceinline__ unsigned marginal_place(const int* marginal, unsigned step) const;
    template <unsigned COUNT>
    __device__ __forceinline__ void add_few() const;
    __device__ __forceinline__ bool is_one_sum() const;
    __device__ __forceinline__ void pull_back() const;
    __device__ __forceinline__ void scale_bra() const;
    __device__ __forceinline__ void write_state() const;

    // All of it (row_run.cuh).
    template <bool BACK>
    __device__ __forceinline__ void run_all() const;
};
