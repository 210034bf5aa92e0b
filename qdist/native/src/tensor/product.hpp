// Products of matrices in single precision, with what is added to them in the same pass.
//
// Of b, a block of `depth` rows is laid out as panels of `columns` columns, row after row; of a, a block of `height` rows as
// panels of `rows` rows. A tile, the product of two panels, is summed up in registers. Both panels of a tile are read from
// the cache in the order in which they lie there (Goto and van de Geijn, ACM TOMS 34:12, 2008). Every number is summed in
// one order, whatever the threads, and whatever rows and columns there are beside it.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstring>

#include "base/pool.hpp"
#include "base/simd.hpp"

namespace qdist {

// Number (i, k) is i steps down and k steps across from the first one.
struct MatrixView {
    const float* first;
    std::ptrdiff_t down, across;

    MatrixView from(std::size_t i, std::size_t k) const {
        return {first + std::ptrdiff_t(i) * down + std::ptrdiff_t(k) * across, down, across};
    }
};

// What is added to a product: a row to each of its rows, what is in `out` before, both or neither.
struct Addend {
    const float* row;
    bool before;
};

namespace product {

inline constexpr std::size_t vector = Simd<float>::lanes, vectors = 2, columns = vectors * vector;
#if defined(__AVX512F__)
inline constexpr std::size_t rows = 12;  // 24 of 32 registers are sums.
#else
inline constexpr std::size_t rows = 6;  // 12 of 16.
#endif
inline constexpr std::size_t depth = 512, height = 16 * rows, width = 1024;
// From row to row of a panel of a whose numbers lie along its rows: not a power of two, so that they share no cache set.
inline constexpr std::size_t spread = depth + vector;
// How many rows of a panel of b are asked for before they are used.
inline constexpr std::size_t ahead = 4;

// The first `rows` x `columns` numbers of out, of panels with `count` steps. Number (i, k) of a's is a[i * down + k * across].
template <std::ptrdiff_t down, std::ptrdiff_t across>
inline void tile(std::size_t count, const float* a, const float* b, Addend addend, float* out, std::size_t step) {
    using V = Vec<float>;
    V sums[rows][vectors] = {};
    const float* next = a + rows * spread;
    for (std::size_t i = 0; i < rows; ++i)
        for (std::size_t v = 0; v < vectors; ++v) __builtin_prefetch(out + i * step + v * vector, 1);
    for (std::size_t k = 0; k < count; ++k, a += across, b += columns, next += vector) {
        __builtin_prefetch(next);
        V right[vectors];
        for (std::size_t v = 0; v < vectors; ++v) {
            __builtin_prefetch(b + ahead * columns + v * vector);
            right[v] = load(b + v * vector);
        }
#pragma GCC unroll 16
        for (std::size_t i = 0; i < rows; ++i) {
            const V left = splat(a[std::ptrdiff_t(i) * down]);
            for (std::size_t v = 0; v < vectors; ++v) sums[i][v] += left * right[v];
        }
    }
#pragma GCC unroll 16
    for (std::size_t i = 0; i < rows; ++i)
        for (std::size_t v = 0; v < vectors; ++v) {
            float* const place = out + i * step + v * vector;
            V sum = sums[i][v];
            if (addend.before) sum += load_unaligned<V>(place);
            if (addend.row) sum += load_unaligned<V>(addend.row + v * vector);
            std::memcpy(place, &sum, sizeof sum);
        }
}

// A panel of b: `count` rows of `filled` columns, and zeros.
inline void pack_columns(MatrixView b, std::size_t count, std::size_t filled, float* out) {
    if (b.across == 1 && filled == columns) {
        for (std::size_t k = 0; k < count; ++k, out += columns) std::memcpy(out, b.from(k, 0).first, columns * sizeof(float));
        return;
    }
    // Few rows at a time, so that those written stay in the nearest cache.
    for (std::size_t first = 0; first < count; first += vector) {
        const std::size_t last = std::min(count, first + vector);
        for (std::size_t j = 0; j < columns; ++j) {
            const float* const source = b.from(0, j).first;
            for (std::size_t k = first; k < last; ++k)
                out[k * columns + j] = j < filled ? source[std::ptrdiff_t(k) * b.down] : 0.0f;
        }
    }
}

// Panels of a: `filled` rows of `count` columns, and zeros. along: numbers of a row lie beside each other, and stay so.
inline void pack_rows(MatrixView a, std::size_t count, std::size_t filled, bool along, float* out) {
    const std::size_t all = (filled + rows - 1) / rows * rows;
    if (along) {
        for (std::size_t i = 0; i < all; ++i, out += spread)
            if (i < filled)
                std::memcpy(out, a.from(i, 0).first, count * sizeof(float));
            else
                std::fill(out, out + count, 0.0f);
        return;
    }
    for (std::size_t k = 0; k < count; ++k)
        for (std::size_t panel = 0; panel < all; panel += rows) {
            float* const target = out + panel * spread + k * rows;
            const float* const source = a.from(panel, k).first;
            if (a.down == 1 && panel + rows <= filled)
                std::memcpy(target, source, rows * sizeof(float));
            else
                for (std::size_t i = 0; i < rows; ++i)
                    target[i] = panel + i < filled ? source[std::ptrdiff_t(i) * a.down] : 0.0f;
        }
}

// A tile that only `m` x `n` numbers of out have room for.
template <class Tile>
void tile_at_edge(std::size_t m, std::size_t n, Addend addend, float* out, std::size_t step, Tile whole) {
    alignas(64) float sums[rows * columns];
    whole(Addend{nullptr, false}, sums, columns);
    for (std::size_t i = 0; i < m; ++i)
        for (std::size_t j = 0; j < n; ++j) {
            float sum = sums[i * columns + j];
            if (addend.before) sum += out[i * step + j];
            if (addend.row) sum += addend.row[j];
            out[i * step + j] = sum;
        }
}

// Panels of m rows and n columns, one with each.
inline void tiles(std::size_t m, std::size_t n, std::size_t count, const float* a, bool along, const float* b, Addend addend,
                  float* out, std::size_t step) {
    for (std::size_t j = 0; j < n; j += columns)
        for (std::size_t i = 0; i < m; i += rows) {
            const Addend own{addend.row ? addend.row + j : nullptr, addend.before};
            const auto whole = [&](Addend added, float* place, std::size_t apart) {
                if (along)
                    tile<std::ptrdiff_t(spread), 1>(count, a + i * spread, b + j * count, added, place, apart);
                else
                    tile<1, std::ptrdiff_t(rows)>(count, a + i * spread, b + j * count, added, place, apart);
            };
            float* const place = out + i * step + j;
            if (i + rows <= m && j + columns <= n)
                whole(own, place, step);
            else
                tile_at_edge(std::min(rows, m - i), std::min(columns, n - j), own, place, step, whole);
        }
}

}  // namespace product

// out (m, n), whose rows are `step` numbers apart, = a (m, k) b (k, n) + what is added, on so many threads.
inline void multiply(int threads, std::size_t m, std::size_t n, std::size_t k, MatrixView a, MatrixView b, Addend addend,
                     float* out, std::size_t step) {
    using namespace product;
    static thread_local AlignedVector<float> right, left;
    // Each thread has some rows, and no thread so many that its panels of a leave the cache.
    const std::size_t each = (m + std::size_t(threads) - 1) / std::size_t(threads);
    const std::size_t high = std::min(height, (each + rows - 1) / rows * rows), blocks = (m + high - 1) / high;
    const bool along = a.across == 1;
    for (std::size_t j = 0; j < n; j += width) {
        const std::size_t wide = std::min(width, n - j), panels = (wide + columns - 1) / columns;
        for (std::size_t p = 0; p == 0 || p < k; p += depth) {
            const std::size_t deep = std::min(depth, k - p);
            // What is asked for ahead lies behind the last panel too.
            right.resize(std::max(right.size(), (panels * deep + ahead) * columns));
            float* const packed = right.data();
            run_on_threads(threads, panels, [&](Pieces& pieces) {
                for (std::size_t q = pieces.next(); q != Pieces::none; q = pieces.next())
                    pack_columns(b.from(p, j + q * columns), deep, std::min(columns, wide - q * columns),
                                 packed + q * columns * deep);
            });
            const Addend now{p == 0 && addend.row ? addend.row + j : nullptr, p > 0 || addend.before};
            run_on_threads(threads, blocks, [&](Pieces& pieces) {
                left.resize(std::max(left.size(), (high + rows) * spread));
                for (std::size_t q = pieces.next(); q != Pieces::none; q = pieces.next()) {
                    const std::size_t i = q * high, tall = std::min(high, m - i);
                    pack_rows(a.from(i, p), deep, tall, along, left.data());
                    tiles(tall, wide, deep, left.data(), along, packed, now, out + i * step + j, step);
                }
            });
        }
    }
}

}  // namespace qdist
