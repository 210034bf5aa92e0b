// Signed sums of 2^k vectors: for each mask of a set, the sum over g of (-1)^|mask & g| x_g; and its transpose.
//
// A Walsh-Hadamard transform of which only the branches to the wanted masks are computed: a node splits its numbers by their
// highest bit, into sums for the masks without it and differences for those with it.
#pragma once
#include <algorithm>
#include <vector>

#include "batch/walk.hpp"

namespace qdist::batch {

class WalshTree {
public:
    // masks: different ones, of `bits` bits. Their order numbers the results.
    WalshTree(int bits, const std::vector<Index>& masks) : bits_(bits), count_(masks.size()) {
        std::vector<std::pair<Index, int>> wanted;
        for (std::size_t k = 0; k < masks.size(); ++k) wanted.push_back({masks[k], int(k)});
        root_ = wanted.empty() ? -1 : node(bits, wanted);
    }

    std::size_t count() const { return count_; }
    bool empty() const { return root_ < 0; }

    // results: one an entry of `masks`. x is left alone; room: as many vectors as x.
    template <class Real>
    void sums(const Real* x, Real* room, LaneSums<Real>* results) const {
        if (root_ >= 0) sums(nodes_[root_], x, room, results);
    }

    // x_g = sum over the masks of (-1)^|mask & g| weights[mask].
    template <class Real>
    void transposed(const Vec<Real>* weights, Real* x, Real* room) const {
        if (root_ < 0)
            std::fill_n(x, rows<Real> << bits_, Real(0));
        else
            transposed(nodes_[root_], weights, x, room);
    }

private:
    struct Node {
        int bits, sum, difference, leaf;
    };

    int node(int bits, const std::vector<std::pair<Index, int>>& wanted) {
        // A mask without any of the bits: a plain sum.
        if (wanted.size() == 1 && (wanted[0].first & low_bits(bits)) == 0) {
            nodes_.push_back({bits, -1, -1, wanted[0].second});
            return int(nodes_.size()) - 1;
        }
        std::vector<std::pair<Index, int>> with, without;
        for (const auto& one : wanted) (one.first >> (bits - 1) & 1 ? with : without).push_back(one);
        const int sum = without.empty() ? -1 : node(bits - 1, without), difference = with.empty() ? -1 : node(bits - 1, with);
        nodes_.push_back({bits, sum, difference, -1});
        return int(nodes_.size()) - 1;
    }

    template <class Real>
    void sums(const Node& node, const Real* x, Real* room, LaneSums<Real>* results) const {
        constexpr std::size_t W = rows<Real>;
        const std::size_t size = std::size_t(1) << node.bits, half = size / 2;
        if (node.leaf >= 0) {
            for (std::size_t start = 0; start < size; start += 64) {
                Vec<Real> sum{};
                for (std::size_t g = start; g < std::min(size, start + 64); ++g) sum += load(x + g * W);
                results[node.leaf].add(sum);
            }
            return;
        }
        const Real* const high = x + half * W;
        if (node.sum >= 0) {
            for (std::size_t g = 0; g < half; ++g) store(room + g * W, load(x + g * W) + load(high + g * W));
            sums(nodes_[node.sum], room, room + half * W, results);
        }
        if (node.difference >= 0) {
            for (std::size_t g = 0; g < half; ++g) store(room + g * W, load(x + g * W) - load(high + g * W));
            sums(nodes_[node.difference], room, room + half * W, results);
        }
    }

    template <class Real>
    void transposed(const Node& node, const Vec<Real>* weights, Real* x, Real* room) const {
        constexpr std::size_t W = rows<Real>;
        const std::size_t size = std::size_t(1) << node.bits, half = size / 2;
        if (node.leaf >= 0) {
            const Vec<Real> weight = weights[node.leaf];
            for (std::size_t g = 0; g < size; ++g) store(x + g * W, weight);
            return;
        }
        Real* const high = x + half * W;
        if (node.sum >= 0) {
            transposed(nodes_[node.sum], weights, x, room);
            for (std::size_t g = 0; g < half; ++g) store(high + g * W, load(x + g * W));
        } else
            std::fill_n(x, size * W, Real(0));
        if (node.difference >= 0) {
            transposed(nodes_[node.difference], weights, room, room + half * W);
            for (std::size_t g = 0; g < half; ++g) {
                const Vec<Real> d = load(room + g * W);
                store(x + g * W, load(x + g * W) + d);
                store(high + g * W, load(high + g * W) - d);
            }
        }
    }

    int bits_, root_;
    std::size_t count_;
    std::vector<Node> nodes_;
};

}  // namespace qdist::batch
