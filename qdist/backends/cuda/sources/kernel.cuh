// What the kernels of a stage share: how a thread block copies tables, reads a tile from shared memory and runs a phase's operations.
//
// Compiled for one of STATES it is a part of the forward run (forward.cu). For two it is a part of the adjoint sweep
// (backward.cu): the tiles of a ket and of a bra are worked on together, and what the angles of the blocks change is summed
// on the way (sums.cuh).
//
// Nothing here depends on the circuit. What to do comes in tables (lowering/tables.py writes them, lowering/records describes them), so
// one compilation per precision serves every circuit, and new parameters are two small arrays. All threads of a block
// read the same records, so branches are uniform; registers are indexed by constants in every case.
#pragma once

#include "norm.cuh"
#include "ops.cuh"
#include "shears.cuh"
#include "sums.cuh"
#include "turns.cuh"

// Copies `count` elements of a table to shared memory, in units of 4 bytes.
template <class T>
__device__ __forceinline__ void copy(int to, Table<T> from, int count) {
    const unsigned* source = reinterpret_cast<const unsigned*>(from.first);
#pragma unroll 1
    for (int w = threadIdx.x; w < count * int(sizeof(T) / 4); w += blockDim.x) reinterpret_cast<unsigned*>(memory + to)[w] = read_only(source + w);
}

__device__ __forceinline__ Slot slot_of(Table<Slot> slots, Index k) {
    return {slots.at(k, &Slot::load), slots.at(k, &Slot::store), slots.at(k, &Slot::index)};
}

// Terms are in global memory (forward) or in shared memory (backward).
__device__ __forceinline__ Term term_of(Table<Term> terms, int t) {
    const uint2 v = __ldg(reinterpret_cast<const uint2*>(terms.first + t));
    return {v.x, int(v.y)};
}
__device__ __forceinline__ Term term_of(const Term* terms, int t) { return terms[t]; }

template <class T>
__device__ __forceinline__ T* at_byte(int place) { return reinterpret_cast<T*>(memory + place); }

__device__ __forceinline__ Index base_of(Index tile, Table<int> runs, int num_runs) {
    Index base = 0;
#pragma unroll 1
    for (int r = 0; r < num_runs; ++r) base |= (tile >> runs[3 * r] & ((Index(1) << runs[3 * r + 1]) - 1)) << runs[3 * r + 2];
    return base;
}

__device__ __forceinline__ Index flipped(Table<Flip> flips, int first, int end, Index where) {
    Index flip = 0;
#pragma unroll 1
    for (int f = first; f < end; ++f)
        if ((where & flips.at(f, &Flip::mask)) == flips.at(f, &Flip::value)) flip ^= flips.at(f, &Flip::bits);
    return flip;
}

// Columns of the register bits.
struct Columns {
    unsigned of[5];
};
__device__ __forceinline__ Columns columns_of(uint4 first, unsigned fifth = 0) { return {first.x, first.y, first.z, first.w, fifth}; }

// The first four of a table.
__device__ __forceinline__ uint4 in_bytes(Table<int> columns) { return {columns[0] * PLACE_BYTES, columns[1] * PLACE_BYTES, columns[2] * PLACE_BYTES, columns[3] * PLACE_BYTES}; }

// Prefetch: asynchronous copies of a thread's amplitudes from global to shared memory; `there` waits for them. Amplitudes past the
// end of a state that is smaller than a tile, and those whose index has a bit of `zeros`, are zeros and not read. Addresses follow in
// Gray code order, one bit at a time, so that a thread keeps only one. Amplitudes that are WIDENED go through registers, and are
// there at once.
__device__ __forceinline__ void fetch_each(unsigned place, Columns columns, const Stored* ket, Index at, const Index* index_columns, Index size, Index zeros) {
    Index steps[R];
#pragma unroll
    for (int b = 0; b < R; ++b) steps[b] = index_columns[b];
#pragma unroll
    for (int k = 0; k < N; ++k) {
        if (k > 0) {
            place ^= columns.of[lowest(k)];
            at ^= steps[lowest(k)];
        }
        const bool inside = at < size && !(at & zeros);
#if WIDENED
        shared_at(place) = inside ? streamed(ket + at) : Complex{0, 0};
#else
        asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(shared_address(place)), "l"(ket + (inside ? at : 0)), "n"(sizeof(Complex)), "r"(inside ? unsigned(sizeof(Complex)) : 0));
#endif
    }
}
__device__ __forceinline__ void there() { asm volatile("cp.async.wait_all;" ::: "memory"); }

// The bits that state number s has its tile at in shared memory, added to an address by XOR.
__device__ __forceinline__ unsigned tile_of(int s) { return s * unsigned(sizeof(Complex)) * (TOGETHER > 1 ? 1 : blockDim.x << R); }

// What all places of a thread hold, read from and written to shared memory.
__device__ __forceinline__ void read_places(States& states, const unsigned* address) {
#pragma unroll
    for (int s = 0; s < STATES; s += TOGETHER)
#pragma unroll
        for (int k = 0; k < N; ++k) {
            const Place place = *reinterpret_cast<const Place*>(memory + (address[k] ^ tile_of(s)));
#pragma unroll
            for (int t = 0; t < TOGETHER; ++t) states[s + t][k] = place.of[t];
        }
}
__device__ __forceinline__ void write_places(const States& states, const unsigned* address) {
#pragma unroll
    for (int s = 0; s < STATES; s += TOGETHER)
#pragma unroll
        for (int k = 0; k < N; ++k) {
            Place place;
#pragma unroll
            for (int t = 0; t < TOGETHER; ++t) place.of[t] = states[s + t][k];
            *reinterpret_cast<Place*>(memory + (address[k] ^ tile_of(s))) = place;
        }
}

// Reads the tiles and multiplies them by a matrix on the first COUNT register bits, the last of which may be the last of all instead:
// each element is read once and added to all that it is mixed into.
template <int COUNT, bool LAST>
__device__ __forceinline__ void held(States& states, unsigned first, Table<int> columns, Table<Complex> matrix) {
    constexpr int low = LAST ? COUNT - 1 : COUNT, groups = N >> COUNT;
    unsigned column[R], at[groups];
#pragma unroll
    for (int b = 0; b < R; ++b) column[b] = unsigned(columns[b]) * PLACE_BYTES;
    span<unsigned, groups>(first, column + low, at);
    States sums = {};
#pragma unroll 1
    for (int q = 0; q < 1 << COUNT; ++q) {
        unsigned offset = 0;
#pragma unroll
        for (int b = 0; b < COUNT; ++b) offset ^= q >> b & 1 ? column[b < low ? b : R - 1] : 0;
        Complex own[STATES][groups];
#pragma unroll
        for (int g = 0; g < groups; ++g)
#pragma unroll
            for (int s = 0; s < STATES; ++s) own[s][g] = shared_at(at[g] ^ offset ^ tile_of(s));
#pragma unroll
        for (int row = 0; row < 1 << COUNT; ++row) {
            const Complex entry = matrix[(row << COUNT) + q];
            const int place = LAST ? row & ((1 << low) - 1) | row >> low << (R - 1) : row;
#pragma unroll
            for (int s = 0; s < STATES; ++s)
#pragma unroll
                for (int g = 0; g < groups; ++g) sums[s][place | g << low] = times_plus(entry, own[s][g], sums[s][place | g << low]);
        }
    }
#pragma unroll
    for (int s = 0; s < STATES; ++s)
#pragma unroll
        for (int k = 0; k < N; ++k) states[s][k] = sums[s][k];
}

// Reads the tiles from shared memory; operations that mix threads happen here.
__device__ __forceinline__ void read_tile(States& states, Table<Phase> phases, int p, Slot slot, Table<Flip> flips, Table<int> lists, Table<Real> reals, Index where, double* sums) {
    const int mode = phases.at(p, &Phase::mode);
    if (mode == SHARED) {
        const unsigned at = slot.load ^ unsigned(flipped(flips, phases.at(p, &Phase::first_flip), phases.at(p, &Phase::end_flip), where));
        unsigned address[N];
        addresses(at, phases.at(p, &Phase::load), address);
        read_places(states, address);
        return;
    }
#if RARE
    const Table<int> list = lists + phases.at(p, &Phase::special);
    if (mode == PERMUTE) {
#pragma unroll
        for (int k = 0; k < N; ++k) {
            const unsigned at = list[k * blockDim.x + threadIdx.x] * PLACE_BYTES;
#pragma unroll
            for (int s = 0; s < STATES; ++s) states[s][k] = shared_at(at ^ tile_of(s));
        }
        return;
    }
    if (mode == MIXED) {
        const unsigned first = slot.store * PLACE_BYTES;
        const Table<int> columns = phases.at(p, &Phase::store);
        const Table<Complex> matrix = complex(reals + list[0]);
        const bool has_last = list[2];
        if constexpr (R > 3)
            if (list[1] == 4) return has_last ? held<4, true>(states, first, columns, matrix) : held<4, false>(states, first, columns, matrix);
        return has_last ? held<3, true>(states, first, columns, matrix) : held<3, false>(states, first, columns, matrix);
    }
    unsigned address[N], index[N], column[R];
    addresses(slot.store, phases.at(p, &Phase::store), address);
#pragma unroll
    for (int b = 0; b < R; ++b) column[b] = phases.at(p, &Phase::index)[b];
    span<unsigned>(slot.index, column, index);
    const unsigned mask = list[1], value = list[2];
    const bool far = (where & joined(list + 3)) == joined(list + 5);
    if (mode == ROTATION) {
        const Real cosine = reals[list[0]];
        const Complex factor = {reals[list[0] + 1], reals[list[0] + 2]};
        const unsigned x = list[7], x_place = list[8] * PLACE_BYTES, z = list[9];
        const int odd = __popcll(where & joined(list + 10));
        Complex overlap = {0, 0};
#pragma unroll
        for (int k = 0; k < N; ++k) {
#pragma unroll
            for (int s = 0; s < STATES; ++s) states[s][k] = shared_at(address[k] ^ tile_of(s));
            if (far && (index[k] & mask) == value) {
                const Real sign = (__popc((index[k] ^ x) & z) + odd) & 1 ? Real(-1) : Real(1);
#if STATES == 2
                add_product(overlap, states[1][k], shared_at(address[k] ^ x_place), sign);
#endif
#pragma unroll
                for (int s = 0; s < STATES; ++s) {
                    Complex& a = states[s][k];
                    const Complex other = shared_at(address[k] ^ x_place ^ tile_of(s));
                    a = {cosine * a.x + sign * (factor.x * other.x - factor.y * other.y),
                         cosine * a.y + sign * (factor.x * other.y + factor.y * other.x)};
                }
            }
        }
#if STATES == 2
        if (list[12] >= 0) add_overlap(overlap, list[13], sums + list[12]);
#endif
        return;
    }
    const Table<Complex> matrix = complex(reals + list[0]);
    const int count = list[7];
    const Table<int> bits = list + 8, spread = bits + count;
#pragma unroll
    for (int k = 0; k < N; ++k) {
#pragma unroll
        for (int s = 0; s < STATES; ++s) states[s][k] = shared_at(address[k] ^ tile_of(s));
        if (far && (index[k] & mask) == value) {
            int row = 0;
#pragma unroll 1
            for (int j = 0; j < count; ++j) row |= (index[k] >> bits[j] & 1) << j;
            const unsigned zero = address[k] ^ spread[row] * PLACE_BYTES;
            Complex total[STATES] = {};
#pragma unroll 1
            for (int q = 0; q < 1 << count; ++q) {
                const Complex entry = matrix[(row << count) + q];
                const unsigned at = zero ^ spread[q] * PLACE_BYTES;
#pragma unroll
                for (int s = 0; s < STATES; ++s) total[s] = times_plus(entry, shared_at(at ^ tile_of(s)), total[s]);
            }
#pragma unroll
            for (int s = 0; s < STATES; ++s) states[s][k] = total[s];
        }
    }
#endif
}

// All operations of a phase, in registers. o: the number of its first, then of the next phase's first. turns: whether all of a
// thread's amplitudes get a common phase at the end. numbers: matrices and phase factors in shared memory.
template <class Terms>
__device__ __forceinline__ void run_ops(States& a, int end_op, bool turns, int& o, const Op* ops, Terms terms, Table<int> lists, const int* weighs, const Parity* parities, Table<Real> reals, const Real* numbers, const Turn* coefficients, Index where, double* sums) {
    const unsigned thread = threadIdx.x;
    Turn turn = 0;
#pragma unroll 1
    for (; o < end_op; ++o) {
        // kind, data, threads, word
        const int4 head = *reinterpret_cast<const int4*>(ops + o);
        const int kind = head.x;
        const Four* data = reinterpret_cast<const Four*>(numbers + head.y);
        if (kind == LEAN) {
            with_two(head.w, Lean{a, data});
            continue;
        }
        if (kind == CORE) {
            with_two(head.w, Core{a, data});
            continue;
        }
        if (kind == REAL1) {
#if STATES == 2
            // A matrix on another bit acts on ket and bra alike and leaves these sums unchanged.
            if (head.z) add_turns<false>(a, head.z, sums + ops[o].far_mask);
#endif
            real1_each<false>(a, head.w, data);
            continue;
        }
        if (kind == IMAG1) {
#if STATES == 2
            if (head.z) add_turns<true>(a, head.z, sums + ops[o].far_mask);
#endif
            real1_each<true>(a, head.w, data);
            continue;
        }
        if (kind == PHASES) {
#if STATES == 2
            if (turns) {
                // The phase so far is common to all of a thread's amplitudes: it is multiplied into the table's entries once, for ket and bra.
                const Complex factor = cis(turn);
                turn = 0;
                turns = false;
                multiply_by_table(a, data, [&](Complex entry) { return times(factor, entry); });
                continue;
            }
#endif
            multiply_by_table(a, data, [](Complex entry) { return entry; });
            continue;
        }
        if (kind < DENSE2) {
            switch (kind) {
                case DENSE1: dense1<0, false>(a, data, 0); break;
                case DENSE1 + 1: dense1<1, false>(a, data, 0); break;
                case DENSE1 + 2: dense1<2, false>(a, data, 0); break;
                case DENSE1 + 3: dense1<FOURTH, false>(a, data, 0); break;
                case DENSE1 + 4: dense1<R - 1, false>(a, data, 0); break;
            }
            continue;
        }
#if STATES == 1
        if constexpr (sizeof(Real) == 8) {
            // Of phases whose matrices find no room among a kernel's arguments.
            switch (kind) {
                case PAIR: pair<0>(a, reinterpret_cast<const Complex*>(data)); continue;
                case PAIR + 1: pair<1>(a, reinterpret_cast<const Complex*>(data)); continue;
#if EXCHANGES
                case EXCHANGE: exchange<0>(a, reinterpret_cast<const Complex*>(data)); continue;
                case EXCHANGE + 1: exchange<1>(a, reinterpret_cast<const Complex*>(data)); continue;
#endif
            }
        }
#endif
        if (kind == TURN || (kind >= CROSS && kind < CROSS + 8)) {
            Turn sum = 0;
#pragma unroll 1
            for (int t = head.y; t < head.z; ++t) {
                const Term term = term_of(terms, t);
                if (holds(thread, term.threads)) sum += coefficients[term.coefficient];
            }
            if (kind == TURN) {
                turn += sum;
                turns = true;
                continue;
            }
            const Complex factor = cis(sum);
            switch (kind) {
                case CROSS: turn1<0>(a, factor); break;
                case CROSS + 1: turn1<1>(a, factor); break;
                case CROSS + 2: turn1<2>(a, factor); break;
                case CROSS + 3: turn1<FOURTH>(a, factor); break;
                case CROSS + 4: turn1<R - 1>(a, factor); break;
                default:
#pragma unroll
                    for (Complex* own : a)
#pragma unroll
                        for (int k = 0; k < N; ++k)
                            if (unsigned(head.w) >> k & 1) multiply(factor, own[k]);
            }
            continue;
        }
#if RARE
        if (kind == TURNED) {
            turned(a, ops[o], numbers + head.y, where, sums);
            continue;
        }
        if (kind == PATTERNED || kind == PATTERNED + 1) {
            patterned(a, ops[o], data, lists + ops[o].far_mask, where, sums);
            continue;
        }
#endif
        if ((where & ops[o].far_mask) != ops[o].far_value) continue;
        const unsigned word = kind < CONTROLLED1 ? ~0u : holds(thread, head.z) ? head.w : 0;
        switch (kind) {
#if RARE
            case CONTROLLED1: dense1<0, true>(a, data, word); break;
            case CONTROLLED1 + 1: dense1<1, true>(a, data, word); break;
            case CONTROLLED1 + 2: dense1<2, true>(a, data, word); break;
            case CONTROLLED1 + 3: dense1<FOURTH, true>(a, data, word); break;
            case CONTROLLED1 + 4: dense1<R - 1, true>(a, data, word); break;
            case LOOKUP: look_up(a, lists + head.y, reals, thread, word, where); break;
#endif
            case DENSE2:
            case CONTROLLED2: dense2<0, true>(a, Entries(data), word); break;
            case DENSE2 + 1:
            case CONTROLLED2 + 1: dense2<1, true>(a, Entries(data), word); break;
            case DENSE2 + 2:
            case CONTROLLED2 + 2: dense2<2, true>(a, Entries(data), word); break;
#if STATES == 2
            case TRANSITION1: add_transition1<0>(a, word, sums + head.y); break;
            case TRANSITION1 + 1: add_transition1<1>(a, word, sums + head.y); break;
            case TRANSITION1 + 2: add_transition1<2>(a, word, sums + head.y); break;
            case TRANSITION1 + 3: add_transition1<FOURTH>(a, word, sums + head.y); break;
            case TRANSITION2: add_transition2<0>(a, word, sums + head.y); break;
            case TRANSITION2 + 1: add_transition2<1>(a, word, sums + head.y); break;
            case WEIGH: weigh(a, head.z, weighs + head.y, parities, thread, where, sums); break;
            case CORE_TRANSITION: with_two(head.w, CoreTransition{a, unsigned(head.z), sums + head.y}); break;
#endif
        }
    }
    if (turns) {
        const Complex factor = cis(turn);
#pragma unroll
        for (Complex* own : a)
#pragma unroll
            for (int k = 0; k < N; ++k) multiply(factor, own[k]);
    }
}
