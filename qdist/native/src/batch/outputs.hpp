// What is read from the states of a row block: expectation values of Pauli sums and probabilities, and the bra of their
// derivatives.
//
// Strings that flip the same bits share their products: with a the amplitudes without the lowest flipped bit and b = a ^ flip,
// the value of a string is its coefficient times the signed sum of Re(conj(psi_b) psi_a), or of the imaginary part where the
// string has an odd number of Y; where nothing is flipped, of |psi_a|^2.
#pragma once
#include <map>
#include <vector>

#include "batch/walk.hpp"
#include "batch/walsh_tree.hpp"

namespace qdist::batch {

// A Pauli string of an output. The coefficient is that of the signed sum, so that it has a factor 2 where bits are flipped.
struct PauliTerm {
    Index flip, mask;
    bool imaginary;
    int output;
    double coefficient;
};

// Probabilities of some qubits, as outputs `first`, `first` + 1, ...: the walk goes through the values of the other qubits
// first, so that each 2^(n - count) steps belong to one output.
struct Marginal {
    int first, count;
    Walk walk;
};

class Outputs {
public:
    Outputs(int n, int num_outputs, const std::vector<PauliTerm>& terms, std::vector<Marginal> marginals)
        : n_(n), count_(num_outputs), marginals_(std::move(marginals)) {
        std::map<std::pair<Index, bool>, std::vector<PauliTerm>> by_flip;
        // The identity is always there: multiples of the ket are subtracted from the bra.
        by_flip[{0, false}];
        for (const PauliTerm& term : terms) by_flip[{term.flip, term.imaginary}].push_back(term);
        for (const auto& [key, strings] : by_flip) groups_.push_back(Strings(n, key.first, key.second, strings));
    }

    int num_bits() const { return n_; }
    int count() const { return count_; }

    // Vectors of working memory.
    std::size_t room() const { return std::size_t(2) << n_; }

    // values: `count` rows of numbers, lane by lane. room: room() vectors.
    template <class Real>
    void values(const Real* ket, Real* room, double* values, std::vector<LaneSums<Real>>& sums) const {
        constexpr std::size_t W = rows<Real>;
        const std::size_t size = std::size_t(1) << n_;
        std::fill_n(values, std::size_t(count_) * W, 0.0);
        for (const Strings& group : groups_) {
            if (group.links.empty()) continue;
            group.products(ket, size, room);
            sums.assign(group.tree.count(), {});
            group.tree.sums(room, room + (size * W), sums.data());
            for (const Link& link : group.links)
                for (std::size_t r = 0; r < W; ++r) values[link.output * W + r] += link.coefficient * sums[link.leaf].lane[r];
        }
        for (const Marginal& marginal : marginals_) {
            double* to = values + std::size_t(marginal.first) * W;
            marginal_steps(marginal, [&](std::size_t place, std::size_t output) {
                const Vec<Real> x = load(ket + place * W), y = load(ket + (size + place) * W);
                const Vec<Real> p = x * x + y * y;
                for (std::size_t r = 0; r < W; ++r) to[output * W + r] += double(p[r]);
            });
        }
    }

    // bra = sum of cotangents[k] O_k ket, less `shift` times the ket, lane by lane.
    template <class Real>
    void pull_back(const Real* ket, const double* cotangents, const double* shift, Real* bra, Real* room) const {
        constexpr std::size_t W = rows<Real>;
        const std::size_t size = std::size_t(1) << n_;
        std::vector<Vec<Real>, AlignedAllocator<Vec<Real>>> weights;
        for (const Strings& group : groups_) {
            std::vector<double> sum(group.tree.count() * W);
            for (const Link& link : group.links)
                for (std::size_t r = 0; r < W; ++r) sum[link.leaf * W + r] += link.coefficient * cotangents[link.output * W + r];
            if (group.flip == 0)
                for (std::size_t r = 0; r < W; ++r) sum[group.identity * W + r] -= shift[r];
            weights.resize(group.tree.count());
            for (std::size_t k = 0; k < weights.size(); ++k)
                for (std::size_t r = 0; r < W; ++r) weights[k][r] = Real(group.flip ? sum[k * W + r] / 2 : sum[k * W + r]);
            group.tree.transposed(weights.data(), room, room + size * W);
            group.add_products(ket, size, room, bra);
        }
        for (const Marginal& marginal : marginals_) {
            const double* from = cotangents + std::size_t(marginal.first) * W;
            marginal_steps(marginal, [&](std::size_t place, std::size_t output) {
                Vec<Real> weight;
                for (std::size_t r = 0; r < W; ++r) weight[r] = Real(from[output * W + r]);
                for (const std::size_t at : {place, size + place}) store(bra + at * W, load(bra + at * W) + weight * load(ket + at * W));
            });
        }
    }

private:
    // A result of a tree, times the coefficient, is part of an output.
    struct Link {
        int leaf, output;
        double coefficient;
    };

    // Those of one flip mask, with the real or the imaginary part.
    struct Strings {
        Strings(int n, Index flip_mask, bool odd, const std::vector<PauliTerm>& terms)
            : flip(flip_mask), imaginary(odd), pivot(flip_mask ? std::countr_zero(flip_mask) : n), tree(n, {}) {
            std::map<Index, int> leaves;
            std::vector<Index> masks;
            const auto leaf = [&](Index mask) {
                // Without the bit that is 0 in all steps.
                const Index packed = flip ? (mask & low_bits(pivot)) | (mask >> (pivot + 1)) << pivot : mask;
                const auto [at, added] = leaves.insert({packed, int(masks.size())});
                if (added) masks.push_back(packed);
                return at->second;
            };
            for (const PauliTerm& term : terms) links.push_back({leaf(term.mask), term.output, term.coefficient});
            if (!flip) identity = leaf(0);
            tree = WalshTree(flip ? n - 1 : n, masks);
        }

        template <class Real>
        void products(const Real* ket, std::size_t size, Real* out) const {
            constexpr std::size_t W = rows<Real>;
            if (flip == 0) {
                for (std::size_t s = 0; s < size; ++s) {
                    const Vec<Real> x = load(ket + s * W), y = load(ket + (size + s) * W);
                    store(out + s * W, x * x + y * y);
                }
                return;
            }
            for (std::size_t g = 0; g < size / 2; ++g) {
                const std::size_t a = insert_zero(g, pivot), b = a ^ flip;
                const Vec<Real> ar = load(ket + a * W), ai = load(ket + (size + a) * W), br = load(ket + b * W), bi = load(ket + (size + b) * W);
                store(out + g * W, imaginary ? br * ai - bi * ar : br * ar + bi * ai);
            }
        }

        // Group number 0 is the one that flips nothing, which sets the bra; the others add to it.
        template <class Real>
        void add_products(const Real* ket, std::size_t size, const Real* weights, Real* bra) const {
            constexpr std::size_t W = rows<Real>;
            if (flip == 0) {
                for (std::size_t s = 0; s < size; ++s) {
                    const Vec<Real> w = load(weights + s * W);
                    store(bra + s * W, w * load(ket + s * W));
                    store(bra + (size + s) * W, w * load(ket + (size + s) * W));
                }
                return;
            }
            for (std::size_t g = 0; g < size / 2; ++g) {
                const std::size_t a = insert_zero(g, pivot), b = a ^ flip;
                const Vec<Real> w = load(weights + g * W);
                const Vec<Real> ar = load(ket + a * W), ai = load(ket + (size + a) * W), br = load(ket + b * W), bi = load(ket + (size + b) * W);
                // Real: b gains w psi_a, a gains w psi_b; imaginary: -i w psi_a and i w psi_b.
                const Vec<Real> to_ar = imaginary ? -bi : br, to_ai = imaginary ? br : bi, to_br = imaginary ? ai : ar, to_bi = imaginary ? -ar : ai;
                store(bra + a * W, load(bra + a * W) + w * to_ar);
                store(bra + (size + a) * W, load(bra + (size + a) * W) + w * to_ai);
                store(bra + b * W, load(bra + b * W) + w * to_br);
                store(bra + (size + b) * W, load(bra + (size + b) * W) + w * to_bi);
            }
        }

        Index flip;
        bool imaginary;
        int pivot;
        WalshTree tree;
        std::vector<Link> links;
        int identity = 0;
    };

    template <class Step>
    void marginal_steps(const Marginal& marginal, Step step) const {
        const int inside = n_ - marginal.count;
        std::size_t g = 0;
        for (const std::uint32_t high : marginal.walk.outer)
            for (const std::uint32_t low : marginal.walk.inner) step(high ^ low, g++ >> inside);
    }

    int n_, count_;
    std::vector<Strings> groups_;
    std::vector<Marginal> marginals_;
};

}  // namespace qdist::batch
