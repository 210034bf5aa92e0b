// One stage: sets of close qubits that let much run.
#pragma once
#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <tuple>
#include <utility>
#include <vector>

#include "actions.hpp"

namespace qdist {

// What was done so far, counted in visits of gates, and when to stop.
struct Work {
    std::int64_t done, limit;
    bool bounded;

    bool over() const { return bounded && done >= limit; }
};

// Qubits that some gates need close, and what it is worth to run them.
struct Need {
    Mask mask;
    std::int64_t weight;
};

class CloseSets {
public:
    // mixed: by all that is left.
    CloseSets(std::vector<Need> needs, Mask mixed, int close, Work& work) : needs_(std::move(needs)), mixed_(mixed), close_(close), work_(work) {
        // Equal needs become one.
        std::sort(needs_.begin(), needs_.end(), [](const Need& a, const Need& b) { return a.mask < b.mask; });
        std::size_t last = 0;
        for (std::size_t k = 1; k < needs_.size(); ++k) {
            if (needs_[k].mask == needs_[last].mask)
                needs_[last].weight += needs_[k].weight;
            else
                needs_[++last] = needs_[k];
        }
        if (!needs_.empty()) needs_.resize(last + 1);
        work_.done += 4 * std::int64_t(needs_.size());
    }

    // Up to `width` sets, those that are worth most first, each reduced to the qubits that it takes for that. None runs
    // only what another runs too. `full` becomes false if there may be more.
    std::vector<Mask> best(std::size_t width, bool& full) {
        const int far = std::popcount(mixed_) - close_;
        if (far <= 0) return {mixed_};
        if (subsets(std::popcount(mixed_), far, 64 * width) <= 64 * width)
            every(0, far);
        else {
            full = false;
            climb(width);
        }
        std::sort(found_.begin(), found_.end(), [](const Choice& a, const Choice& b) { return std::tie(b.gain, a.close) < std::tie(a.gain, b.close); });
        work_.done += 20 * std::int64_t(found_.size());
        std::vector<Mask> kept;
        Mask before = 0;
        for (const Choice& choice : found_) {
            if (std::exchange(before, choice.close) == choice.close) continue;
            Mask core = 0;
            for (const Need& n : needs_)
                if (!(n.mask & ~choice.close)) core |= n.mask;
            work_.done += std::int64_t(needs_.size() + kept.size());
            if (std::any_of(kept.begin(), kept.end(), [&](Mask k) { return !(core & ~k); }) && !work_.over()) continue;
            if (!kept.empty() && (kept.size() == width || work_.over())) {
                full = false;
                break;
            }
            kept.push_back(core);
        }
        return kept;
    }

private:
    struct Choice {
        std::int64_t gain;
        Mask close;
    };

    std::int64_t gain(Mask far) {
        std::int64_t sum = 0;
        for (const Need& n : needs_) sum += n.mask & far ? 0 : n.weight;
        work_.done += std::int64_t(needs_.size());
        return sum;
    }

    // How many subsets there are, or some number above `most`.
    static std::size_t subsets(int of, int size, std::size_t most) {
        std::size_t count = 1;
        for (int k = 0; k < std::min(size, of - size) && count <= most; ++k) count = count * (of - k) / (k + 1);
        return count;
    }

    // All sets: these far qubits, and so many more above them.
    void every(Mask far, int more) {
        if (work_.over()) return;
        if (more == 0) {
            found_.push_back({gain(far), mixed_ & ~far});
            return;
        }
        const Mask above = far ? ~((std::bit_floor(far) << 1) - 1) : ~Mask(0);
        each_bit(mixed_ & above, [&](int q) { every(far | Mask(1) << q, more - 1); });
    }

    // Sets on the way from a few first ones to better neighbours.
    void climb(std::size_t width) {
        climb_from(peeled(0));
        std::size_t starts = 1;
        each_bit(mixed_, [&](int q) {
            if (starts++ < width && !work_.over()) climb_from(peeled(Mask(1) << q));
        });
    }

    // Makes far, one by one, the qubit that holds up least.
    Mask peeled(Mask far) {
        while (std::popcount(mixed_ & ~far) > close_) {
            std::array<std::int64_t, 64> lost{};
            for (const Need& n : needs_)
                if (!(n.mask & far)) each_bit(n.mask, [&](int q) { lost[q] += n.weight; });
            work_.done += 8 * std::int64_t(needs_.size());
            int least = -1;
            each_bit(mixed_ & ~far, [&](int q) {
                if (least < 0 || lost[q] < lost[least]) least = q;
            });
            far |= Mask(1) << least;
        }
        return far;
    }

    // Changes one far qubit for another as long as more can run.
    void climb_from(Mask far) {
        std::int64_t best = gain(far);
        found_.push_back({best, mixed_ & ~far});
        for (Mask better = far;; far = better) {
            each_bit(far, [&](int out) {
                each_bit(mixed_ & ~far, [&](int in) {
                    const Mask tried = (far & ~(Mask(1) << out)) | Mask(1) << in;
                    const std::int64_t g = gain(tried);
                    if (g > 0) found_.push_back({g, mixed_ & ~tried});
                    if (g > best) best = g, better = tried;
                });
            });
            if (better == far) break;
        }
    }

    std::vector<Need> needs_;
    Mask mixed_;
    int close_;
    Work& work_;
    std::vector<Choice> found_;
};

}  // namespace qdist
