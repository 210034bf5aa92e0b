// One row of a batch, in shared memory or, of more qubits, in global memory: its start, its operations, its outputs, and the way back.
#pragma once

#include "row_team.cuh"

// One row, with what it works on.
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

    __device__ __forceinline__ void bind() const {
        for (int a = team.thread; a < launch.num_angles; a += team.threads) {
            if (!(launch.traits[a] & OF_ROW)) {
                const Complex both = launch.turned[a];
                turns[a] = {both.x, both.y};
                continue;
            }
            turns[a] = turned(angle_of(launch, a, [&](int s) {
                return sum_of(launch.shared_slots[s], launch.row_begins[s], launch.row_begins[s + 1], launch.row_entries, [&](int p) { return given(launch.row_values, launch.singles & ROWS_SINGLE, number * launch.per_row + p); });
            }));
        }
        team.sync();
    }

    // The first rotations of each qubit: its amplitudes of |0> and |1>, four numbers.
    __device__ __forceinline__ void turn_qubit(Real* q, int axis, Real c, Real s) const {
        const Real a = q[0], b = q[1], d = q[2], e = q[3];
        if (axis == 0)
            q[0] = c * a + s * e, q[1] = c * b - s * d, q[2] = c * d + s * b, q[3] = c * e - s * a;
        else if (axis == 1)
            q[0] = c * a - s * d, q[1] = c * b - s * e, q[2] = c * d + s * a, q[3] = c * e + s * b;
        else
            q[0] = c * a + s * b, q[1] = c * b - s * a, q[2] = c * d - s * e, q[3] = c * e + s * d;
    }

    __device__ __forceinline__ void start_qubits() const {
        for (int q = team.thread; q < launch.num_bits; q += team.threads) {
            Real* const own = qubits + 4 * q;
            own[0] = 1, own[1] = own[2] = own[3] = 0;
            for (int f = launch.start_begins[q]; f < launch.start_begins[q + 1]; ++f) {
                const Turned t = turns[launch.factors[2 * f + 1]];
                turn_qubit(own, launch.factors[2 * f], t.cosine, t.sine);
            }
        }
        team.sync();
    }

    __device__ __forceinline__ void start() const {
        // The lowest bits of all amplitudes of a thread are those of its number.
        const int low = min(launch.num_bits, 31 - __clz(team.threads));
        const Complex first = product({1, 0}, team.thread, 0, low);
        for (unsigned s = team.thread; s < size(); s += team.threads) {
            const Complex a = product(first, s, low, launch.num_bits);
            ket[swizzled(s)] = a.x;
            ket[swizzled(s) ^ plane()] = a.y;
        }
        team.sync();
    }

    // Times the amplitudes of qubits begin ... end - 1 at index s.
    __device__ __forceinline__ Complex product(Complex a, unsigned s, int begin, int end) const {
        for (int q = begin; q < end; ++q) {
            const Real* const own = qubits + 4 * q + 2 * (s >> q & 1);
            a = {a.x * own[0] - a.y * own[1], a.x * own[1] + a.y * own[0]};
        }
        return a;
    }

    // Derivatives by the angles of the start, of a bra that is pulled back to it. bra is overwritten.
    __device__ __forceinline__ void undo_start() const {
        Real* const bras = qubits + 4 * launch.num_bits;
        for (int q = launch.num_bits - 1; q >= 0; --q) {
            const unsigned half = 1u << q;
            const Real* const own = qubits + 4 * q;
            Real sum[4] = {0, 0, 0, 0};
            for (unsigned l = team.thread; l < half; l += team.threads) {
                const unsigned zero = swizzled(l), one = swizzled(l | half);
                const Real a = bra[zero], b = bra[zero ^ plane()], c = bra[one], d = bra[one ^ plane()];
                const Complex p = product({1, 0}, l, 0, q);
                sum[0] += a * p.x + b * p.y;
                sum[1] += b * p.x - a * p.y;
                sum[2] += c * p.x + d * p.y;
                sum[3] += d * p.x - c * p.y;
                bra[zero] = a * own[0] + b * own[1] + c * own[2] + d * own[3];
                bra[zero ^ plane()] = b * own[0] - a * own[1] + d * own[2] - c * own[3];
            }
            // Each warp's sums; rooms take turns, so that one barrier a qubit is enough.
            double* const sums = room + (q & 1) * 3 * 32;
#pragma unroll
            for (int k = 0; k < 4; ++k) {
                sum[k] = warp_sum(sum[k]);
                if (team.thread % 32 == 0) sums[team.thread / 32 * 4 + k] = sum[k];
            }
            team.sync();
            if (team.thread < 4) {
                double total = 0;
                for (unsigned w = 0; w < team.warps(); ++w) total += sums[4 * w + team.thread];
                bras[4 * q + team.thread] = Real(total);
            }
        }
        team.sync();
        for (int q = team.thread; q < launch.num_bits; q += team.threads) {
            Real *const k = qubits + 4 * q, *const b = bras + 4 * q;
            for (int f = launch.start_begins[q + 1] - 1; f >= launch.start_begins[q]; --f) {
                const int axis = launch.factors[2 * f], angle = launch.factors[2 * f + 1];
                if (axis == 0)
                    note(angle, b[0] * k[3] - b[1] * k[2] + b[2] * k[1] - b[3] * k[0]);
                else if (axis == 1)
                    note(angle, b[2] * k[0] - b[0] * k[2] + b[3] * k[1] - b[1] * k[3]);
                else
                    note(angle, b[0] * k[1] - b[1] * k[0] - b[2] * k[3] + b[3] * k[2]);
                const Turned t = turns[angle];
                turn_qubit(k, axis, t.cosine, -t.sine);
                turn_qubit(b, axis, t.cosine, -t.sine);
            }
        }
    }

    // Calls f with the place of each of a thread's steps.
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

    // Which of the 2^K numbers that a group mixes belong to pair r of rotation j: the first, without bit j.
    static __device__ __forceinline__ constexpr int first_of(int r, int j) { return (r >> j) << (j + 1) | (r & ((1 << j) - 1)); }

    // Whether pair r of rotation j turns the other way.
    static __device__ __forceinline__ bool is_negative(const RowOp& op, int j, int r) { return op.signs >> (4 * j + r) & 1; }

    // Number o of a group, with the other sign if flips say so; only numbers that two or more rotations reach can have it.
    static __device__ __forceinline__ Real in_sign(Real value, unsigned flips, int o) { return (o & (o - 1)) ? negated(value, flips << (31 - o)) : value; }

    // A group of rotations. EVEN: they commute, so that with other signs of some numbers all pairs of a rotation turn the same way.
    template <int K, bool BACK, bool EVEN>
    __device__ __forceinline__ void rotate(const RowOp& op, int parity) const {
        constexpr int SIZE = 1 << K, PAIRS = SIZE / 2, SINES = EVEN ? 1 : PAIRS;
        unsigned offset[SIZE];
        Real cosine[K], sine[K][SINES], sum[K];
        offset[0] = 0;
#pragma unroll
        for (int j = 0; j < K; ++j) {
#pragma unroll
            for (int o = 0; o < 1 << j; ++o) offset[o | 1 << j] = offset[o] ^ op.direction[j];
            const Turned t = turns[op.angle[j]];
            cosine[j] = t.cosine;
            sum[j] = 0;
#pragma unroll
            for (int r = 0; r < SINES; ++r) sine[j][r] = is_negative(op, j, r) != BACK ? -t.sine : t.sine;
        }
        const auto turn = [&](Real* x, int j) {
#pragma unroll
            for (int r = 0; r < PAIRS; ++r) {
                const int first = first_of(r, j), second = first | 1 << j;
                const Real u = x[first], v = x[second], s = sine[j][EVEN ? 0 : r];
                x[first] = cosine[j] * u - s * v;
                x[second] = cosine[j] * v + s * u;
            }
        };
        const auto load = [&](Real* x, const Real* from, unsigned place) {
#pragma unroll
            for (int o = 0; o < SIZE; ++o) x[o] = EVEN ? in_sign(from[place ^ offset[o]], op.flips, o) : from[place ^ offset[o]];
        };
        const auto store = [&](const Real* x, Real* to, unsigned place) {
#pragma unroll
            for (int o = 0; o < SIZE; ++o) to[place ^ offset[o]] = EVEN ? in_sign(x[o], op.flips, o) : x[o];
        };
        walk(op, [&](unsigned place) {
            Real x[SIZE];
            load(x, ket, place);
            if constexpr (BACK) {
                Real y[SIZE];
                load(y, bra, place);
#pragma unroll
                for (int j = K - 1; j >= 0; --j) {
#pragma unroll
                    for (int r = 0; r < PAIRS; ++r) {
                        const int first = first_of(r, j), second = first | 1 << j;
                        const Real part = y[second] * x[first] - y[first] * x[second];
                        sum[j] += !EVEN && is_negative(op, j, r) ? -part : part;
                    }
                    turn(x, j);
                    turn(y, j);
                }
                store(y, bra, place);
            } else {
#pragma unroll
                for (int j = 0; j < K; ++j) turn(x, j);
            }
            store(x, ket, place);
        });
        if constexpr (BACK) {
            constexpr int SUMS = K == 3 ? 4 : K;
            Real each[SUMS] = {};
#pragma unroll
            for (int j = 0; j < K; ++j) each[j] = EVEN && is_negative(op, j, 0) ? -sum[j] : sum[j];
            const Real own = warp_sums<SUMS>(each);
            note_sums<SUMS>(op, K, own, parity);
        } else {
            team.sync();
        }
    }

    // The derivatives by the angles of a group, whose sums over a warp its lanes have: lane l that of angle l % SUMS. With a barrier.
    template <int SUMS>
    __device__ __forceinline__ void note_sums(const RowOp& op, int count, Real own, int parity) const {
        const unsigned warp = team.thread / 32, lane = team.thread % 32;
        double* const sums = room + parity * ROW_ROOM / 2;
        if (team.threads > 32 && lane < SUMS) sums[warp * SUMS + lane] = own;
        team.sync();
        if (warp > 0) return;
        double total = own;
        if (team.threads > 32) {
            total = 0;
            for (unsigned k = lane; k < SUMS * team.warps(); k += 32) total += sums[k];
#pragma unroll
            for (int step = SUMS; step < 32; step *= 2) total += __shfl_xor_sync(ALL, total, step);
        }
        if (lane < count) note(lane == 0 ? op.angle[0] : lane == 1 ? op.angle[1] : op.angle[2], total);
    }

    template <bool BACK>
    __device__ __forceinline__ void rotate_group(const RowOp& op, int parity) const {
        switch (op.count) {
            case 1: return rotate<1, BACK, true>(op, parity);
            case 2: return op.flips == ROW_UNEVEN ? rotate<2, BACK, false>(op, parity) : rotate<2, BACK, true>(op, parity);
            default: return op.flips == ROW_UNEVEN ? rotate<3, BACK, false>(op, parity) : rotate<3, BACK, true>(op, parity);
        }
    }

    // The phases of COUNT of a thread's amplitudes, all on their way at once. A table of many qubits is read without driving the
    // other tables out of the cache.
    template <int COUNT>
    __device__ __forceinline__ void fetch_phases(const RowOp& op, unsigned first, Complex* phase) const {
        const Complex* const table = launch.phases + (Index(op.first) << launch.num_bits);
#pragma unroll
        for (int j = 0; j < COUNT; ++j) {
            const unsigned s = first + j * team.threads;
            phase[j] = launch.num_bits < STREAMED_BITS ? read_only(table + s) : streamed(table + s);
        }
    }

    template <int COUNT>
    __device__ __forceinline__ void phases(const RowOp& op) const {
        for (unsigned first = team.thread; first < size(); first += COUNT * team.threads) {
            Complex phase[COUNT];
            fetch_phases<COUNT>(op, first, phase);
#pragma unroll
            for (int j = 0; j < COUNT; ++j) {
                const unsigned re = swizzled(first + j * team.threads), im = re ^ plane();
                const Complex p = phase[j];
                const Real a = ket[re], b = ket[im];
                ket[re] = p.x * a - p.y * b;
                ket[im] = p.x * b + p.y * a;
            }
        }
        team.sync();
    }

    // Back through a table of phases. The derivative by the angle of mask m is the sum of (-1)^(s & m) Im <bra_s|ket_s>. The
    // amplitudes that a thread has at a time differ in BITS bits, over which it transforms these parts before it writes them to work.
    template <int BITS>
    __device__ __forceinline__ void undo_phases(const RowOp& op) const {
        constexpr int COUNT = 1 << BITS;
        const int begin = launch.diagonals[2 * op.first], end = launch.diagonals[2 * op.first + 1];
        // What follows the last use of work needs no barrier, unless it is another table.
        team.sync();
        for (unsigned first = team.thread; first < size(); first += COUNT * team.threads) {
            Complex phase[COUNT];
            Real part[COUNT];
            fetch_phases<COUNT>(op, first, phase);
#pragma unroll
            for (int j = 0; j < COUNT; ++j) {
                const unsigned re = swizzled(first + j * team.threads), im = re ^ plane();
                const Complex p = phase[j];
                const Real a = ket[re], b = ket[im], c = bra[re], d = bra[im];
                ket[re] = p.x * a + p.y * b;
                ket[im] = p.x * b - p.y * a;
                bra[re] = p.x * c + p.y * d;
                bra[im] = p.x * d - p.y * c;
                part[j] = c * b - d * a;
            }
            if (!op.wanted) continue;
            butterflies<COUNT>(part);
#pragma unroll
            for (int j = 0; j < COUNT; ++j) work[swizzled(first + j * team.threads)] = part[j];
        }
        team.sync();
        if (!op.wanted) return;
        // The bits that threads have transformed over.
        const int low = BITS == 0 ? 0 : 31 - __clz(team.threads), high = low + BITS;
        if (end - begin <= 2 * int(team.warps())) return sum_terms(begin, end, low, high);
        walsh_between(team, work, 0, low, launch.num_bits);
        walsh_between(team, work, high, launch.num_bits, launch.num_bits);
        for (int t = begin + team.thread; t < end; t += team.threads) note(launch.terms.at(t, &RowTerm::angle), work[launch.terms.at(t, &RowTerm::place)]);
    }

    // As many amplitudes at a time as a thread has, up to eight.
    template <bool BACK>
    __device__ __forceinline__ void multiply_phases(const RowOp& op) const {
        if (size() >= 8 * team.threads)
            BACK ? undo_phases<3>(op) : phases<8>(op);
        else if (size() >= 4 * team.threads)
            BACK ? undo_phases<2>(op) : phases<4>(op);
        else
            BACK ? undo_phases<0>(op) : phases<1>(op);
    }

    // Few terms: a warp sums up what belongs to each. Bits low ... high - 1 are transformed already.
    __device__ __forceinline__ void sum_terms(int begin, int end, int low, int high) const {
        const unsigned below = (1u << low) - 1, inside = (1u << high) - 1 & ~below, lane = team.thread % 32;
        for (int t = begin + team.thread / 32; t < end; t += team.warps()) {
            const unsigned mask = swizzled(launch.terms.at(t, &RowTerm::place)), signs = mask & ~inside;
            const int angle = launch.terms.at(t, &RowTerm::angle);
            Real sum = 0;
#pragma unroll 8
            for (unsigned i = lane; i < size() >> (high - low); i += 32) {
                const unsigned s = (i & below) | (i & ~below) << (high - low);
                sum += negated(work[swizzled(s | (mask & inside))], __popc(s & signs) << 31);
            }
            const double total = warp_sum(double(sum));
            if (lane == 0) note(angle, total);
        }
    }

    template <int BITS, bool BACK>
    __device__ __forceinline__ void multiply(const RowOp& op, Real* state) const {
        constexpr int SIZE = 1 << BITS;
        unsigned target[BITS], offset[SIZE];
#pragma unroll
        for (int j = 0; j < BITS; ++j) target[j] = launch.targets[op.first + j];
#pragma unroll
        for (int o = 0; o < SIZE; ++o) {
            offset[o] = 0;
#pragma unroll
            for (int j = 0; j < BITS; ++j) offset[o] ^= o >> j & 1 ? target[j] : 0;
        }
        const Table<Complex> matrix = launch.matrices + op.matrix;
        walk(op, [&](unsigned place) {
            Complex x[SIZE];
#pragma unroll
            for (int o = 0; o < SIZE; ++o) x[o] = {state[place ^ offset[o]], state[place ^ offset[o] ^ plane()]};
#pragma unroll 1
            for (int row = 0; row < SIZE; ++row) {
                Complex sum = {0, 0};
#pragma unroll
                for (int o = 0; o < SIZE; ++o) {
                    Complex m = matrix[BACK ? o * SIZE + row : row * SIZE + o];
                    if (BACK) m.y = -m.y;
                    sum.x += m.x * x[o].x - m.y * x[o].y;
                    sum.y += m.x * x[o].y + m.y * x[o].x;
                }
                unsigned to = place;
#pragma unroll
                for (int j = 0; j < BITS; ++j) to ^= row >> j & 1 ? target[j] : 0;
                state[to] = sum.x;
                state[to ^ plane()] = sum.y;
            }
        });
    }

    template <bool BACK>
    __device__ __forceinline__ void multiply_matrix(const RowOp& op) const {
#pragma unroll 1
        for (int s = 0; s < 1 + BACK; ++s) {
            Real* const state = s == 0 ? ket : bra;
            switch (op.count) {
                case 1: multiply<1, BACK>(op, state); break;
                case 2: multiply<2, BACK>(op, state); break;
                case 3: multiply<3, BACK>(op, state); break;
                default: multiply<4, BACK>(op, state);
            }
        }
        team.sync();
    }

    // In four accesses.
    __device__ __forceinline__ RowOp op_of(int k) const {
        static_assert(sizeof(RowOp) == 4 * sizeof(uint4), "as many numbers as are read");
        const uint4* const from = reinterpret_cast<const uint4*>(launch.ops.first + k);
        const uint4 a = __ldg(from), b = __ldg(from + 1), c = __ldg(from + 2), d = __ldg(from + 3);
        return {int(a.x), int(a.y), int(a.z), int(a.w), int(b.x), int(b.y), int(b.z), int(b.w), c.x, {c.y, c.z, c.w}, {int(d.x), int(d.y), int(d.z)}, d.w};
    }

    template <bool BACK>
    __device__ __forceinline__ void run(int first) const {
        for (int k = 0; k < launch.num_ops - first; ++k) {
            const RowOp op = op_of(BACK ? launch.num_ops - 1 - k : k);
            if (op.kind == ROW_ROTATIONS)
                rotate_group<BACK>(op, k & 1);
            else if (op.kind == ROW_PHASES)
                multiply_phases<BACK>(op);
            else
                multiply_matrix<BACK>(op);
        }
    }

    // Strings that flip the same bits: for each amplitude a without the lowest of these bits, and b = a ^ flip.
    template <class Pair>
    __device__ __forceinline__ void flipped(const RowFlip& flip, Pair pair) const {
        for (unsigned i = team.thread; i < size() / 2; i += team.threads) {
            const unsigned a = i >> flip.pivot << (flip.pivot + 1) | (i & ((1u << flip.pivot) - 1));
            pair(swizzled(i), swizzled(a), swizzled(a ^ flip.bits));
        }
        team.sync();
    }

    __device__ __forceinline__ double cotangent(int output) const { return given(launch.cotangents, launch.singles & COTANGENTS_SINGLE, number * launch.num_outputs + output); }
    __device__ __forceinline__ void put_value(int output, double value) const {
        launch.values[number * launch.num_outputs + output] = value;
        if (launch.single_values) launch.single_values[number * launch.num_outputs + output] = float(value);
    }

    // Tables of phases of so many qubits are larger than what shared memory leaves to the cache.
    static constexpr int STREAMED_BITS = 11;

    // Few strings are summed one by one; more are cheaper together, by a Walsh-Hadamard transform of all.
    static constexpr int FEW = 4;
    static __device__ __forceinline__ bool has_few(const RowFlip& flip) { return flip.bits != 0 && flip.end - flip.first <= FEW; }

    // Of amplitude a, without the lowest of the flipped bits.
    static __device__ __forceinline__ unsigned packed(const RowFlip& flip, unsigned a) { return a >> (flip.pivot + 1) << flip.pivot | (a & ((1u << flip.pivot) - 1)); }

    // Places are their own inverses: the mask of string m.
    __device__ __forceinline__ unsigned mask_of(int m) const { return swizzled(launch.masks[m]); }

    // A warp sums over all pairs of a flip.
    __device__ __forceinline__ void sum_few(const RowFlip& flip) const {
        double sum[FEW] = {};
        unsigned mask[FEW];
#pragma unroll
        for (int k = 0; k < FEW; ++k) mask[k] = flip.first + k < flip.end ? mask_of(flip.first + k) : 0;
#pragma unroll 4
        for (unsigned i = team.thread % 32; i < size() / 2; i += 32) {
            const unsigned first = i >> flip.pivot << (flip.pivot + 1) | (i & ((1u << flip.pivot) - 1));
            const unsigned a = swizzled(first), b = swizzled(first ^ flip.bits);
            const Real ar = ket[a], ai = ket[a ^ plane()], br = ket[b], bi = ket[b ^ plane()];
            const double value = flip.imaginary ? br * ai - bi * ar : br * ar + bi * ai;
#pragma unroll
            for (int k = 0; k < FEW; ++k)
                if (flip.first + k < flip.end) sum[k] += __popc(i & mask[k]) & 1 ? -value : value;
        }
#pragma unroll
        for (int k = 0; k < FEW; ++k) {
            if (flip.first + k >= flip.end) break;
            const double total = warp_sum(sum[k]);
            if (team.thread % 32 == 0) leaves[flip.first + k] = Real(total);
        }
    }

    __device__ __forceinline__ void outputs() const {
        for (int f = 0; f < launch.num_flips; ++f) {
            const RowFlip flip = launch.flips.first[f];
            if (has_few(flip)) continue;
            if (flip.bits == 0) {
                for (unsigned s = team.thread; s < size(); s += team.threads) {
                    const Real x = ket[swizzled(s)], y = ket[swizzled(s) ^ plane()];
                    work[swizzled(s)] = x * x + y * y;
                }
                team.sync();
            } else {
                flipped(flip, [&](unsigned to, unsigned a, unsigned b) {
                    const Real ar = ket[a], ai = ket[a ^ plane()], br = ket[b], bi = ket[b ^ plane()];
                    work[to] = flip.imaginary ? br * ai - bi * ar : br * ar + bi * ai;
                });
            }
            walsh(team, work, launch.num_bits - (flip.bits != 0));
            for (int m = flip.first + team.thread; m < flip.end; m += team.threads) leaves[m] = work[launch.masks[m]];
            team.sync();
        }
        for (int f = team.thread / 32; f < launch.num_flips; f += team.warps()) {
            const RowFlip flip = launch.flips.first[f];
            if (has_few(flip)) sum_few(flip);
        }
        team.sync();
        for (int k = team.thread; k < launch.num_sums; k += team.threads) {
            double sum = 0;
            for (int e = launch.sum_begins[k]; e < launch.sum_begins[k + 1]; ++e) sum += launch.sum_entries.at(e, &RowEntry::coefficient) * leaves[launch.sum_entries.at(e, &RowEntry::other)];
            put_value(launch.sum_outputs[k], sum);
        }
        for (int m = 0; m < launch.num_marginals; ++m) {
            const int *const marginal = launch.marginals + m * (launch.num_bits + 3), count = marginal[1], inside = launch.num_bits - count;
            for (unsigned k = team.thread / 32; k < 1u << count; k += team.warps()) {
                double sum = 0;
                for (unsigned g = team.thread % 32; g < 1u << inside; g += 32) {
                    const unsigned place = marginal_place(marginal, k << inside | g);
                    const Real x = ket[place], y = ket[place ^ plane()];
                    sum += x * x + y * y;
                }
                sum = warp_sum(sum);
                if (team.thread % 32 == 0) put_value(marginal[0] + k, sum);
            }
        }
        team.sync();
    }

    __device__ __forceinline__ unsigned marginal_place(const int* marginal, unsigned step) const {
        unsigned place = marginal[2];
        for (int b = 0; b < launch.num_bits; ++b) place ^= step >> b & 1 ? marginal[3 + b] : 0;
        return place;
    }

    // Adds the flips of few strings to the bra, with the weights that leaves hold. A thread has the same amplitudes of the bra for
    // every flip, COUNT of them in registers.
    template <unsigned COUNT>
    __device__ __forceinline__ void add_few() const {
        for (unsigned base = team.thread; base < size(); base += COUNT * team.threads) {
            Real x[COUNT], y[COUNT];
#pragma unroll
            for (unsigned j = 0; j < COUNT; ++j) {
                const unsigned here = swizzled(base + j * team.threads);
                x[j] = bra[here], y[j] = bra[here ^ plane()];
            }
#pragma unroll 1
            for (int f = 0; f < launch.num_flips; ++f) {
                const RowFlip flip = launch.flips.first[f];
                if (!has_few(flip)) continue;
                Real weight[COUNT] = {};
#pragma unroll 1
                for (int m = flip.first; m < flip.end; ++m) {
                    const unsigned mask = mask_of(m);
                    const Real leaf = leaves[m] / 2;
#pragma unroll
                    for (unsigned j = 0; j < COUNT; ++j) {
                        const unsigned s = base + j * team.threads, lower = s >> flip.pivot & 1 ? s ^ flip.bits : s;
                        weight[j] += __popc(packed(flip, lower) & mask) & 1 ? -leaf : leaf;
                    }
                }
#pragma unroll
                for (unsigned j = 0; j < COUNT; ++j) {
                    const unsigned s = base + j * team.threads, other = swizzled(s ^ flip.bits);
                    const Real re = ket[other], im = ket[other ^ plane()];
                    const Real turned = s >> flip.pivot & 1 ? -weight[j] : weight[j];
                    x[j] += flip.imaginary ? -turned * im : weight[j] * re;
                    y[j] += flip.imaginary ? turned * re : weight[j] * im;
                }
            }
#pragma unroll
            for (unsigned j = 0; j < COUNT; ++j) {
                const unsigned here = swizzled(base + j * team.threads);
                bra[here] = x[j], bra[here ^ plane()] = y[j];
            }
        }
        team.sync();
    }

    // Whether there is one output, a Pauli sum O whose value is not known: it is then <ket|bra> of the bra O ket.
    __device__ __forceinline__ bool is_one_sum() const { return launch.num_outputs == 1 && launch.num_sums == 1 && !launch.known; }

    // bra = sum of cotangents O ket, less a multiple of the ket, which changes no derivative. Of one sum, its value too.
    __device__ __forceinline__ void pull_back() const {
        const bool one = is_one_sum();
        const double* const values = launch.values + number * launch.num_outputs;
        double shift = 0;
        if (!one) {
            for (int k = team.thread; k < launch.num_outputs; k += team.threads) shift += cotangent(k) * values[k];
            shift = team_sum(team, shift, room);
        }
        for (int m = team.thread; m < launch.num_masks; m += team.threads) {
            double sum = m == launch.identity ? -shift : 0;
            for (int e = launch.mask_begins[m]; e < launch.mask_begins[m + 1]; ++e) sum += launch.mask_entries.at(e, &RowEntry::coefficient) * (one ? 1 : cotangent(launch.mask_entries.at(e, &RowEntry::other)));
            leaves[m] = Real(sum);
        }
        team.sync();
        for (int f = 0; f < launch.num_flips; ++f) {
            const RowFlip flip = launch.flips.first[f];
            if (has_few(flip)) continue;
            const int bits = launch.num_bits - (flip.bits != 0);
            for (unsigned s = team.thread; s < 1u << bits; s += team.threads) work[s] = 0;
            team.sync();
            for (int m = flip.first + team.thread; m < flip.end; m += team.threads) work[launch.masks[m]] = flip.bits ? leaves[m] / 2 : leaves[m];
            team.sync();
            walsh(team, work, bits);
            if (flip.bits == 0) {
                // The first of all: it sets the bra, the others add to it.
                for (unsigned s = team.thread; s < size(); s += team.threads) {
                    const unsigned re = swizzled(s), im = re ^ plane();
                    bra[re] = work[re] * ket[re];
                    bra[im] = work[re] * ket[im];
                }
                team.sync();
            } else {
                flipped(flip, [&](unsigned from, unsigned a, unsigned b) {
                    const Real w = work[from], ar = ket[a], ai = ket[a ^ plane()], br = ket[b], bi = ket[b ^ plane()];
                    bra[a] += w * (flip.imaginary ? -bi : br);
                    bra[a ^ plane()] += w * (flip.imaginary ? br : bi);
                    bra[b] += w * (flip.imaginary ? ai : ar);
                    bra[b ^ plane()] += w * (flip.imaginary ? -ar : ai);
                });
            }
        }
        size() >= 4 * team.threads ? add_few<4>() : add_few<1>();
        if (one) return scale_bra();
        for (int m = 0; m < launch.num_marginals; ++m) {
            const int *const marginal = launch.marginals + m * (launch.num_bits + 3), inside = launch.num_bits - marginal[1];
            for (unsigned g = team.thread; g < size(); g += team.threads) {
                const unsigned place = marginal_place(marginal, g);
                const Real weight = Real(cotangent(marginal[0] + (g >> inside)));
                bra[place] += weight * ket[place];
                bra[place ^ plane()] += weight * ket[place ^ plane()];
            }
            team.sync();
        }
    }

    // The value of the only output, O, and from O ket the bra.
    __device__ __forceinline__ void scale_bra() const {
        double value = 0;
        for (unsigned i = team.thread; i < 2 * size(); i += team.threads) value += double(ket[i]) * bra[i];
        value = team_sum(team, value, room);
        if (team.thread == 0) put_value(0, value);
        const Real weight = Real(cotangent(0)), shift = Real(value);
        for (unsigned i = team.thread; i < 2 * size(); i += team.threads) bra[i] = weight * (bra[i] - shift * ket[i]);
        team.sync();
    }

    // The whole state, in logical order.
    __device__ __forceinline__ void write_state() const {
        Turned phase = {1, 0};
        if (launch.phase >= 0) phase = turns[launch.phase];
        Complex* const to = launch.states + (number << launch.num_bits);
        for (unsigned s = team.thread; s < size(); s += team.threads) {
            unsigned place = launch.logical[0];
            for (int q = 0; q < launch.num_bits; ++q) place ^= s >> q & 1 ? launch.logical[1 + q] : 0;
            const Real re = ket[place], im = ket[place ^ plane()];
            to[s] = {re * phase.cosine + im * phase.sine, im * phase.cosine - re * phase.sine};
        }
    }

    // From the start to what is asked for.
    template <bool BACK>
    __device__ __forceinline__ void run_all() const {
        bind();
        start_qubits();
        Real* const kept = launch.kets ? launch.kets + (number << (launch.num_bits + 1)) : nullptr;
        if (BACK && kept) {
            for (unsigned i = team.thread; i < 2 * size(); i += team.threads) ket[i] = kept[i];
            team.sync();
        } else {
            start();
            run<false>(0);
        }
        if (!BACK && kept)
            for (unsigned i = team.thread; i < 2 * size(); i += team.threads) kept[i] = ket[i];
        if (launch.values && !launch.known && !(BACK && is_one_sum())) outputs();
        if constexpr (BACK) {
            pull_back();
            run<true>(launch.first_op);
            if (launch.undo_start) {
                team.sync();
                undo_start();
            }
        }
        if (launch.states) write_state();
    }
};
