// Windows of images as rows of a matrix, for convolutions as matrix products, and the sum of such rows back onto images.
#pragma once
#include <algorithm>
#include <cstddef>
#include <vector>

#include "tensor/pooling.hpp"

namespace qdist {

// How windows lie: output o of an axis is made of the numbers o * stride + k * dilation - padding, k below the kernel.
struct Windows {
    std::size_t kernel[2], stride[2], padding[2], dilation[2], outputs[2];

    // The outputs from `low` to below `high` whose number k lies within an image of this size, and the first one's place.
    struct Range {
        std::size_t low, high;
        std::ptrdiff_t place;
    };
    Range within(int axis, std::size_t k, std::size_t size) const {
        const auto step = std::ptrdiff_t(stride[axis]), offset = std::ptrdiff_t(k * dilation[axis]) - std::ptrdiff_t(padding[axis]);
        const auto count = std::ptrdiff_t(outputs[axis]);
        const std::ptrdiff_t low = offset >= 0 ? 0 : std::min(count, (-offset + step - 1) / step);
        const std::ptrdiff_t room = std::ptrdiff_t(size) - offset;
        const std::ptrdiff_t high = std::max(low, room <= 0 ? 0 : std::min(count, (room + step - 1) / step));
        return {std::size_t(low), std::size_t(high), low * step + offset};
    }
    // The outputs that a number of the window is within an image of: rows and columns.
    struct Reach {
        Range down, across;
    };
    // Of each number, row by row.
    std::vector<Reach> reaches(std::size_t height, std::size_t width) const {
        std::vector<Reach> found;
        for (std::size_t i = 0; i < kernel[0]; ++i)
            for (std::size_t j = 0; j < kernel[1]; ++j) found.push_back({within(0, i, height), within(1, j, width)});
        return found;
    }
    // Whether outputs are as wide as an image whose rows follow each other.
    template <class Number>
    bool is_flat(const Plane<Number>& image) const {
        return stride[0] == 1 && stride[1] == 1 && image.step == std::ptrdiff_t(outputs[1]);
    }
    std::size_t area() const { return outputs[0] * outputs[1]; }
};

// row = one number of each of an image's windows, 0 where that lies in the padding.
template <class Real>
void gather(const Plane<const Real>& image, const Windows& windows, const Windows::Reach& reach, Real* row) {
    const auto& [down, across] = reach;
    const std::size_t width = windows.outputs[1], step = windows.stride[1];
    std::fill(row, row + down.low * width, Real(0));
    if (windows.is_flat(image) && down.low < down.high && across.low < across.high) {
        // All rows are one, shifted. What it takes from beside the image is set to zero.
        const std::size_t first = down.low * width + across.low, last = (down.high - 1) * width + across.high;
        const Real* from = image.row(std::size_t(down.place)) + across.place;
        std::copy(from, from + (last - first), row + first);
        for (std::size_t o = down.low; o < down.high; ++o) {
            for (std::size_t p = 0; p < across.low; ++p) row[o * width + p] = 0;
            for (std::size_t p = across.high; p < width; ++p) row[o * width + p] = 0;
        }
        std::fill(row + down.high * width, row + windows.area(), Real(0));
        return;
    }
    for (std::size_t o = down.low; o < down.high; ++o) {
        const Real* from = image.row(std::size_t(down.place) + (o - down.low) * windows.stride[0]) + across.place;
        Real* to = row + o * width;
        std::fill(to, to + across.low, Real(0));
        if (step == 1)
            std::copy(from, from + (across.high - across.low), to + across.low);
        else
            for (std::size_t p = across.low; p < across.high; ++p) to[p] = from[(p - across.low) * step];
        std::fill(to + across.high, to + width, Real(0));
    }
    std::fill(row + down.high * width, row + windows.area(), Real(0));
}

// The reverse: adds the row's numbers to the image.
template <class Real>
void add(const Plane<Real>& image, const Windows& windows, const Windows::Reach& reach, const Real* row) {
    const auto& [down, across] = reach;
    const std::size_t count = across.high - across.low, step = windows.stride[1], width = windows.outputs[1];
    const std::size_t rows = down.high - down.low, gap = width - count;
    constexpr std::size_t most_kept = 512;
    if (windows.is_flat(image) && rows > 0 && count > 0 && (rows - 1) * gap <= most_kept) {
        // All rows are one, shifted. What would be added to numbers between two of them is not: they become what they were.
        Real* const to = image.row(std::size_t(down.place)) + across.place;
        const Real* const from = row + down.low * width + across.low;
        const auto each_between = [&](auto touch) {
            for (std::size_t r = 0, k = 0; r + 1 < rows; ++r)
                for (std::size_t p = count; p < width; ++p) touch(to[r * width + p], k++);
        };
        Real kept[most_kept];
        each_between([&](Real x, std::size_t k) { kept[k] = x; });
        for (std::size_t p = 0; p < (rows - 1) * width + count; ++p) to[p] += from[p];
        each_between([&](Real& x, std::size_t k) { x = kept[k]; });
        return;
    }
    for (std::size_t o = down.low; o < down.high; ++o) {
        Real* to = image.row(std::size_t(down.place) + (o - down.low) * windows.stride[0]) + across.place;
        const Real* from = row + o * width + across.low;
        if (step == 1)
            for (std::size_t p = 0; p < count; ++p) to[p] += from[p];
        else
            for (std::size_t p = 0; p < count; ++p) to[p * step] += from[p];
    }
}

}  // namespace qdist
