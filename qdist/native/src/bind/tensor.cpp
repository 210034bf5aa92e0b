// Kernels of the tensor package: chains of elementwise operations, and pooling. They run on the thread that calls them.
#include <algorithm>

#include "base/checks.hpp"
#include "bind/arrays.hpp"
#include "tensor/elementwise.hpp"
#include "tensor/pooling.hpp"

namespace qdist::bindings {
namespace {

// Images of any strides, whose rows are numbers beside each other.
template <class T>
using Images = nb::ndarray<T, nb::ndim<4>, nb::device::cpu>;
using Pair = std::pair<std::size_t, std::size_t>;

void rational(Array<const float> x, Array<const float> times, float limit, std::vector<float> p, std::vector<float> q,
              Array<float> out) {
    check_size(times.size(), x.size(), "times");
    check_size(out.size(), x.size(), "out");
    check_size(p.size(), 6, "the coefficients of P");
    check_size(q.size(), 6, "the coefficients of Q");
    nb::gil_scoped_release release;
    qdist::rational(x.size(), x.data(), times.data(), limit, p, q, out.data());
}

template <class Real>
void times_positive(Array<const Real> g, Array<const Real> y, Array<Real> out) {
    check_size(y.size(), g.size(), "y");
    check_size(out.size(), g.size(), "out");
    nb::gil_scoped_release release;
    qdist::times_positive(g.size(), g.data(), y.data(), out.data());
}

template <class Real>
void adam(Array<Real> g, Array<Real> m, Array<Real> v, double beta1, double beta2, double root_scale, double eps, double rate) {
    check_size(m.size(), g.size(), "m");
    check_size(v.size(), g.size(), "v");
    nb::gil_scoped_release release;
    qdist::adam(g.size(), g.data(), m.data(), v.data(), beta1, beta2, root_scale, eps, rate);
}

template <class T, class Images>
Plane<T> plane(const Images& images, std::size_t a, std::size_t b) {
    return {images.data() + std::ptrdiff_t(a) * images.stride(0) + std::ptrdiff_t(b) * images.stride(1), images.stride(2),
            images.shape(2), images.shape(3)};
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
void max_pool(Images<const Real> x, Pair kernel, Pair stride, Images<Real> best, Images<std::uint8_t> winner) {
    const Window window = checked_window(x, best, winner, kernel, stride);
    nb::gil_scoped_release release;
    for (std::size_t a = 0; a < x.shape(0); ++a)
        for (std::size_t b = 0; b < x.shape(1); ++b)
            qdist::max_pool(plane<const Real>(x, a, b), window, plane<Real>(best, a, b), plane<std::uint8_t>(winner, a, b));
}

template <class Real>
void max_pool_back(Images<const Real> g, Images<const std::uint8_t> winner, Pair kernel, Pair stride, Images<Real> x) {
    const Window window = checked_window(x, g, winner, kernel, stride);
    const std::size_t numbers = kernel.first * kernel.second;
    nb::gil_scoped_release release;
    for (std::size_t a = 0; a < g.shape(0); ++a)
        for (std::size_t b = 0; b < g.shape(1); ++b) {
            const auto places = plane<const std::uint8_t>(winner, a, b);
            std::uint8_t most = 0;
            for (std::size_t y = 0; y < places.height; ++y)
                for (std::size_t k = 0; k < places.width; ++k) most = std::max(most, places.row(y)[k]);
            if (most >= numbers) refuse("winner must be below ", numbers, ", the numbers of a window");
            qdist::max_pool_back(plane<const Real>(g, a, b), places, window, plane<Real>(x, a, b));
        }
}

template <class Real>
void bind(nb::module_& m) {
    m.def("times_positive", &times_positive<Real>, exact("g"), exact("y"), exact("out"), "out = g * (y > 0).");
    m.def("adam", &adam<Real>, exact("g"), exact("m"), exact("v"), "beta1"_a, "beta2"_a, "root_scale"_a, "eps"_a, "rate"_a,
          "m = beta1 m + (1 - beta1) g, v = beta2 v + (1 - beta2) g^2, g = rate m / (root_scale sqrt(v) + eps).");
    m.def("max_pool", &max_pool<Real>, exact("x"), "kernel"_a, "stride"_a, exact("best"), exact("winner"),
          "The largest number of each window of images (.., .., height, width), and its place in the window (uint8).");
    m.def("max_pool_back", &max_pool_back<Real>, exact("g"), exact("winner"), "kernel"_a, "stride"_a, exact("x"),
          "Adds each output's cotangent g to that of the number of x it came from.");
}

}  // namespace
}  // namespace qdist::bindings

void bind_tensor(nb::module_& m) {
    using namespace qdist::bindings;
    m.def("rational", &rational, exact("x"), exact("times"), "limit"_a, "p"_a, "q"_a, exact("out"),
          "out = times * (1/2 + x P(x^2) / Q(x^2)) with |x| at most limit; P and Q have six coefficients, lowest first.");
    bind<float>(m);
    bind<double>(m);
}
