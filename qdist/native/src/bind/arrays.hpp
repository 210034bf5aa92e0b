// What the bindings share: NumPy arrays as kernels take them, and their numbers.
#pragma once
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/complex.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <complex>
#include <span>

#include "base/checks.hpp"

namespace nb = nanobind;
using namespace nb::literals;

template <class T>
using Array = nb::ndarray<T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
template <class T>
using Rows = nb::ndarray<T, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
template <class Real>
using Shard = Array<const std::complex<Real>>;
template <class Real>
using MutableShard = Array<std::complex<Real>>;

// An argument that is not converted to another dtype or order: kernels write into what they are given.
inline auto exact(const char* name) { return nb::arg(name).noconvert(); }

// Real and imaginary parts of the amplitudes.
template <class Real, class... Options>
const Real* numbers(const nb::ndarray<const std::complex<Real>, Options...>& array) {
    return reinterpret_cast<const Real*>(array.data());
}
template <class Real, class... Options>
Real* numbers(const nb::ndarray<std::complex<Real>, Options...>& array) {
    return reinterpret_cast<Real*>(array.data());
}

template <class T>
std::span<const T> span_of(const Array<const T>& array) {
    return {array.data(), array.size()};
}

// Kernels that write one array while they read another.
template <class A, class B>
void check_no_overlap(const A& a, const B& b, const char* what) {
    qdist::check_apart(a.data(), b.data(), a.size() * sizeof(*a.data()), what);
}

// A shard's numbers, padded with zeros to a whole row of lanes where it is shorter.
template <class Real>
class Padded {
public:
    explicit Padded(const Shard<Real>& shard) : data_(numbers(shard)) {
        if (shard.size() >= qdist::lanes) return;
        std::copy(data_, data_ + 2 * shard.size(), padded_);
        data_ = padded_;
    }
    Padded(const Padded&) = delete;
    const Real* data() const { return data_; }

private:
    const Real* data_;
    Real padded_[2 * qdist::lanes] = {};
};
