// One stage of the adjoint sweep on a GPU. Each block of threads copies the stage's tables to shared memory, and then goes
// through many tiles: it loads those of a ket and a bra, undoes the stage's phases on both while it sums what the angles
// change, and stores them.
//
// records.cu, norm.cu, ops.cu, sums.cu and kernel.cu stand before it.

// A phase as it is in shared memory: addresses are bytes.
struct __align__(16) Step {
    int mode, end_op, first_flip, end_flip;
    int exclusive, unused[3];
    uint4 load, store;
};

// A part of a coefficient with its value.
struct __align__(8) Piece {
    Index mask, value;
    Turn turn;
};

// ket, bra: `size` amplitudes a row of the batch. offset: the place of the shards' first amplitude in the whole state.
// tiles: how many there are. outside: the bits of the index that tell tiles apart. runs: (shift in the tile's number, width,
// shift in the index), by which a tile's number becomes its base. places: columns of the registers and offsets of the
// threads, for loading, then for storing. keep: whether the tiles are written back.
//
// Each warp adds to `num_sums` doubles of its own in `partial`. first_, num_: what the stage reads of a table; _at: where that
// goes in shared memory, in bytes (qdist/cuda/back_resident.py).
extern "C" __global__ void run_stage(
    Complex* bra, Index tiles, Index outside, int keep, double* partial, int num_sums, const Parity* __restrict__ parities, const int* __restrict__ weighs,
    int coefficients_at, int places_at, int numbers_at, int first_number, int num_numbers, int ops_at, int num_ops, int steps_at, int own_at, int terms_at, int first_term, int num_terms,
    int parities_at, int first_parity, int num_parities, int weighs_at, int first_weigh, int num_weighs, int begins_at, int pieces_at, int norms_at,
    Complex* ket, Index size, Index offset, const int* __restrict__ runs, int num_runs, const Phase* __restrict__ phases, int num_phases,
    const Op* __restrict__ ops, const Slot* __restrict__ slots, const Index* __restrict__ places, const Flip* __restrict__ flips, int load_flip, int load_flip_end, int store_flip, int store_flip_end,
    const Term* __restrict__ terms, const int* __restrict__ begins, const Part* __restrict__ parts, int num_coefficients, const int* __restrict__ lists,
    const Real* __restrict__ reals, Index reals_stride, const Turn* __restrict__ turns, Index turns_stride) {
    const unsigned thread = threadIdx.x;
    Complex* const rows[] = {ket + Index(blockIdx.y) * size, bra + Index(blockIdx.y) * size};
    double* sums = partial + ((Index(blockIdx.y) * gridDim.x + blockIdx.x) * (blockDim.x / 32) + thread / 32) * num_sums;
    reals += Index(blockIdx.y) * reals_stride;
    turns += Index(blockIdx.y) * turns_stride;

    copy_words(places_at, places, 4 * (R + blockDim.x));
    copy_words(numbers_at, reals + first_number, num_numbers * int(sizeof(Real) / 4));
    copy_words(ops_at, ops, num_ops * int(sizeof(Op) / 4));
    copy_words(terms_at, terms + first_term, num_terms * int(sizeof(Term) / 4));
    copy_words(parities_at, parities + first_parity, num_parities * int(sizeof(Parity) / 4));
    copy_words(weighs_at, weighs + first_weigh, num_weighs);
    Step* const steps = at_byte<Step>(steps_at);
    Own* const own = at_byte<Own>(own_at) + thread;
#pragma unroll 1
    for (int p = 0; p < num_phases; ++p) {
        const Slot slot = slots[p * blockDim.x + thread];
        own[p * blockDim.x] = {slot.load, slot.store};
        if (thread > 0) continue;
        const Phase& phase = phases[p];
        Step& step = steps[p];
        step.mode = phase.mode;
        step.end_op = phase.end_op;
        step.first_flip = phase.first_flip;
        step.end_flip = phase.end_flip;
        step.exclusive = phase.exclusive;
        step.load = in_bytes(phase.load);
        step.store = in_bytes(phase.store);
    }
    int* const own_begins = at_byte<int>(begins_at);
    Piece* const pieces = at_byte<Piece>(pieces_at);
    if (num_coefficients) {
        const int first = begins[0], count = begins[num_coefficients] - first;
#pragma unroll 1
        for (int c = thread; c <= num_coefficients; c += blockDim.x) own_begins[c] = begins[c] - first;
#pragma unroll 1
        for (int p = thread; p < count; p += blockDim.x) pieces[p] = {parts[first + p].mask, parts[first + p].value, turns[parts[first + p].turn]};
    }
    __syncthreads();

    const Index* const own_places = at_byte<Index>(places_at);
    const Real* const numbers = at_byte<Real>(numbers_at) - first_number;
    const Op* const own_ops = at_byte<Op>(ops_at);
    const Term* const own_terms = at_byte<Term>(terms_at) - first_term;
    const Parity* const own_parities = at_byte<Parity>(parities_at) - first_parity;
    const int* const own_weighs = at_byte<int>(weighs_at) - first_weigh;
    Turn* const coefficients = at_byte<Turn>(coefficients_at);
    const Index stride = base_of(gridDim.x, runs, num_runs);
    Index base = base_of(blockIdx.x, runs, num_runs);
    const auto fetch = [&](Index base) {
        const Index at = base ^ own_places[R + thread] ^ flipped(flips, load_flip, load_flip_end, base | offset);
#pragma unroll
        for (int s = 0; s < STATES; ++s) fetch_each(own->load * PLACE_BYTES ^ tile_of(s), columns_of(steps[0].load), rows[s], at, own_places, size);
    };
    fetch(base);
#pragma unroll 1
    for (Index tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
        const Index where = base | offset;
        // What the sum carries passes over the bits that do not tell tiles apart.
        const Index next = (base | ~outside) + stride & outside;
        // Others may still read the coefficients of the tile before.
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
#pragma unroll 1
        for (int p = 0; p < num_phases; ++p) {
            const Step& step = steps[p];
            const Own slot = own[p * blockDim.x];
            unsigned address[N];
            if (step.mode == SHARED) {
                unsigned first = slot.load * PLACE_BYTES;
                if (step.first_flip < step.end_flip) first ^= unsigned(flipped(flips, step.first_flip, step.end_flip, where)) * PLACE_BYTES;
                span<unsigned>(first, columns_of(step.load).of, address);
                read_places(a, address);
            } else {
                read_tile(a, phases[p], slots[p * blockDim.x + thread], flips, lists, reals, where, sums);
            }
            if (p + 1 == num_phases) {
                // After this nobody reads the tiles any more, nor has yet to load what another may store after a change of index.
                __syncthreads();
                if (tile + gridDim.x < tiles) fetch(next);
            }
#if KEEP_NORM
            const KeptNorm norm(at_byte<double>(norms_at));
            if (p == 0) norm.note(a);
#endif
            run_ops(a, step.end_op, false, o, own_ops, own_terms, lists, own_weighs, own_parities, reals, numbers, coefficients, where, sums);
#if KEEP_NORM
            if ((p + 1) % PHASES_A_NORM == 0 || p + 1 == num_phases) norm.restore(a);
#endif
            if (p + 1 < num_phases) {
                // Others may still read what this thread writes now.
                if (step.exclusive) __syncthreads();
                span<unsigned>(slot.store * PLACE_BYTES, columns_of(step.store).of, address);
                write_places(a, address);
                __syncthreads();
            }
        }

        if (keep) {
            const Index* stored = own_places + R + blockDim.x;
            Index at[N];
            span<Index>(base ^ stored[R + thread] ^ flipped(flips, store_flip, store_flip_end, where), stored, at);
#pragma unroll
            for (int s = 0; s < STATES; ++s)
#pragma unroll
                for (int k = 0; k < N; ++k)
                    if (at[k] < size) stream(rows[s] + at[k], a[s][k]);
        }
        base = next;
    }
}
