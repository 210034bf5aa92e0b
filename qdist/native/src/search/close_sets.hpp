// How close qubits are chosen: greedily by what runs then (cache and registers), the best of many sets by what gates need
// (network), and places that are left by what is wanted next.
#pragma once
#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <limits>
#include <tuple>
#include <utility>
#include <vector>

#include "search/commute.hpp"

namespace qdist {

// Hill climbing: exchanges one element of the set for another, the best exchange first, as long as that is worth more. What
// is `fixed` stays. best: what the set is worth. may(set): whether it can be taken.
template <class Worth, class Gain, class May>
Mask climbed(Mask set, Mask fixed, Mask elements, Worth best, Gain gain, int rounds, May may) {
    for (Mask better = set; rounds > 0; --rounds, set = better) {
        each_bit(set & ~fixed, [&](int out) {
            each_bit(elements & ~set, [&](int in) {
                const Mask tried = (set & ~(Mask(1) << out)) | Mask(1) << in;
                if (!may(tried)) return;
                if (const Worth worth = gain(tried); worth > best) best = worth, better = tried;
            });
        });
        if (better == set) break;
    }
    return set;
}
template <class Worth, class Gain>
Mask climbed(Mask set, Mask fixed, Mask elements, Worth best, Gain gain, int rounds) {
    return climbed(set, fixed, elements, best, gain, rounds, [](Mask) { return true; });
}

// The forced qubits and others, `close` in all: one after the other that which lets most run, then better ones in their
// place. gain(set): the weight of what runs then. first_wanted(set): the qubits of the first gate that waits for them alone.
// may(set): whether a set with these qubits can be taken.
template <class Gain, class Wanted, class May>
Mask greedy_close(Mask forced, Mask qubits, int close, Gain gain, Wanted first_wanted, May may) {
    Mask set = forced;
    double best = gain(set);
    while (std::popcount(set) < close && (qubits & ~set)) {
        Mask add = 0, other = 0;
        double best_rate = 0;
        each_bit(qubits & ~set, [&](int q) {
            if (!may(set | Mask(1) << q)) return;
            if (!other) other = Mask(1) << q;
            const double rate = gain(set | Mask(1) << q) - best;
            if (rate > best_rate) best_rate = rate, add = Mask(1) << q;
        });
        // What the first waiting gate wants may be several qubits, none of which helps alone.
        const Mask wanted = first_wanted(set) & ~set;
        if (wanted && std::popcount(set | wanted) <= close && may(set | wanted)) {
            const double rate = (gain(set | wanted) - best) / std::popcount(wanted);
            if (!add || rate > best_rate) add = wanted;
        }
        set |= add ? add : other;
        best = gain(set);
    }
    return climbed(set, forced, qubits, best, gain, 8, may);
}

// Sets of stages, filled up to `close` qubits with those that are close already or will be wanted next (Belady's rule).
// wanted: what each stage mixes. Sets before stage `first` stay.
inline void fill_close(std::vector<Mask>& sets, const std::vector<Mask>& wanted, Mask qubits, int close, std::size_t first) {
    const auto soonest = [&](Mask from, std::size_t k) {
        for (; k < wanted.size(); ++k)
            if (wanted[k] & from) return wanted[k] & from & -(wanted[k] & from);
        return from & -from;
    };
    for (std::size_t k = first; k < sets.size(); ++k) {
        Mask set = wanted[k];
        for (Mask from : {k ? sets[k - 1] : qubits, qubits})
            while (std::popcount(set) < close && (from & ~set)) set |= soonest(from & ~set, k + 1);
        sets[k] = set;
    }
}

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
    CloseSets(std::vector<Need> needs, Mask mixed, int close, Work& work)
        : needs_(std::move(needs)), mixed_(mixed), close_(close), work_(work) {
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
        std::sort(found_.begin(), found_.end(),
                  [](const Choice& a, const Choice& b) { return std::tie(b.gain, a.close) < std::tie(a.gain, b.close); });
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

    void climb_from(Mask far) {
        const std::int64_t best = gain(far);
        found_.push_back({best, mixed_ & ~far});
        const auto noted = [&](Mask tried) {
            const std::int64_t worth = gain(tried);
            if (worth > 0) found_.push_back({worth, mixed_ & ~tried});
            return worth;
        };
        climbed(far, 0, mixed_, best, noted, std::numeric_limits<int>::max());
    }

    std::vector<Need> needs_;
    Mask mixed_;
    int close_;
    Work& work_;
    std::vector<Choice> found_;
};

}  // namespace qdist
