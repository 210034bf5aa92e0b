// Kernels of the tensor package: products, chains of elementwise operations, rows, windows and pooling. `threads` is how many a call
// may use.
#include <algorithm>

#include "base/checks.hpp"
#include "bind/arrays.hpp"
#include "bind/unlocked.hpp"
#include "tensor/elementwise.hpp"
#include "tensor/pooling.hpp"
#include "tensor/product.hpp"
#include "tensor/rows.hpp"
#include "tensor/windows.hpp"

namespace qdist::bindings {
namespace {

// Images of any strides, whose rows are numbers beside each other.
template <class T>
using Images = nb::ndarray<T, nb::ndim<4>, nb::device::cpu>;
using Pair = std::pair<std::size_t, std::size_t>;
// Matrices of any strides, one behind the other.
template <class T>
using Matrices = nb::ndarray<T, nb::ndim<3>, nb::device::cpu>;

// Numbers that one thread takes at a time: three arrays of so many floats fit a second-level cache of 1 MiB.
constexpr std::size_t block = 1 << 15;

std::size_t rows_of_a_block(std::size_t width) { return std::max<std::size_t>(1, block / std::max<std::size_t>(width, 1)); }

// Calls work(first, last) for blocks of rows, which are the same on any number of threads.
template <class Work>
void over_rows(int threads, std::size_t rows, std::size_t width, Work work) {
    const std::size_t step = rows_of_a_block(width);
    run_on_threads(threads, (rows + step - 1) / step, [&](Pieces& pieces) {
        for (std::size_t q = pieces.next(); q != Pieces::none; q = pieces.next())
            work(q * step, std::min(rows, (q + 1) * step));
    });
}

void check_threads(int threads) { check_range(threads, 1, most_threads, "threads"); }

void multiply(Matrices<const float> a, Matrices<const float> b, std::optional<Array<const float>> row, bool add, int threads,
              Matrices<float> out) {
    const std::size_t m = out.shape(1), n = out.shape(2), k = a.shape(2);
    check_size(a.shape(0), out.shape(0), "the matrices of a");
    check_size(b.shape(0), out.shape(0), "the matrices of b");
    check_size(a.shape(1), m, "the rows of a");
    check_size(b.shape(1), k, "the rows of b");
    check_size(b.shape(2), n, "the columns of b");
    if (row) check_size(row->size(), n, "row");
    check_threads(threads);
    if ((n > 1 && out.stride(2) != 1) || (m > 1 && out.stride(1) < std::int64_t(n))) refuse("rows of out must be contiguous");
    const Unlocked unlocked;
    for (std::size_t q = 0; q < out.shape(0); ++q)
        qdist::multiply(threads, m, n, k, {a.data() + std::int64_t(q) * a.stride(0), a.stride(1), a.stride(2)},
                        {b.data() + std::int64_t(q) * b.stride(0), b.stride(1), b.stride(2)}, {row ? row->data() : nullptr, add},
                        out.data() + std::int64_t(q) * out.stride(0), std::size_t(out.stride(1)));
}

template <class Real>
void column_sums(Rows<const Real> a, Array<Real> out, int threads) {
    check_size(out.size(), a.shape(1), "out");
    check_threads(threads);
    const Unlocked unlocked;
    qdist::column_sums(threads, a.shape(0), a.shape(1), a.data(), out.data());
}

void word_sums(Rows<const std::uint64_t> a, Array<std::uint64_t> along, Array<std::uint64_t> across) {
    check_size(along.size(), a.shape(0), "along");
    check_size(across.size(), a.shape(1), "across");
    const Unlocked unlocked;
    qdist::word_sums(a.shape(0), a.shape(1), a.data(), along.data(), across.data());
}

void rational(Array<const float> x, Array<const float> times, float limit, std::vector<float> p, std::vector<float> q,
              Array<float> out, int threads) {
    check_threads(threads);
    check_size(times.size(), x.size(), "times");
    check_size(out.size(), x.size(), "out");
    check_size(p.size(), 6, "the coefficients of P");
    check_size(q.size(), 6, "the coefficients of Q");
    const Unlocked unlocked;
    over_rows(threads, x.size(), 1, [&](std::size_t first, std::size_t last) {
        qdist::rational(last - first, x.data() + first, times.data() + first, limit, p, q, out.data() + first);
    });
}

template <class Real>
void positive(Array<const Real> a, Array<Real> out, int threads) {
    check_threads(threads);
    check_size(out.size(), a.size(), "out");
    const Unlocked unlocked;
    over_rows(threads, a.size(), 1, [&](std::size_t first, std::size_t last) {
        qdist::positive(last - first, a.data() + first, out.data() + first);
    });
}

template <class Real>
void times_positive(Array<const Real> g, Array<const Real> y, Array<Real> out, int threads) {
    check_threads(threads);
    check_size(y.size(), g.size(), "y");
    check_size(out.size(), g.size(), "out");
    const Unlocked unlocked;
    over_rows(threads, g.size(), 1, [&](std::size_t first, std::size_t last) {
        qdist::times_positive(last - first, g.data() + first, y.data() + first, out.data() + first);
    });
}

template <class Real>
void adam(Array<Real> p, Array<const Real> g, Array<Real> m, Array<Real> v, double beta1, double beta2, double root_scale,
          double eps, double rate, double keep, double decay, int threads) {
    check_threads(threads);
    check_size(g.size(), p.size(), "g");
    check_size(m.size(), p.size(), "m");
    check_size(v.size(), p.size(), "v");
    const Unlocked unlocked;
    over_rows(threads, p.size(), 1, [&](std::size_t first, std::size_t last) {
        qdist::adam(last - first, p.data() + first, g.data() + first, m.data() + first, v.data() + first, beta1, beta2, root_scale,
                    eps, rate, keep, decay);
    });
}

template <class A, class B>
void check_rows_like(const A& a, const B& wanted, const char* what) {
    check_size(a.shape(0), wanted.shape(0), what);
    check_size(a.shape(1), wanted.shape(1), what);
}

template <class Real>
void softmax(Rows<const Real> a, double scale, std::size_t queries, Rows<Real> out, int threads) {
    check_threads(threads);
    check_rows_like(out, a, "out");
    const Unlocked unlocked;
    const std::size_t width = a.shape(1);
    over_rows(threads, a.shape(0), width, [&](std::size_t r, std::size_t last) {
        qdist::softmax(last - r, width, a.data() + r * width, Real(scale), queries, r, out.data() + r * width);
    });
}

template <class Real>
void softmax_back(Rows<const Real> g, Rows<const Real> y, double scale, Rows<Real> out, int threads) {
    check_threads(threads);
    check_rows_like(y, g, "y");
    check_rows_like(out, g, "out");
    const Unlocked unlocked;
    const std::size_t width = g.shape(1);
    over_rows(threads, g.shape(0), width, [&](std::size_t r, std::size_t last) {
        qdist::softmax_back(last - r, width, g.data() + r * width, y.data() + r * width, Real(scale), out.data() + r * width);
    });
}

void check_targets(const Array<const std::int64_t>& targets, std::size_t rows, std::size_t classes) {
    check_size(targets.size(), rows, "targets");
    for (std::size_t r = 0; r < rows; ++r) check_range(targets.data()[r], 0, std::int64_t(classes) - 1, "a target");
}

template <class Real>
void cross_entropy(Rows<const Real> a, Array<const std::int64_t> targets, Rows<Real> p, Array<Real> loss, int threads) {
    check_threads(threads);
    check_targets(targets, a.shape(0), a.shape(1));
    check_rows_like(p, a, "p");
    check_size(loss.size(), a.shape(0), "loss");
    const Unlocked unlocked;
    const std::size_t width = a.shape(1);
    over_rows(threads, a.shape(0), width, [&](std::size_t r, std::size_t last) {
        qdist::cross_entropy(last - r, width, a.data() + r * width, targets.data() + r, p.data() + r * width, loss.data() + r);
    });
}

template <class Real>
void cross_entropy_back(Array<const Real> g, Rows<const Real> p, Array<const std::int64_t> targets, Rows<Real> out, int threads) {
    check_threads(threads);
    check_targets(targets, p.shape(0), p.shape(1));
    check_size(g.size(), p.shape(0), "g");
    check_rows_like(out, p, "out");
    const Unlocked unlocked;
    const std::size_t width = p.shape(1);
    over_rows(threads, p.shape(0), width, [&](std::size_t r, std::size_t last) {
        qdist::cross_entropy_back(last - r, width, g.data() + r, p.data() + r * width, targets.data() + r, out.data() + r * width);
    });
}

template <class Real>
void layer_norm(Rows<const Real> x, std::optional<Array<const Real>> weight, std::optional<Array<const Real>> bias, double eps,
                Rows<Real> hat, Array<Real> rstd, Rows<Real> out, int threads) {
    check_threads(threads);
    if (weight.has_value() != bias.has_value()) refuse("weight and bias come together");
    if (weight) check_size(weight->size(), x.shape(1), "weight");
    if (bias) check_size(bias->size(), x.shape(1), "bias");
    check_rows_like(hat, x, "hat");
    check_rows_like(out, x, "out");
    check_size(rstd.size(), x.shape(0), "rstd");
    const Unlocked unlocked;
    const std::size_t width = x.shape(1);
    over_rows(threads, x.shape(0), width, [&](std::size_t r, std::size_t last) {
        qdist::layer_norm(last - r, width, x.data() + r * width, weight ? weight->data() : nullptr, bias ? bias->data() : nullptr,
                          Real(eps), hat.data() + r * width, rstd.data() + r, out.data() + r * width);
    });
}

template <class Real>
void layer_norm_back(Rows<const Real> g, Rows<const Real> hat, Array<const Real> rstd, std::optional<Array<const Real>> weight,
                     Rows<Real> out, Array<Real> weight_sum, Array<Real> bias_sum, int threads) {
    check_threads(threads);
    check_rows_like(hat, g, "hat");
    check_rows_like(out, g, "out");
    check_size(rstd.size(), g.shape(0), "rstd");
    if (weight) check_size(weight->size(), g.shape(1), "weight");
    check_size(weight_sum.size(), g.shape(1), "weight_sum");
    check_size(bias_sum.size(), g.shape(1), "bias_sum");
    const Unlocked unlocked;
    const std::size_t width = g.shape(1), step = rows_of_a_block(width), blocks = (g.shape(0) + step - 1) / step;
    // Each block's sums, which are added up in order.
    std::vector<Real> sums(blocks * 2 * width);
    over_rows(threads, g.shape(0), width, [&](std::size_t r, std::size_t last) {
        Real* const own = sums.data() + r / step * 2 * width;
        qdist::layer_norm_back(last - r, width, g.data() + r * width, hat.data() + r * width, rstd.data() + r,
                               weight ? weight->data() : nullptr, out.data() + r * width, own, own + width);
    });
    for (std::size_t q = 0; q < blocks; ++q)
        for (std::size_t k = 0; k < width; ++k) {
            weight_sum.data()[k] += sums[2 * q * width + k];
            bias_sum.data()[k] += sums[(2 * q + 1) * width + k];
        }
}

template <class Real>
void add_rows(Array<const std::int64_t> places, Rows<const Real> values, Rows<Real> target) {
    check_size(places.size(), values.shape(0), "places");
    check_size(target.shape(1), values.shape(1), "a row of target");
    for (std::size_t r = 0; r < places.size(); ++r)
        check_range(places.data()[r], 0, std::int64_t(target.shape(0)) - 1, "a place");
    const Unlocked unlocked;
    qdist::add_rows(values.shape(0), values.shape(1), places.data(), values.data(), target.data());
}

template <class T, class Images>
Plane<T> plane(const Images& images, std::size_t a, std::size_t b) {
    return {images.data() + std::ptrdiff_t(a) * images.stride(0) + std::ptrdiff_t(b) * images.stride(1), images.stride(2),
            images.shape(2), images.shape(3)};
}

// Calls work(a, b) for all images (a, b).
template <class Images, class Work>
void over_images(int threads, const Images& images, Work work) {
    const std::size_t each = images.shape(1);
    over_rows(threads, images.shape(0) * each, images.shape(2) * images.shape(3), [&](std::size_t first, std::size_t last) {
        for (std::size_t q = first; q < last; ++q) work(q / each, q % each);
    });
}

template <class Images>
void check_rows(const Images& images, const char* what) {
    if (images.shape(3) > 1 && images.stride(3) != 1) refuse("rows of ", what, " must be contiguous; got stride ", images.stride(3));
}

// Whether the windows of `small` lie within `large`.
template <class Large, class Small, class Other>
Window checked_window(const Large& large, const Small& small, const Other& winner, Pair kernel, Pair stride) {
    const Window window{{kernel.first, kernel.second}, {stride.first, stride.second}};
    for (int k = 0; k < 2; ++k) {
        check_range(std::int64_t(window.kernel[k]), 1, 256, "a window's size");
        check_range(std::int64_t(window.stride[k]), 1, 1 << 30, "the stride");
        check_size(small.shape(k), large.shape(k), "the number of images");
        const std::size_t outputs = small.shape(k + 2);
        if (outputs && (outputs - 1) * window.stride[k] + window.kernel[k] > large.shape(k + 2))
            refuse(outputs, " windows of ", window.kernel[k], " with stride ", window.stride[k], " do not fit ",
                   large.shape(k + 2), " numbers");
    }
    check_range(std::int64_t(window.kernel[0] * window.kernel[1]), 1, 256, "the numbers of a window");
    for (int k = 0; k < 4; ++k) check_size(winner.shape(k), small.shape(k), "winner");
    check_rows(large, "images");
    check_rows(small, "outputs");
    check_rows(winner, "winner");
    return window;
}

template <class Real>
void max_pool(Images<const Real> x, Pair kernel, Pair stride, Images<Real> best, Images<std::uint8_t> winner, int threads) {
    check_threads(threads);
    const Window window = checked_window(x, best, winner, kernel, stride);
    const Unlocked unlocked;
    over_images(threads, x, [&](std::size_t a, std::size_t b) {
        qdist::max_pool(plane<const Real>(x, a, b), window, plane<Real>(best, a, b), plane<std::uint8_t>(winner, a, b));
    });
}

template <class Real>
void max_pool_back(Images<const Real> g, Images<const std::uint8_t> winner, Pair kernel, Pair stride, Images<Real> x, int threads) {
    check_threads(threads);
    const Window window = checked_window(x, g, winner, kernel, stride);
    const std::size_t numbers = kernel.first * kernel.second;
    const Unlocked unlocked;
    over_images(threads, x, [&](std::size_t a, std::size_t b) {
        const auto places = plane<const std::uint8_t>(winner, a, b);
        std::uint8_t most = 0;
        for (std::size_t y = 0; y < places.height; ++y)
            for (std::size_t k = 0; k < places.width; ++k) most = std::max(most, places.row(y)[k]);
        if (most >= numbers) refuse("winner must be below ", numbers, ", the numbers of a window");
        qdist::max_pool_back(plane<const Real>(g, a, b), places, window, plane<Real>(x, a, b));
    });
}

// The windows of images (channels, images, height, width); outputs are as many as fit.
template <class Images>
Windows checked_windows(const Images& images, Pair kernel, Pair stride, Pair padding, Pair dilation) {
    Windows windows{{kernel.first, kernel.second}, {stride.first, stride.second}, {padding.first, padding.second},
                    {dilation.first, dilation.second}, {}};
    for (int k = 0; k < 2; ++k) {
        check_range(std::int64_t(windows.kernel[k]), 1, 1 << 20, "a window's size");
        check_range(std::int64_t(windows.stride[k]), 1, 1 << 20, "the stride");
        check_range(std::int64_t(windows.padding[k]), 0, 1 << 20, "the padding");
        check_range(std::int64_t(windows.dilation[k]), 1, 1 << 20, "the dilation");
        const std::size_t span = windows.dilation[k] * (windows.kernel[k] - 1) + 1, size = images.shape(k + 2) + 2 * windows.padding[k];
        if (size < span) refuse("a window that spans ", span, " does not fit ", size, " numbers");
        windows.outputs[k] = (size - span) / windows.stride[k] + 1;
    }
    check_rows(images, "images");
    return windows;
}

template <class Real>
void gather_windows(Images<const Real> x, Pair kernel, Pair stride, Pair padding, Pair dilation, Rows<Real> out, int threads) {
    check_threads(threads);
    const Windows windows = checked_windows(x, kernel, stride, padding, dilation);
    const std::size_t numbers = kernel.first * kernel.second, images = x.shape(1), area = windows.area();
    check_size(out.shape(1), images * area, "a row of out");
    check_size(out.shape(0), x.shape(0) * numbers, "the rows of out");
    const Unlocked unlocked;
    const auto reaches = windows.reaches(x.shape(2), x.shape(3));
    over_rows(threads, out.shape(0) * images, area, [&](std::size_t first, std::size_t last) {
        for (std::size_t q = first; q < last;) {
            const std::size_t row = q / images, next = std::min(last, (row + 1) * images);
            for (std::size_t b = q - row * images; q < next; ++q, ++b)
                qdist::gather(plane<const Real>(x, row / numbers, b), windows, reaches[row % numbers], out.data() + q * area);
        }
    });
}

template <class Real>
void add_windows(Rows<const Real> rows, Pair kernel, Pair stride, Pair padding, Pair dilation, Images<Real> x, int threads) {
    check_threads(threads);
    const Windows windows = checked_windows(x, kernel, stride, padding, dilation);
    const std::size_t numbers = kernel.first * kernel.second, images = x.shape(1), area = windows.area();
    check_size(rows.shape(0), x.shape(0) * numbers, "rows");
    check_size(rows.shape(1), images * area, "a row");
    const Unlocked unlocked;
    const auto reaches = windows.reaches(x.shape(2), x.shape(3));
    over_images(threads, x, [&](std::size_t channel, std::size_t b) {
        for (std::size_t place = 0; place < numbers; ++place)
            qdist::add(plane<Real>(x, channel, b), windows, reaches[place],
                       rows.data() + ((channel * numbers + place) * images + b) * area);
    });
}

template <class Real>
void bind(nb::module_& m) {
    m.def("softmax", &softmax<Real>, exact("a"), "scale"_a, "queries"_a, exact("out"), "threads"_a = 1,
          "Softmax of scale * a, row by row; a row of -inf alone gives zeros. queries > 0: row r is query r % queries, "
          "which sees the keys up to itself + keys - queries.");
    m.def("softmax_back", &softmax_back<Real>, exact("g"), exact("y"), "scale"_a, exact("out"), "threads"_a = 1, "out = scale y (g - <g, y>).");
    m.def("cross_entropy", &cross_entropy<Real>, exact("a"), exact("targets"), exact("p"), exact("loss"), "threads"_a = 1,
          "p = softmax(a), loss = -log p[target], row by row.");
    m.def("cross_entropy_back", &cross_entropy_back<Real>, exact("g"), exact("p"), exact("targets"), exact("out"), "threads"_a = 1,
          "out = g (p - 1 at the target), row by row.");
    m.def("layer_norm", &layer_norm<Real>, exact("x"), exact("weight").none(), exact("bias").none(), "eps"_a, exact("hat"),
          exact("rstd"), exact("out"), "threads"_a = 1, "hat = (x - mean) rstd, out = weight hat + bias, row by row.");
    m.def("layer_norm_back", &layer_norm_back<Real>, exact("g"), exact("hat"), exact("rstd"), exact("weight").none(),
          exact("out"), exact("weight_sum"), exact("bias_sum"), "threads"_a = 1,
          "out = the cotangent of x; adds those of weight and bias, summed over rows.");
    m.def("add_rows", &add_rows<Real>, exact("places"), exact("values"), exact("target"),
          "target row places[r] += row r of values, one after the other.");
    m.def("gather_windows", &gather_windows<Real>, exact("x"), "kernel"_a, "stride"_a, "padding"_a, "dilation"_a, exact("out"), "threads"_a = 1,
          "Rows of the matrix of all windows of x (channels, images, height, width): row (channel, i, j) has number (i, j) of "
          "each window.");
    m.def("add_windows", &add_windows<Real>, exact("rows"), "kernel"_a, "stride"_a, "padding"_a, "dilation"_a, exact("x"), "threads"_a = 1,
          "Adds the rows of such a matrix to the numbers of x that they were made of.");
    m.def("column_sums", &column_sums<Real>, exact("a"), exact("out"), "threads"_a = 1, "out = the sum of the rows of a.");
    m.def("positive", &positive<Real>, exact("a"), exact("out"), "threads"_a = 1, "out = a where it is positive, else 0; NaNs stay.");
    m.def("times_positive", &times_positive<Real>, exact("g"), exact("y"), exact("out"), "threads"_a = 1, "out = g * (y > 0).");
    m.def("adam", &adam<Real>, exact("p"), exact("g"), exact("m"), exact("v"), "beta1"_a, "beta2"_a, "root_scale"_a, "eps"_a,
          "rate"_a, "keep"_a, "decay"_a, "threads"_a = 1,
          "s = g + decay p, m = beta1 m + (1 - beta1) s, v = beta2 v + (1 - beta2) s^2, p = keep p - rate m / (root_scale "
          "sqrt(v) + eps).");
    m.def("max_pool", &max_pool<Real>, exact("x"), "kernel"_a, "stride"_a, exact("best"), exact("winner"), "threads"_a = 1,
          "The largest number of each window of images (.., .., height, width), and its place in the window (uint8).");
    m.def("max_pool_back", &max_pool_back<Real>, exact("g"), exact("winner"), "kernel"_a, "stride"_a, exact("x"), "threads"_a = 1,
          "Adds each output's cotangent g to that of the number of x it came from.");
}

}  // namespace
}  // namespace qdist::bindings

void bind_tensor(nb::module_& m) {
    using namespace qdist::bindings;
    m.def("multiply", &multiply, exact("a"), exact("b"), exact("row").none(), "add"_a, "threads"_a, exact("out"),
          "out = a b for stacks of matrices (.., m, k), (.., k, n), plus `row` in every row, and plus what out was with `add`.");
    m.def("word_sums", &word_sums, exact("a"), exact("along"), exact("across"),
          "along = the sum of each row, across = the sum of each column.");
    m.def("rational", &rational, exact("x"), exact("times"), "limit"_a, "p"_a, "q"_a, exact("out"), "threads"_a = 1,
          "out = times * (1/2 + x P(x^2) / Q(x^2)) with |x| at most limit; P and Q have six coefficients, lowest first.");
    bind<float>(m);
    bind<double>(m);
}
