// A small complex matrix, row by row. Most are of one or two bits: these lie in place, since an allocation takes as long as
// computing one.
#pragma once
#include <algorithm>
#include <array>
#include <complex>
#include <cstddef>
#include <initializer_list>
#include <vector>

namespace qdist {

using Complex = std::complex<double>;

// Without the questions of operator* for what is not a number.
inline Complex times(Complex a, Complex b) {
    return {a.real() * b.real() - a.imag() * b.imag(), a.real() * b.imag() + a.imag() * b.real()};
}

class Matrix {
public:
    Matrix() = default;
    // Of zeros.
    explicit Matrix(std::size_t size) : size_(size), many_(size > in_place ? size : 0) {}
    template <class Iterator>
    Matrix(Iterator first, Iterator last) : Matrix(std::size_t(last - first)) {
        std::copy(first, last, begin());
    }
    Matrix(std::initializer_list<Complex> entries) : Matrix(entries.begin(), entries.end()) {}

    std::size_t size() const { return size_; }
    Complex* data() { return size_ > in_place ? many_.data() : few_.data(); }
    const Complex* data() const { return size_ > in_place ? many_.data() : few_.data(); }
    Complex* begin() { return data(); }
    Complex* end() { return data() + size_; }
    const Complex* begin() const { return data(); }
    const Complex* end() const { return data() + size_; }
    Complex& operator[](std::size_t k) { return data()[k]; }
    const Complex& operator[](std::size_t k) const { return data()[k]; }

    bool operator==(const Matrix& other) const { return std::equal(begin(), end(), other.begin(), other.end()); }

private:
    static constexpr std::size_t in_place = 16;

    std::size_t size_ = 0;
    std::array<Complex, in_place> few_;
    std::vector<Complex> many_;
};

}  // namespace qdist
