// One stage of the adjoint sweep on a GPU. Each thread block copies the stage's tables to shared memory, and then goes
// through many tiles: it loads those of a ket and a bra, undoes the stage's phases on both while it sums what the angles
// change, and stores them.
#include "kernel.cuh"

// bra -= shift ket in shared memory, at the places of a thread that begin with this one.
__device__ __forceinline__ void subtract_multiple(Real shift, unsigned place, Columns columns) {
#pragma unroll
    for (int k = 0; k < N; ++k) {
        if (k > 0) place ^= columns.of[lowest(k)];
        const Complex ket = shared_at(place);
        Complex& bra = shared_at(place ^ tile_of(1));
        bra = {fma(-shift, ket.x, bra.x), fma(-shift, ket.y, bra.y)};
    }
}

extern "C" __global__ void run_stage(const __grid_constant__ Launch launch, const __grid_constant__ Sweep sweep, const __grid_constant__ BackwardPlaces in_shared) {
    const Index tiles = launch.tiles, outside = launch.outside, size = launch.size, offset = launch.offset;
    const int num_phases = launch.num_phases, num_coefficients = launch.num_coefficients, num_runs = launch.num_runs;
    const Table<int> runs = launch.runs, begins = launch.begins, lists = launch.lists;
    const Table<Phase> phases = launch.phases;
    const Table<Slot> slots = launch.slots;
    const Table<Flip> flips = launch.flips;
    const Table<Part> parts = launch.parts;
    const Table<Real> reals = launch.reals + Index(blockIdx.y) * launch.reals_stride;
    const Table<Turn> turns = launch.turns + Index(blockIdx.y) * launch.turns_stride;
    const unsigned thread = threadIdx.x;
    Stored* const rows[] = {launch.ket + Index(blockIdx.y) * size, sweep.bra + Index(blockIdx.y) * size};
    double* sums = sweep.partial + ((Index(blockIdx.y) * gridDim.x + blockIdx.x) * (blockDim.x / 32) + thread / 32) * sweep.num_sums;

    copy(in_shared.places, launch.places, 2 * (R + blockDim.x));
    copy(in_shared.numbers, reals + in_shared.first_number, in_shared.num_numbers);
    copy(in_shared.ops, launch.ops, in_shared.num_ops);
    copy(in_shared.terms, launch.terms + in_shared.first_term, in_shared.num_terms);
    copy(in_shared.parities, sweep.parities + in_shared.first_parity, in_shared.num_parities);
    copy(in_shared.weighs, sweep.weighs + in_shared.first_weigh, in_shared.num_weighs);
    BackwardStep* const steps = at_byte<BackwardStep>(in_shared.steps);
    Own* const own = at_byte<Own>(in_shared.own) + thread;
#pragma unroll 1
    for (int p = 0; p < num_phases; ++p) {
        const Slot slot = slot_of(slots, p * blockDim.x + thread);
        own[p * blockDim.x] = {slot.load, slot.store};
        if (thread > 0) continue;
        BackwardStep& step = steps[p];
        step.mode = phases.at(p, &Phase::mode);
        step.end_op = phases.at(p, &Phase::end_op);
        step.first_flip = phases.at(p, &Phase::first_flip);
        step.end_flip = phases.at(p, &Phase::end_flip);
        step.exclusive = phases.at(p, &Phase::exclusive);
        step.load = in_bytes(phases.at(p, &Phase::load));
        step.store = in_bytes(phases.at(p, &Phase::store));
    }
    int* const own_begins = at_byte<int>(in_shared.begins);
    Piece* const pieces = at_byte<Piece>(in_shared.pieces);
    if (num_coefficients) {
        const int first = begins[0], count = begins[num_coefficients] - first;
#pragma unroll 1
        for (int c = thread; c <= num_coefficients; c += blockDim.x) own_begins[c] = begins[c] - first;
#pragma unroll 1
        for (int p = thread; p < count; p += blockDim.x) pieces[p] = {parts.at(first + p, &Part::mask), parts.at(first + p, &Part::value), turns[parts.at(first + p, &Part::turn)]};
    }
    Real* const numbers = at_byte<Real>(in_shared.numbers) - in_shared.first_number;
    Op* const own_ops = at_byte<Op>(in_shared.ops);
    __syncthreads();
    find_shears(own_ops, in_shared.num_ops, numbers);
    __syncthreads();

    const Index* const own_places = at_byte<Index>(in_shared.places);
    const Term* const own_terms = at_byte<Term>(in_shared.terms) - in_shared.first_term;
    const Parity* const own_parities = at_byte<Parity>(in_shared.parities) - in_shared.first_parity;
    const int* const own_weighs = at_byte<int>(in_shared.weighs) - in_shared.first_weigh;
    Turn* const coefficients = at_byte<Turn>(in_shared.coefficients);
    const Index stride = base_of(gridDim.x, runs, num_runs);
    // One number for a tile's first index, in the shard and in the whole state: registers are scarce.
    Index where = base_of(blockIdx.x, runs, num_runs) | offset;
    const auto fetch = [&](Index where) {
        const Index at = where & outside ^ own_places[R + thread] ^ flipped(flips, launch.load_flip, launch.load_flip_end, where);
#pragma unroll
        for (int s = 0; s < STATES; ++s) fetch_each(own->load * PLACE_BYTES ^ tile_of(s), columns_of(steps[0].load), rows[s], at, own_places, size, 0);
    };
    // Masked increment: the tile's own bits are filled with ones, so the carry ripples across them.
    const auto after = [&](Index where) { return (where | ~outside) + stride & outside | offset; };
    fetch(where);
#pragma unroll 1
    for (Index tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
        // Barrier: all threads have read the coefficients of the tile before.
        if (num_coefficients) __syncthreads();
#pragma unroll 1
        for (int c = thread; c < num_coefficients; c += blockDim.x) {
            Turn sum = 0;
#pragma unroll 1
            for (int p = own_begins[c]; p < own_begins[c + 1]; ++p)
                if ((where & pieces[p].mask) == pieces[p].value) sum += pieces[p].turn;
            coefficients[c] = sum;
        }
        if (num_coefficients) __syncthreads();

        States a;
        int o = 0;
        there();
        if (sweep.shifts.first) subtract_multiple(Real(sweep.shifts[blockIdx.y]), own->load * PLACE_BYTES, columns_of(steps[0].load));
#pragma unroll 1
        for (int p = 0; p < num_phases; ++p) {
            const BackwardStep& step = steps[p];
            const Own slot = own[p * blockDim.x];
            unsigned address[N];
            if (step.mode == SHARED) {
                unsigned first = slot.load * PLACE_BYTES;
                if (step.first_flip < step.end_flip) first ^= unsigned(flipped(flips, step.first_flip, step.end_flip, where)) * PLACE_BYTES;
                span<unsigned>(first, columns_of(step.load).of, address);
                read_places(a, address);
            } else {
                read_tile(a, phases, p, slot_of(slots, p * blockDim.x + thread), flips, lists, reals, where, sums);
            }
            if (p + 1 == num_phases) {
                // Barrier: all threads have read shared memory, so the next tiles may be prefetched over it and these written to
                // permuted addresses.
                __syncthreads();
                if (tile + gridDim.x < tiles) fetch(after(where));
            }
#if KEEP_NORM
            const KeptNorm norm(at_byte<double>(in_shared.norms));
            if (p == 0) norm.note(a);
#endif
            run_ops(a, step.end_op, false, o, own_ops, own_terms, lists, own_weighs, own_parities, reals, numbers, coefficients, where, sums);
#if KEEP_NORM
            if ((p + 1) % PHASES_A_NORM == 0 || p + 1 == num_phases) norm.restore(a);
#endif
            if (p + 1 < num_phases) {
                // Barrier: other threads have read the places that this one writes.
                if (step.exclusive) __syncthreads();
                span<unsigned>(slot.store * PLACE_BYTES, columns_of(step.store).of, address);
                write_places(a, address);
                __syncthreads();
            }
        }

        if (sweep.keep) {
            const Index* stored = own_places + R + blockDim.x;
            // What was zero before the stage ran is read by none that is undone after it.
            const Index left_out = sweep.keep > 1 ? 0 : launch.zeros;
            Index at[N];
            span<Index>(where & outside ^ stored[R + thread] ^ flipped(flips, launch.store_flip, launch.store_flip_end, where), stored, at);
#pragma unroll
            for (int s = 0; s < STATES; ++s)
#pragma unroll
                for (int k = 0; k < N; ++k)
                    if (at[k] < size && !(at[k] & left_out)) stream(rows[s] + at[k], a[s][k]);
        }
        where = after(where);
    }
}

// sums[row][k]: what all warps of all blocks have added for a row of a batch, in a fixed order.
extern "C" __global__ void add_partial(const double* partial, int count, int num_sums, double* sums, Index sums_stride) {
    __shared__ double parts[256];
    const double* own = partial + Index(blockIdx.y) * count * num_sums + blockIdx.x;
    double sum = 0;
    for (int k = threadIdx.x; k < count; k += 256) sum += own[Index(k) * num_sums];
    parts[threadIdx.x] = sum;
    for (int step = 128; step > 0; step /= 2) {
        __syncthreads();
        if (threadIdx.x < step) parts[threadIdx.x] += parts[threadIdx.x + step];
    }
    if (threadIdx.x == 0) sums[Index(blockIdx.y) * sums_stride + blockIdx.x] = parts[0];
}
