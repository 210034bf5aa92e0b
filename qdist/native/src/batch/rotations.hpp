// Pauli rotations exp(-i theta/2 P) of a row block: plane rotations of real numbers.
//
// On the 2^(n + 1) real numbers of a state, -i P is a signed permutation J with J^2 = -1: it takes number i to number
// i ^ direction, times +1 or -1 by the parity of i & functional. So exp(theta/2 J) turns the pairs (x_i, x_(i ^ direction)) by
// theta/2, whatever the letters of P are, and the derivative of 2 Re <bra|ket> by theta is sum of bra . J ket.
//
// A group has up to three rotations with independent directions: the 2^K numbers that they mix are loaded once, turned by
// one after the other, and stored. Its walk has the places of the first of them, along which no sign changes.
#pragma once
#include <array>

#include "batch/angles.hpp"
#include "batch/walk.hpp"

namespace qdist::batch {

inline constexpr int most_rotations = 3;

struct Rotation {
    Index direction, functional;
    int angle;
};

struct Group {
    Walk walk;
    std::vector<Rotation> rotations;

    // The place, relative to a step's, of number o of those that are mixed.
    Index offset(std::size_t o) const {
        Index place = 0;
        for (std::size_t j = 0; j < rotations.size(); ++j)
            if (o >> j & 1) place ^= rotations[j].direction;
        return place;
    }
};

// What a group's steps need: places of the numbers that are mixed, in elements, and cosines and signed sines.
template <int K, class Real>
struct Turns {
    static constexpr std::size_t size = std::size_t(1) << K, pairs = size / 2;
    std::array<std::uint32_t, size> offset;
    Vec<Real> cosine[K], sine[K][pairs];
    Vec<Real> sign[K][pairs];

    Turns(const Group& group, const Turn<Real>* turns, bool undo) {
        for (std::size_t o = 0; o < size; ++o) offset[o] = std::uint32_t(group.offset(o));
        for (int j = 0; j < K; ++j) {
            const Rotation& rotation = group.rotations[j];
            cosine[j] = turns[rotation.angle].cosine;
            for (std::size_t r = 0; r < pairs; ++r) {
                const bool negative = parity((group.walk.inner[0] ^ offset[insert_zero(r, j)]) & rotation.functional);
                sign[j][r] = splat(Real(negative ? -1 : 1));
                sine[j][r] = (negative != undo ? -turns[rotation.angle].sine : turns[rotation.angle].sine);
            }
        }
    }

    // Rotation j of the numbers in registers.
    template <std::size_t j>
    [[gnu::always_inline]] void turn(Vec<Real> (&x)[size]) const {
        repeat<pairs>([&](auto r) __attribute__((always_inline)) {
            constexpr std::size_t first = insert_zero_constant(r, j), second = first | std::size_t(1) << j;
            const Vec<Real> u = x[first], v = x[second];
            x[first] = cosine[j] * u - sine[j][r] * v;
            x[second] = cosine[j] * v + sine[j][r] * u;
        });
    }

    // bra . J ket over the pairs of rotation j.
    template <std::size_t j>
    [[gnu::always_inline]] Vec<Real> sum(const Vec<Real> (&ket)[size], const Vec<Real> (&bra)[size]) const {
        Vec<Real> result{};
        repeat<pairs>([&](auto r) __attribute__((always_inline)) {
            constexpr std::size_t first = insert_zero_constant(r, j), second = first | std::size_t(1) << j;
            result += sign[j][r] * (bra[second] * ket[first] - bra[first] * ket[second]);
        });
        return result;
    }

    static constexpr std::size_t insert_zero_constant(std::size_t r, std::size_t bit) {
        const std::size_t low = r & ((std::size_t(1) << bit) - 1);
        return (r - low) << 1 | low;
    }
};

template <int K, class Real>
void rotate_group(const Group& group, const Turn<Real>* table, Real* state) {
    const Turns<K, Real> turns(group, table, false);
    for (const std::uint32_t high : group.walk.outer)
        for (const std::uint32_t low : group.walk.inner) {
            Vec<Real> x[Turns<K, Real>::size];
            const std::uint32_t place = high ^ low;
            repeat<Turns<K, Real>::size>([&](auto o) __attribute__((always_inline)) { x[o] = load(state + std::size_t(place ^ turns.offset[o]) * rows<Real>); });
            repeat<K>([&](auto j) __attribute__((always_inline)) { turns.template turn<j>(x); });
            repeat<Turns<K, Real>::size>([&](auto o) __attribute__((always_inline)) { store(state + std::size_t(place ^ turns.offset[o]) * rows<Real>, x[o]); });
        }
}

// Undoes a group on ket and bra. sums: bra . J ket after each rotation, lane by lane, where they are wanted.
template <int K, bool wants_sums, class Real>
void undo_group(const Group& group, const Turn<Real>* table, Real* ket, Real* bra, LaneSums<Real>* sums) {
    const Turns<K, Real> turns(group, table, true);
    constexpr std::size_t size = Turns<K, Real>::size;
    for (const std::uint32_t high : group.walk.outer) {
        Vec<Real> sum[K] = {};
        for (const std::uint32_t low : group.walk.inner) {
            Vec<Real> x[size], y[size];
            const std::uint32_t place = high ^ low;
            repeat<size>([&](auto o) __attribute__((always_inline)) {
                x[o] = load(ket + std::size_t(place ^ turns.offset[o]) * rows<Real>);
                y[o] = load(bra + std::size_t(place ^ turns.offset[o]) * rows<Real>);
            });
            repeat<K>([&](auto k) __attribute__((always_inline)) {
                constexpr std::size_t j = K - 1 - k;
                if constexpr (wants_sums) sum[j] += turns.template sum<j>(x, y);
                turns.template turn<j>(x);
                turns.template turn<j>(y);
            });
            repeat<size>([&](auto o) __attribute__((always_inline)) {
                store(ket + std::size_t(place ^ turns.offset[o]) * rows<Real>, x[o]);
                store(bra + std::size_t(place ^ turns.offset[o]) * rows<Real>, y[o]);
            });
        }
        if constexpr (wants_sums)
            for (int j = 0; j < K; ++j) sums[j].add(sum[j]);
    }
}

template <class Real>
void rotate(const Group& group, const Turn<Real>* table, Real* state) {
    switch (group.rotations.size()) {
        case 1: return rotate_group<1, Real>(group, table, state);
        case 2: return rotate_group<2, Real>(group, table, state);
        default: return rotate_group<3, Real>(group, table, state);
    }
}

template <class Real>
void undo(const Group& group, const Turn<Real>* table, Real* ket, Real* bra, bool wants_sums, LaneSums<Real>* sums) {
    const auto run = [&]<int K>() {
        if (wants_sums)
            undo_group<K, true, Real>(group, table, ket, bra, sums);
        else
            undo_group<K, false, Real>(group, table, ket, bra, sums);
    };
    switch (group.rotations.size()) {
        case 1: return run.template operator()<1>();
        case 2: return run.template operator()<2>();
        default: return run.template operator()<3>();
    }
}

}  // namespace qdist::batch
