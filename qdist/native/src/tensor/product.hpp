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
#include <type_traits>
#include <vector>

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
inline constexpr std::size_t third = rows / 3;
template <std::size_t number>
using Number = std::integral_constant<std::size_t, number>;
inline constexpr std::size_t depth = 512, height = 16 * rows, width = 1024;
// From row to row of a panel of a whose numbers lie along its rows: not a power of two, so that they share no cache set.
inline constexpr std::size_t spread = depth + vector;
// How many rows of a panel of b are asked for before they are used.
inline constexpr std::size_t ahead = 4;
// Steps for which all of one matrix is laid out.
inline constexpr std::size_t chunk = 4 * depth;
// What a number costs that is copied from where they are apart, in those that lie beside each other.
inline constexpr std::size_t scattered = 8;
// Numbers that stay in the cache, of a while columns go by.
inline constexpr std::size_t kept = 1 << 17;
// Numbers of a product that are kept once for all `depth` steps, where steps are divided over threads.
inline constexpr std::size_t few = 1 << 13;
// Steps up to which tiles are computed along rows of a product.
inline constexpr std::size_t along_rows = 160;
// Rows that a thread lays out in turn; they divide `depth`.
inline constexpr std::size_t slice = 32;
// Numbers to lay out that are worth waking another thread for.
inline constexpr std::size_t work_of_layout = 1 << 15;
// Multiplications that are worth waking another thread for.
inline constexpr std::size_t work_of_a_thread = 1 << 18;

// The first `high` x `columns` numbers of out, of panels with `count` steps. Number (i, k) of a's is a[i * down + k * across].
template <std::size_t high, std::ptrdiff_t down, std::ptrdiff_t across>
inline void tile(std::size_t count, const float* a, const float* b, Addend addend, float* out, std::size_t step) {
    using V = Vec<float>;
    V sums[high][vectors] = {};
    const float* next = a + rows * spread;
    for (std::size_t i = 0; i < high; ++i)
        for (std::size_t v = 0; v < vectors; ++v) __builtin_prefetch(out + i * step + v * vector, 1);
    for (std::size_t k = 0; k < count; ++k, a += across, b += columns, next += vector) {
        __builtin_prefetch(next);
        V right[vectors];
        for (std::size_t v = 0; v < vectors; ++v) {
            __builtin_prefetch(b + ahead * columns + v * vector);
            right[v] = load(b + v * vector);
        }
#pragma GCC unroll 16
        for (std::size_t i = 0; i < high; ++i) {
            const V left = splat(a[std::ptrdiff_t(i) * down]);
            for (std::size_t v = 0; v < vectors; ++v) sums[i][v] += left * right[v];
        }
    }
#pragma GCC unroll 16
    for (std::size_t i = 0; i < high; ++i)
        for (std::size_t v = 0; v < vectors; ++v) {
            float* const place = out + i * step + v * vector;
            V sum = sums[i][v];
            if (addend.before) sum += load_unaligned<V>(place);
            if (addend.row) sum += load_unaligned<V>(addend.row + v * vector);
            std::memcpy(place, &sum, sizeof sum);
        }
}

// Rows from columns, of `vector` numbers each: those of `filled` columns, `across` numbers from one to the next, and zeros. In turn
// for each bit, registers and lanes exchange it.
inline void transpose(const float* source, std::ptrdiff_t across, std::size_t filled, float* out) {
    using V = Vec<float>;
    V lines[vector];
    for (std::size_t j = 0; j < vector; ++j) lines[j] = j < filled ? load_unaligned<V>(source + std::ptrdiff_t(j) * across) : V{};
    const auto exchange = [&](auto number) QDIST_INLINE {
        static constexpr std::size_t bit = decltype(number)::value;
#pragma GCC unroll 16
        for (std::size_t j = 0; j < vector; ++j) {
            if (j & bit) continue;
            const V x = lines[j], y = lines[j | bit];
            lines[j] = shuffled<vector>(x, y, [](std::size_t l) { return l & bit ? vector + (l ^ bit) : l; });
            lines[j | bit] = shuffled<vector>(x, y, [](std::size_t l) { return l & bit ? vector + l : l | bit; });
        }
    };
    [&]<std::size_t... b>(std::index_sequence<b...>)
        QDIST_INLINE { (exchange(Number<std::size_t(1) << b>()), ...); }(std::make_index_sequence<Simd<float>::lane_bits>());
    for (std::size_t k = 0; k < vector; ++k) store(out + k * columns, lines[k]);
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
        if (b.down == 1 && last - first == vector) {
            for (std::size_t j = 0; j < columns; j += vector)
                transpose(b.from(first, std::min(j, filled)).first, b.across, std::max(filled, j) - j, out + first * columns + j);
            continue;
        }
        for (std::size_t j = 0; j < columns; ++j) {
            const float* const source = b.from(0, j).first;
            for (std::size_t k = first; k < last; ++k)
                out[k * columns + j] = j < filled ? source[std::ptrdiff_t(k) * b.down] : 0.0f;
        }
    }
}

// Rows `first` .. `last` of panels of `wide` columns of b, whose numbers lie beside each other along rows: a row of all whole
// panels before the next, as it is in memory. Panels have `count` rows.
inline void pack_whole(MatrixView b, std::size_t first, std::size_t last, std::size_t count, std::size_t wide, float* out) {
    for (std::size_t k = first; k < last; ++k) {
        const float* const row = b.from(k, 0).first;
        for (std::size_t y = 0; y + columns <= wide; y += columns)
            std::memcpy(out + y * count + k * columns, row + y, columns * sizeof(float));
    }
}

// Panels of `wide` columns of b.
inline void pack_wide(MatrixView b, std::size_t count, std::size_t wide, float* out) {
    const std::size_t whole = b.across == 1 ? wide / columns * columns : 0;
    if (whole) pack_whole(b, 0, count, count, wide, out);
    for (std::size_t y = whole; y < wide; y += columns)
        pack_columns(b.from(0, y), count, std::min(columns, wide - y), out + y * count);
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

// A tile of which only m x n numbers are wanted, or one that is turned: number (i, j) is then j rows down and i across in out, and
// what is added to it is number i of the row.
template <class Tile>
void tile_by_number(std::size_t m, std::size_t n, bool turned, Addend addend, float* out, std::size_t step, Tile whole) {
    alignas(64) float sums[rows * columns];
    whole(Addend{nullptr, false}, sums, columns);
    const auto add = [&](std::size_t i, std::size_t j, float sum) {
        if (addend.before) sum += out[i * step + j];
        if (addend.row) sum += addend.row[j];
        out[i * step + j] = sum;
    };
    if (turned)
        for (std::size_t j = 0; j < n; ++j)
            for (std::size_t i = 0; i < m; ++i) add(j, i, sums[i * columns + j]);
    else
        for (std::size_t i = 0; i < m; ++i)
#pragma omp simd
            for (std::size_t j = 0; j < n; ++j) add(i, j, sums[i * columns + j]);
}

// A product, as its tiles are computed. turned: what is written is its transpose.
struct Task {
    std::size_t m, n, k;
    MatrixView a, b;
    Addend addend;
    float* out;
    std::size_t step;
    bool turned;

    // Numbers of a row of a stay beside each other in its panels, if they are.
    bool along() const { return a.across == 1; }

    Task transposed() const {
        return {n, m, k, {b.first, b.across, b.down}, {a.first, a.across, a.down}, addend, out, step, !turned};
    }

    // What it takes to lay out b, and to turn what each `depth` steps give, in numbers that are copied: from where they are apart,
    // one takes as long as several.
    std::size_t layout_cost() const {
        return k * n * (b.across == 1 ? 1 : scattered) + (turned ? scattered * m * n * ((k + depth - 1) / depth) : 0);
    }
};

// The numbers of rows i .. i + m and columns j .. j + n, of `deep` steps from step p on; a and b: their panels.
inline void tiles(const Task& task, std::size_t i, std::size_t m, std::size_t j, std::size_t n, std::size_t p, std::size_t deep,
                  const float* a, const float* b) {
    const auto one = [&](std::size_t x, std::size_t y) {
        // Of the last rows no more than are needed, but for a third of a panel.
        const std::size_t high = std::min(rows, m - x), thirds = (high + third - 1) / third;
        const auto whole = [&](Addend added, float* place, std::size_t apart) {
            const auto run = [&](auto number) {
                if (task.along())
                    tile<number * third, std::ptrdiff_t(spread), 1>(deep, a + x * spread, b + y * deep, added, place, apart);
                else
                    tile<number * third, 1, std::ptrdiff_t(rows)>(deep, a + x * spread, b + y * deep, added, place, apart);
            };
            thirds == 3 ? run(Number<3>()) : thirds == 2 ? run(Number<2>()) : run(Number<1>());
        };
        const std::size_t down = task.turned ? j + y : i + x, across = task.turned ? i + x : j + y;
        const Addend own{p == 0 && task.addend.row ? task.addend.row + across : nullptr, p > 0 || task.addend.before};
        float* const place = task.out + down * task.step + across;
        if (!task.turned && high == thirds * third && y + columns <= n)
            whole(own, place, task.step);
        else
            tile_by_number(high, std::min(columns, n - y), task.turned, own, place, task.step, whole);
    };
    // Of few steps, what is written takes the time: along rows.
    if (deep <= along_rows)
        for (std::size_t x = 0; x < m; x += rows)
            for (std::size_t y = 0; y < n; y += columns) one(x, y);
    else
        for (std::size_t y = 0; y < n; y += columns)
            for (std::size_t x = 0; x < m; x += rows) one(x, y);
}

inline constexpr std::size_t up_to(std::size_t size, std::size_t grain) { return (size + grain - 1) / grain * grain; }

// `count` rows and `wide` columns of b as panels of `depth` rows and fewer.
inline void pack_on_threads(int threads, MatrixView b, std::size_t count, std::size_t wide, float* out) {
    const std::size_t panels = (wide + columns - 1) / columns, whole = b.across == 1 ? wide / columns : 0;
    const std::size_t slices = whole ? (count + slice - 1) / slice : 0;
    // Those whose rows lie in memory slice by slice, the others one by one.
    run_on_threads(threads, slices + panels - whole, [&](Pieces& pieces) {
        for (std::size_t q = pieces.next(); q != Pieces::none; q = pieces.next())
            if (q < slices) {
                const std::size_t first = q * slice, r = first / depth * depth, deep = std::min(depth, count - r);
                pack_whole(b.from(r, 0), first - r, std::min(count - r, first - r + slice), deep, wide,
                           out + columns * panels * r);
            } else {
                const std::size_t panel = whole + q - slices;
                for (std::size_t r = 0; r < count; r += depth) {
                    const std::size_t deep = std::min(depth, count - r);
                    pack_columns(b.from(r, panel * columns), deep, std::min(columns, wide - panel * columns),
                                 out + columns * (panels * r + panel * deep));
                }
            }
    });
}

// Many rows: b is laid out first, for all threads, and each takes rows.
inline void by_rows(int threads, const Task& task) {
    static thread_local AlignedVector<float> right, left;
    // As many blocks for each thread, none with so many rows that its panels of a leave the cache, and several, of which others
    // take some where a thread is late.
    const std::size_t turns = std::max<std::size_t>(4, (task.m + threads * height - 1) / (threads * height));
    const std::size_t shares = threads > 1 ? threads * turns : (task.m + height - 1) / height;
    const std::size_t high = up_to((task.m + shares - 1) / shares, rows), blocks = (task.m + high - 1) / high;
    for (std::size_t j = 0; j < task.n; j += width)
        for (std::size_t p = 0; p == 0 || p < task.k; p += chunk) {
            const std::size_t wide = std::min(width, task.n - j), panels = (wide + columns - 1) / columns;
            const std::size_t last = std::min(p + chunk, task.k);
            // Behind the last panel, what is asked for ahead.
            right.resize(std::max(right.size(), (panels * (last - p) + ahead) * columns));
            float* const packed = right.data();
            pack_on_threads(wide * (last - p) < work_of_layout ? 1 : threads, task.b.from(p, j), last - p, wide, packed);
            run_on_threads(threads, blocks, [&](Pieces& pieces) {
                left.resize(std::max(left.size(), (height + rows) * spread));
                for (std::size_t q = pieces.next(); q != Pieces::none; q = pieces.next()) {
                    const std::size_t i = q * high, tall = std::min(high, task.m - i);
                    for (std::size_t r = p; r == p || r < last; r += depth) {
                        const std::size_t deep = std::min(depth, last - r);
                        pack_rows(task.a.from(i, r), deep, tall, task.along(), left.data());
                        tiles(task, i, tall, j, wide, r, deep, left.data(), packed + columns * panels * (r - p));
                    }
                }
            });
        }
}

// Few rows: a is laid out first, and each thread takes columns.
inline void by_columns(int threads, const Task& task) {
    static thread_local AlignedVector<float> right, left;
    // As many columns as fit the cache with few steps, and several groups for each thread.
    const std::size_t fit = kept / 2 / std::max<std::size_t>(1, std::min(task.k, depth)), share = task.n / (4 * threads);
    const std::size_t group = std::max(4 * columns, std::min({fit, share, width}) / columns * columns);
    const std::size_t tall = up_to(task.m, rows), groups = (task.n + group - 1) / group;
    for (std::size_t p = 0; p == 0 || p < task.k; p += chunk) {
        const std::size_t last = std::min(p + chunk, task.k), layers = std::max<std::size_t>(1, (last - p + depth - 1) / depth);
        left.resize(std::max(left.size(), (layers * tall + rows) * spread));
        float* const packed = left.data();
        for (std::size_t q = 0; q < layers; ++q)
            pack_rows(task.a.from(0, p + q * depth), std::min(depth, last - p - q * depth), task.m, task.along(),
                      packed + q * tall * spread);
        run_on_threads(threads, groups, [&](Pieces& pieces) {
            right.resize(std::max(right.size(), (std::min(task.k, depth) + ahead) * group));
            for (std::size_t g = pieces.next(); g != Pieces::none; g = pieces.next()) {
                const std::size_t j = g * group, wide = std::min(group, task.n - j);
                for (std::size_t q = 0; q < layers; ++q) {
                    const std::size_t r = p + q * depth, deep = std::min(depth, last - r);
                    pack_wide(task.b.from(r, j), deep, wide, right.data());
                    tiles(task, 0, task.m, j, wide, r, deep, packed + q * tall * spread, right.data());
                }
            }
        });
    }
}

// Many steps, few numbers: each thread takes steps, and what they give is added up in their order.
inline void by_steps(int threads, const Task& task) {
    static thread_local AlignedVector<float> right, left;
    const std::size_t layers = (task.k + depth - 1) / depth, size = task.m * task.n, tall = up_to(task.m, rows);
    std::vector<float> parts(layers * size);
    run_on_threads(threads, layers, [&](Pieces& pieces) {
        left.resize(std::max(left.size(), (tall + rows) * spread));
        right.resize(std::max(right.size(), (depth + ahead) * up_to(task.n, columns)));
        for (std::size_t q = pieces.next(); q != Pieces::none; q = pieces.next()) {
            const std::size_t r = q * depth, deep = std::min(depth, task.k - r);
            pack_rows(task.a.from(0, r), deep, task.m, task.along(), left.data());
            pack_wide(task.b.from(r, 0), deep, task.n, right.data());
            Task part = task;
            part.addend = {nullptr, false}, part.out = parts.data() + q * size, part.step = task.turned ? task.m : task.n;
            tiles(part, 0, task.m, 0, task.n, 0, deep, left.data(), right.data());
        }
    });
    const std::size_t high = task.turned ? task.n : task.m, wide = task.turned ? task.m : task.n;
    for (std::size_t i = 0; i < high; ++i)
        for (std::size_t j = 0; j < wide; ++j) {
            float& place = task.out[i * task.step + j];
            float sum = parts[i * wide + j];
            if (task.addend.before) sum += place;
            if (task.addend.row) sum += task.addend.row[j];
            for (std::size_t q = 1; q < layers; ++q) sum = parts[q * size + i * wide + j] + sum;
            place = sum;
        }
}

}  // namespace product

// out (m, n), whose rows are `step` numbers apart, = a (m, k) b (k, n) + what is added, on up to so many threads.
inline void multiply(int threads, std::size_t m, std::size_t n, std::size_t k, MatrixView a, MatrixView b, Addend addend,
                     float* out, std::size_t step) {
    using namespace product;
    const Task given{m, n, k, a, b, addend, out, step, false}, other = given.transposed();
    const Task& task = other.layout_cost() < given.layout_cost() ? other : given;
    threads = int(std::min<std::size_t>(threads, 1 + m * n * k / work_of_a_thread));
    if (m * n <= few && k > chunk)
        by_steps(threads, task);
    else if (task.m * std::min(task.k, chunk) <= kept && (threads == 1 || task.m <= task.n))
        by_columns(threads, task);
    else
        by_rows(threads, task);
}

}  // namespace qdist
