// One stage of a program on a GPU. Each block of threads copies the stage's tables to shared memory, and then goes through
// many tiles: it loads one, runs the stage's phases on it, and stores it.
//
// records.cu, norm.cu, ops.cu and kernel.cu stand before it.

// A phase as it is in shared memory. load and store: columns of the first four register bits, fifth: of another when loading,
// in bytes. head: flags, and where its operations end.
struct __align__(16) Step {
    uint4 load, store;
    int2 head;
    unsigned fifth, unused;
};
// OTHERWISE: the tile is not just read place by place. APART: it is, but neighbours are not read together. LISTED: its operations
// are in the list. Else there are none but those of 4 by 4, one a pair of register bits at most, whose numbers came with the
// launch: PAIRED and WHOLE, shifted by the number of the pair, tell of which kind.
enum { OTHERWISE = 1, EXCLUSIVE = 2, LISTED = 4, TURNS = 8, APART = 16, PAIRED = 32, WHOLE = 256 };

__device__ __forceinline__ int2 head_of(const Phase& phase, int first_op, int with_launch) {
    int flags = 0;
    if (phase.mode != SHARED || phase.first_flip < phase.end_flip) flags |= OTHERWISE;
    if (phase.apart) flags |= APART;
    if (phase.exclusive) flags |= EXCLUSIVE;
    if (phase.turns) flags |= TURNS;
    if (phase.fours && with_launch)
        flags |= phase.fours * PAIRED;
    else if (first_op < phase.end_op)
        flags |= LISTED;
    return {flags, phase.end_op};
}

// The same as fetch_each (kernel.cu) where no index changes: neighbours are copied together.
__device__ __forceinline__ void fetch_neighbours(unsigned place, const Step& step, const Complex* from, const Index* index_columns) {
    const Columns columns = columns_of(step.load);
    Index steps[4];
#pragma unroll
    for (int b = 0; b < 4; ++b) steps[b] = index_columns[b];
#pragma unroll
    for (int k = 0; k < N / SIDE; ++k) {
        if (k > 0) {
            place ^= columns.of[lowest(k)];
            from += gray(k) >> lowest(k) & 1 ? steps[lowest(k)] : -steps[lowest(k)];
            // Kept as it is, or the compiler would begin anew for each.
            asm volatile("" : "+l"(from));
        }
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(shared_address(place)), "l"(from));
    }
}

// tiles: how many there are. outside: the bits of the index that tell them apart. What ends with _at: where a block has its
// copy of a table in shared memory, in bytes (qdist/cuda/resident.py); for numbers, where number 0 of all stages would be.
// plain: 1 where a tile is loaded without a change of index and neighbours may be read together, 2 where it is stored so, or
// both. with_launch: whether the numbers in `fours` are those of all states.
//
// ket: `size` amplitudes a row of the batch. offset: the place of the shard's first amplitude in the whole state.
// runs: (shift in the tile's number, width, shift in the index), by which a tile's number becomes its base. places:
// columns of the registers and offsets of the threads, for loading, then for storing.
extern "C" __global__ void run_stage(
    Index tiles, Index outside, int coefficients_at, int places_at, int numbers_at, int first_number, int num_numbers, int ops_at, int num_ops, int phases_at, int slots_at, int norms_at, int plain, int with_launch, const __grid_constant__ Fours fours,
    Complex* ket, Index size, Index offset, const int* __restrict__ runs, int num_runs, const Phase* __restrict__ phases, int num_phases,
    const Op* __restrict__ ops, const Slot* __restrict__ slots, const Index* __restrict__ places, const Flip* __restrict__ flips, int load_flip, int load_flip_end, int store_flip, int store_flip_end,
    const Term* __restrict__ terms, const int* __restrict__ begins, const Part* __restrict__ parts, int num_coefficients, const int* __restrict__ lists,
    const Real* __restrict__ reals, Index reals_stride, const Turn* __restrict__ turns, Index turns_stride) {
    // Kept in a register: the compiler would ask for it anew, and wait, in every phase.
    unsigned thread;
    asm volatile("mov.u32 %0, %%tid.x;" : "=r"(thread));
    ket += Index(blockIdx.y) * size;
    // Kept as it is, or the compiler would add the row's part to each amplitude's address anew.
    asm volatile("" : "+l"(ket));
    reals += Index(blockIdx.y) * reals_stride;
    turns += Index(blockIdx.y) * turns_stride;

    Turn* coefficients = at_byte<Turn>(coefficients_at);
    const Index* own_places = at_byte<Index>(places_at);
    const Real* numbers = at_byte<Real>(numbers_at);
    const Op* own_ops = at_byte<Op>(ops_at);
    Step* steps = at_byte<Step>(phases_at);
    Own* own = at_byte<Own>(slots_at) + thread;
    copy_words(places_at, places, 4 * (R + blockDim.x));
    copy_words(numbers_at + first_number * int(sizeof(Real)), reals + first_number, num_numbers * int(sizeof(Real) / 4));
    copy_words(ops_at, ops, num_ops * int(sizeof(Op) / 4));
#pragma unroll 1
    for (int p = 0; p < num_phases; ++p) {
        const Slot slot = slots[p * blockDim.x + thread];
        own[p * blockDim.x] = {static_cast<unsigned short>(slot.load * sizeof(Complex)), static_cast<unsigned short>(slot.store * sizeof(Complex))};
    }
#pragma unroll 1
    for (int p = thread; p < num_phases; p += blockDim.x) {
        steps[p].load = in_bytes(phases[p].load);
        steps[p].store = in_bytes(phases[p].store);
        steps[p].fifth = phases[p].load[4] * PLACE_BYTES;
        steps[p].head = head_of(phases[p], p > 0 ? phases[p - 1].end_op : 0, with_launch);
    }
    __syncthreads();

    // States smaller than a thread's registers are padded with zeros.
    const bool whole = size >= N;
    const Index stride = base_of(gridDim.x, runs, num_runs);
    Index base = base_of(blockIdx.x, runs, num_runs);
    const auto fetch = [&](Index base) {
        if (plain & 1 && whole)
            fetch_neighbours(own->load, steps[0], ket + (base | own_places[R + thread]), own_places);
        else
            fetch_each(own->load, columns_of(steps[0].load, steps[0].fifth), ket, base ^ own_places[R + thread] ^ flipped(flips, load_flip, load_flip_end, base | offset), own_places, size);
    };
    fetch(base);
#pragma unroll 1
    for (Index tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
        const Index where = base | offset;
        // What the sum carries passes over the bits that do not tell tiles apart.
        const Index next = (base | ~outside) + stride & outside;
        if (num_coefficients) {
            // Others may still read those of the tile before.
            __syncthreads();
#pragma unroll 1
            for (int c = thread; c < num_coefficients; c += blockDim.x) {
                Turn sum = 0;
#pragma unroll 1
                for (int p = begins[c]; p < begins[c + 1]; ++p)
                    if ((where & parts[p].mask) == parts[p].value) sum += turns[parts[p].turn];
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
                read_tile(a, phases[p], slots[p * blockDim.x + thread], flips, lists, reals, where, nullptr);
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
                // After this nobody reads the tile any more, nor has yet to load what another may store after a change of index.
                __syncthreads();
                if (tile + gridDim.x < tiles) fetch(next);
            }
#if KEEP_NORM
            const KeptNorm norm(at_byte<double>(norms_at));
            if (p == 0) norm.note(a);
#endif
            if (head.x & LISTED) {
                run_ops(a, head.y, head.x & TURNS, o, own_ops, terms, lists, nullptr, nullptr, reals, numbers, coefficients, where, nullptr);
            } else {
                if (head.x & PAIRED)
                    pair<0>(a, fours.of[2 * p]);
                else if (head.x & WHOLE)
                    dense2<0, false>(a, Operands{fours.of[2 * p]}, 0);
                if (head.x & PAIRED << 1)
                    pair<1>(a, fours.of[2 * p + 1]);
                else if (head.x & WHOLE << 1)
                    dense2<1, false>(a, Operands{fours.of[2 * p + 1]}, 0);
                if (head.x & PAIRED << 2)
                    pair<2>(a, fours.of[2 * p + 1]);
                else if (head.x & WHOLE << 2)
                    dense2<2, false>(a, Operands{fours.of[2 * p + 1]}, 0);
                o = head.y;
            }
#if KEEP_NORM
            if ((p + 1) % PHASES_A_NORM == 0 || p + 1 == num_phases) norm.restore(a);
#endif
            if (p + 1 < num_phases) {
                // Others may still read what this thread writes now.
                if (head.x & EXCLUSIVE) __syncthreads();
                unsigned address[N / SIDE];
                span<unsigned, N / SIDE>(slot.store, columns_of(steps[p].store).of, address);
                // What the next phase begins with, so that nobody waits for it behind the barrier.
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
        if (plain & 2 && whole) {
            Complex* to = ket + (base | stored[R + thread]);
#pragma unroll
            for (int k = 0; k < N / SIDE; ++k) {
                if (k > 0) to += gray(k) >> lowest(k) & 1 ? stored[lowest(k)] : -stored[lowest(k)];
                asm volatile("" : "+l"(to));
                write_streamed(to, a[0], gray(k));
            }
        } else {
            Index at[N];
            span<Index>(base ^ stored[R + thread] ^ flipped(flips, store_flip, store_flip_end, where), stored, at);
#pragma unroll
            for (int k = 0; k < N; ++k)
                if (at[k] < size) stream(ket + at[k], a[0][k]);
        }
        base = next;
    }
}
