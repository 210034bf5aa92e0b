// Sums of Pauli strings on states of a GPU. |i> becomes factor (-1)^parity(i & z) |i ^ x>; `first` is the index of a shard's
// first amplitude, by bit position, in the whole state. measure.cu, which stands before this source, defines the rest.

// A string in a pass over tiles: masks of the thread's bits and of positions outside the tile, and the factor, in which
// every Y counts.
struct __align__(8) String {
    Index far;
    unsigned near, unused;
    double factor;
};

// Strings that flip the same bits of a tile. word: a bit for each of a thread's amplitudes, whether they change its sign.
// imaginary: whether their factors lack an i.
struct __align__(16) Group {
    unsigned x, word;
    int imaginary, end;
};

// Amplitudes of a thread; the lowest bits of a tile's index are the thread's number.
constexpr int HELD = 16;
constexpr int TILE_THREADS = sizeof(Real) == 4 ? 256 : 128;

// out (+)= what the groups make of a. places: columns of the four highest bits of a tile's index, then the offset of each
// thread. runs: (shift in the tile's number, width, shift in the index), by which a tile's number becomes its base. values,
// where it is given: the real part of <a|out> in each tile, where out need not be.
extern "C" __global__ void __launch_bounds__(TILE_THREADS, 4) apply_tiles(const Complex* __restrict__ a, Index first, const int* __restrict__ runs, int num_runs, const Index* __restrict__ places, const Group* __restrict__ groups, int num_groups,
          const String* __restrict__ strings, int add, Complex* __restrict__ out, double* __restrict__ values) {
    extern __shared__ __align__(16) unsigned char memory[];
    Complex* tile = reinterpret_cast<Complex*>(memory);
    const unsigned thread = threadIdx.x;
    Index base = 0;
    for (int r = 0; r < num_runs; ++r) base |= (Index(blockIdx.x) >> runs[3 * r] & ((Index(1) << runs[3 * r + 1]) - 1)) << runs[3 * r + 2];
    const Index where = first | base;
    const Index own = base | places[4 + thread];
    Index column[4];
#pragma unroll
    for (int b = 0; b < 4; ++b) column[b] = places[b];
    const auto place = [&](int j) {
        Index at = own;
#pragma unroll
        for (int b = 0; b < 4; ++b)
            if (j >> b & 1) at |= column[b];
        return at;
    };
    Complex sum[HELD];
#pragma unroll
    for (int j = 0; j < HELD; ++j) {
        tile[thread + j * TILE_THREADS] = a[place(j)];
        sum[j] = add ? out[place(j)] : Complex{0, 0};
    }
    __syncthreads();
    int s = 0;
#pragma unroll 1
    for (int g = 0; g < num_groups; ++g) {
        const Group group = groups[g];
        Real factor = 0;
#pragma unroll 1
        for (; s < group.end; ++s) {
            const String string = strings[s];
            const int odd = __popcll(where & string.far) + __popc(thread & string.near);
            factor += Real(odd & 1 ? -string.factor : string.factor);
        }
        const unsigned other = thread ^ group.x;
        if (group.imaginary) {
#pragma unroll
            for (int j = 0; j < HELD; ++j) {
                const Complex v = tile[other ^ j * TILE_THREADS];
                const Real c = group.word >> j & 1 ? -factor : factor;
                sum[j] = {fma(-c, v.y, sum[j].x), fma(c, v.x, sum[j].y)};
            }
        } else {
#pragma unroll
            for (int j = 0; j < HELD; ++j) {
                const Complex v = tile[other ^ j * TILE_THREADS];
                const Real c = group.word >> j & 1 ? -factor : factor;
                sum[j] = {fma(c, v.x, sum[j].x), fma(c, v.y, sum[j].y)};
            }
        }
    }
    if (out != nullptr)
#pragma unroll
        for (int j = 0; j < HELD; ++j) out[place(j)] = sum[j];
    if (values == nullptr) return;
    double value = 0;
#pragma unroll
    for (int j = 0; j < HELD; ++j) {
        const Complex v = tile[thread + j * TILE_THREADS];
        value += double(v.x) * sum[j].x + double(v.y) * sum[j].y;
    }
    value = block_sum(value);
    if (thread == 0) values[blockIdx.x] = value;
}

// out[i] (+)= sum over terms of factor (-1)^parity((i ^ x) & z) a[i ^ x]
extern "C" __global__ void apply_paulis(const Complex* a, Index size, Index first, const Index* x, const Index* z, const double* factors, int count, int add, Complex* out) {
    for (Index i = first_index(); i < size; i += stride()) {
        double re = add ? out[i].x : 0, im = add ? out[i].y : 0;
        for (int k = 0; k < count; ++k) {
            const Index j = i ^ x[k];
            const Complex v = a[j];
            const bool odd = __popcll((first | j) & z[k]) & 1;
            const double c = odd ? -factors[2 * k] : factors[2 * k], s = odd ? -factors[2 * k + 1] : factors[2 * k + 1];
            re += c * v.x - s * v.y;
            im += c * v.y + s * v.x;
        }
        out[i] = {Real(re), Real(im)};
    }
}

// For each row (blockIdx.y) of a batch: out = sum over terms of weights[row][observable] factor (-1)^... a, as above.
extern "C" __global__ void apply_rows(const Complex* a, Index size, const Index* x, const Index* z, const double* factors, const int* observable, int count, const double* weights, int observables, Complex* out) {
    a += Index(blockIdx.y) * size;
    out += Index(blockIdx.y) * size;
    weights += Index(blockIdx.y) * observables;
    for (Index i = first_index(); i < size; i += stride()) {
        double re = 0, im = 0;
        for (int k = 0; k < count; ++k) {
            const Index j = i ^ x[k];
            const Complex v = a[j];
            const double weight = __popcll(j & z[k]) & 1 ? -weights[observable[k]] : weights[observable[k]];
            const double c = weight * factors[2 * k], s = weight * factors[2 * k + 1];
            re += c * v.x - s * v.y;
            im += c * v.y + s * v.x;
        }
        out[i] = {Real(re), Real(im)};
    }
}

// values[row][k]: Re <a|term k|a> of each row (blockIdx.y) and term (blockIdx.x).
extern "C" __global__ void term_values(const Complex* a, Index size, const Index* x, const Index* z, const double* factors, double* values) {
    a += Index(blockIdx.y) * size;
    const int k = blockIdx.x;
    const double c = factors[2 * k], s = factors[2 * k + 1];
    double sum = 0;
    for (Index i = threadIdx.x; i < size; i += THREADS) {
        const Index j = i ^ x[k];
        const Complex u = a[i], v = a[j];
        const double re = double(u.x) * v.x + double(u.y) * v.y, im = double(u.x) * v.y - double(u.y) * v.x;
        const double value = c * re - s * im;
        sum += __popcll(j & z[k]) & 1 ? -value : value;
    }
    sum = block_sum(sum);
    if (threadIdx.x == 0) values[Index(blockIdx.y) * gridDim.x + k] = sum;
}
