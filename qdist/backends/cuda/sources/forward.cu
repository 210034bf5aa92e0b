// One stage of a program on a GPU. Each thread block copies the stage's tables to shared memory, and then goes through many
// tiles: it loads one, runs the stage's phases on it, and stores it.
#include "kernel.cuh"

// Flags of a phase. OTHERWISE: reading the tile changes indices by far bits or performs an operation. APART: adjacent places are not
// read by one access of 16 bytes. LISTED: its operations are in the list. Else it has 4x4 matrices alone, one a pair of register
// bits at most, passed as kernel arguments (constant bank): PAIRED, WHOLE and EXCHANGED, shifted by the number of the pair, tell of
// which kind.
enum { OTHERWISE = 1, EXCLUSIVE = 2, LISTED = 4, TURNS = 8, APART = 16, PAIRED = 32, WHOLE = 256, EXCHANGED = 2048 };

__device__ __forceinline__ int2 head_of(Table<Phase> phases, int p, int with_launch) {
    const int first_op = p > 0 ? phases.at(p - 1, &Phase::end_op) : 0, end_op = phases.at(p, &Phase::end_op), fours = phases.at(p, &Phase::fours);
    int flags = 0;
    if (phases.at(p, &Phase::mode) != SHARED || phases.at(p, &Phase::first_flip) < phases.at(p, &Phase::end_flip)) flags |= OTHERWISE;
    if (phases.at(p, &Phase::apart)) flags |= APART;
    if (phases.at(p, &Phase::exclusive)) flags |= EXCLUSIVE;
    if (phases.at(p, &Phase::turns)) flags |= TURNS;
    if (fours && with_launch)
        flags |= fours * PAIRED;
    else if (first_op < end_op)
        flags |= LISTED;
    return {flags, end_op};
}

// The same as fetch_each (kernel.cuh) where no index changes: adjacent amplitudes are copied together.
__device__ __forceinline__ void fetch_neighbours(unsigned place, const ForwardStep& step, const Stored* from, const Index* index_columns) {
    const Columns columns = columns_of(step.load);
    Index steps[4];
#pragma unroll
    for (int b = 0; b < 4; ++b) steps[b] = index_columns[b];
#pragma unroll
    for (int k = 0; k < N / SIDE; ++k) {
        if (k > 0) {
            place ^= columns.of[lowest(k)];
            from += gray(k) >> lowest(k) & 1 ? steps[lowest(k)] : -steps[lowest(k)];
            // The empty asm pins the pointer; otherwise NVRTC recomputes base + offset in every iteration.
            asm volatile("" : "+l"(from));
        }
#if WIDENED
        shared_at(place) = streamed(from);
#else
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(shared_address(place)), "l"(from));
#endif
    }
}

extern "C" __global__ void run_stage(const __grid_constant__ Launch launch, const __grid_constant__ ForwardPlaces in_shared, const __grid_constant__ Fours fours) {
    const Index tiles = launch.tiles, outside = launch.outside, size = launch.size, offset = launch.offset, zeros = launch.zeros;
    const int num_phases = launch.num_phases, num_coefficients = launch.num_coefficients, num_runs = launch.num_runs;
    const Table<int> runs = launch.runs, begins = launch.begins, lists = launch.lists;
    const Table<Phase> phases = launch.phases;
    const Table<Slot> slots = launch.slots;
    const Table<Flip> flips = launch.flips;
    const Table<Part> parts = launch.parts;
    const Table<Real> reals = launch.reals + Index(blockIdx.y) * launch.reals_stride;
    const Table<Turn> turns = launch.turns + Index(blockIdx.y) * launch.turns_stride;
    // The asm keeps it in a register; otherwise NVRTC reads the special register, which is slow, in every phase.
    unsigned thread;
    asm volatile("mov.u32 %0, %%tid.x;" : "=r"(thread));
    Stored* ket = launch.ket + Index(blockIdx.y) * size;
    // Pinned as well: otherwise the row's offset is added to each amplitude's address.
    asm volatile("" : "+l"(ket));

    Turn* coefficients = at_byte<Turn>(in_shared.coefficients);
    const Index* own_places = at_byte<Index>(in_shared.places);
    Real* const numbers = at_byte<Real>(in_shared.numbers);
    Op* const own_ops = at_byte<Op>(in_shared.ops);
    ForwardStep* steps = at_byte<ForwardStep>(in_shared.steps);
    Own* own = at_byte<Own>(in_shared.own) + thread;
    copy(in_shared.places, launch.places, 2 * (R + blockDim.x));
    copy(in_shared.numbers + in_shared.first_number * int(sizeof(Real)), reals + in_shared.first_number, in_shared.num_numbers);
    copy(in_shared.ops, launch.ops, in_shared.num_ops);
#pragma unroll 1
    for (int p = 0; p < num_phases; ++p) {
        const Slot slot = slot_of(slots, p * blockDim.x + thread);
        own[p * blockDim.x] = {static_cast<unsigned short>(slot.load * sizeof(Complex)), static_cast<unsigned short>(slot.store * sizeof(Complex))};
    }
#pragma unroll 1
    for (int p = thread; p < num_phases; p += blockDim.x) {
        steps[p].load = in_bytes(phases.at(p, &Phase::load));
        steps[p].store = in_bytes(phases.at(p, &Phase::store));
        steps[p].fifth = phases.at(p, &Phase::load)[4] * PLACE_BYTES;
        steps[p].head = head_of(phases, p, in_shared.with_launch);
    }
    __syncthreads();
    find_shears(own_ops, in_shared.num_ops, numbers);
    __syncthreads();

    // States smaller than a thread's registers are padded with zeros.
    const bool whole = size >= N;
    const Index stride = base_of(gridDim.x, runs, num_runs);
    Index base = base_of(blockIdx.x, runs, num_runs);
    const auto fetch = [&](Index base) {
        if (in_shared.plain & 1 && whole && !zeros)
            fetch_neighbours(own->load, steps[0], ket + (base | own_places[R + thread]), own_places);
        else
            fetch_each(own->load, columns_of(steps[0].load, steps[0].fifth), ket, base ^ own_places[R + thread] ^ flipped(flips, launch.load_flip, launch.load_flip_end, base | offset), own_places, size, zeros);
    };
    fetch(base);
#pragma unroll 1
    for (Index tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
        const Index where = base | offset;
        // Masked increment: the tile's own bits are filled with ones, so the carry ripples across them.
        const Index next = (base | ~outside) + stride & outside;
        if (num_coefficients) {
            // Barrier: all threads have read the coefficients of the tile before.
            __syncthreads();
#pragma unroll 1
            for (int c = thread; c < num_coefficients; c += blockDim.x) {
                Turn sum = 0;
#pragma unroll 1
                for (int p = begins[c]; p < begins[c + 1]; ++p)
                    if ((where & parts.at(p, &Part::mask)) == parts.at(p, &Part::value)) sum += turns[parts.at(p, &Part::turn)];
                coefficients[c] = sum;
            }
            __syncthreads();
        }

        States a;
        int o = 0;
        int2 head = steps[0].head;
        Own slot = *own;
        uint4 load = steps[0].load;
        there();
#pragma unroll 1
        for (int p = 0; p < num_phases; ++p) {
            if (head.x & OTHERWISE) {
                read_tile(a, phases, p, slot_of(slots, p * blockDim.x + thread), flips, lists, reals, where, nullptr);
            } else if (SIDE > 1 && head.x & APART) {
                unsigned address[N];
                span<unsigned>(slot.load, columns_of(load, steps[p].fifth).of, address);
#pragma unroll
                for (int k = 0; k < N; ++k) a[0][k] = shared_at(address[k]);
            } else {
                unsigned address[N / SIDE];
                span<unsigned, N / SIDE>(slot.load, columns_of(load).of, address);
#pragma unroll
                for (int k = 0; k < N / SIDE; ++k) {
                    const Neighbours both = *at_byte<Neighbours>(address[k]);
#pragma unroll
                    for (int s = 0; s < SIDE; ++s) a[0][k + s * (N / SIDE)] = both.of[s];
                }
            }
            if (p + 1 == num_phases) {
                // Barrier: all threads have read shared memory, so the next tile may be prefetched over it and this one written to
                // permuted addresses.
                __syncthreads();
                if (tile + gridDim.x < tiles) fetch(next);
            }
#if KEEP_NORM
            const KeptNorm norm(at_byte<double>(in_shared.norms));
            if (p == 0) norm.note(a);
#endif
            if (head.x & LISTED) {
                run_ops(a, head.y, head.x & TURNS, o, own_ops, launch.terms, lists, nullptr, nullptr, reals, numbers, coefficients, where, nullptr);
            } else {
                if (head.x & PAIRED)
                    pair<0>(a, fours.of[2 * p]);
                else if (head.x & WHOLE)
                    dense2<0, false>(a, Operands{fours.of[2 * p]}, 0);
#if EXCHANGES
                else if (head.x & EXCHANGED)
                    exchange<0>(a, fours.of[2 * p]);
#endif
                if (head.x & PAIRED << 1)
                    pair<1>(a, fours.of[2 * p + 1]);
                else if (head.x & WHOLE << 1)
                    dense2<1, false>(a, Operands{fours.of[2 * p + 1]}, 0);
#if EXCHANGES
                else if (head.x & EXCHANGED << 1)
                    exchange<1>(a, fours.of[2 * p + 1]);
#endif
                if (head.x & PAIRED << 2)
                    pair<2>(a, fours.of[2 * p + 1]);
                else if (head.x & WHOLE << 2)
                    dense2<2, false>(a, Operands{fours.of[2 * p + 1]}, 0);
#if EXCHANGES
                else if (head.x & EXCHANGED << 2)
                    exchange<2>(a, fours.of[2 * p + 1]);
#endif
                o = head.y;
            }
#if KEEP_NORM
            if ((p + 1) % PHASES_A_NORM == 0 || p + 1 == num_phases) norm.restore(a);
#endif
            if (p + 1 < num_phases) {
                // Barrier: other threads have read the places that this one writes.
                if (head.x & EXCLUSIVE) __syncthreads();
                unsigned address[N / SIDE];
                span<unsigned, N / SIDE>(slot.store, columns_of(steps[p].store).of, address);
                // Prefetched before the barrier: what the next phase begins with.
                head = steps[p + 1].head;
                slot = own[(p + 1) * blockDim.x];
                load = steps[p + 1].load;
#pragma unroll
                for (int k = 0; k < N / SIDE; ++k) {
                    Neighbours both;
#pragma unroll
                    for (int s = 0; s < SIDE; ++s) both.of[s] = a[0][k + s * (N / SIDE)];
                    *at_byte<Neighbours>(address[k]) = both;
                }
                __syncthreads();
            }
        }

        const Index* stored = own_places + R + blockDim.x;
        if (in_shared.plain & 2 && whole) {
            Stored* to = ket + (base | stored[R + thread]);
#pragma unroll
            for (int k = 0; k < N / SIDE; ++k) {
                if (k > 0) to += gray(k) >> lowest(k) & 1 ? stored[lowest(k)] : -stored[lowest(k)];
                asm volatile("" : "+l"(to));
                write_streamed(to, a[0], gray(k));
            }
        } else {
            Index at[N];
            span<Index>(base ^ stored[R + thread] ^ flipped(flips, launch.store_flip, launch.store_flip_end, where), stored, at);
#pragma unroll
            for (int k = 0; k < N; ++k)
                if (at[k] < size) stream(ket + at[k], a[0][k]);
        }
        base = next;
    }
}
