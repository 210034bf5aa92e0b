// Stages whose number is settled: which gates run in which, and close qubits that change as little as possible.
#pragma once
#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "base/bits.hpp"
#include "search/close_sets.hpp"
#include "search/commute.hpp"

namespace qdist {

class Stages {
public:
    // sets: the most that each stage may mix; together they must let every gate run. fixed: the first of them is where
    // qubits are now, and stays.
    Stages(const std::vector<Action>& gates, int num_qubits, int close, std::vector<Mask> sets, bool fixed)
        : gates_(gates), sets_(std::move(sets)), fixed_(fixed), when_(gates.size()) {
        place(sets_);
        std::vector<Mask> wanted(sets_.size());
        for (std::size_t g = 0; g < gates_.size(); ++g) wanted[when_[g]] |= gates_[g].mixes;
        fill_close(sets_, wanted, low_bits(num_qubits), close, fixed_);
    }

    // Takes swaps away as long as visits of gates are left: a qubit that comes takes the place of one that leaves for
    // longer, or not at all.
    void narrow(std::int64_t limit) {
        work_ = 0;
        for (bool better = true; better;) {
            better = false;
            for (std::size_t k = 0; k + 1 < sets_.size(); ++k) {
                const Mask coming = sets_[k + 1] & ~sets_[k], leaving = sets_[k] & ~sets_[k + 1];
                for (Mask in = coming; in; in &= in - 1)
                    for (Mask out = leaving; out; out &= out - 1) {
                        const Mask i = in & -in, o = out & -out;
                        if (!(sets_[k + 1] & ~sets_[k] & i) || !(sets_[k] & ~sets_[k + 1] & o)) continue;
                        better = earlier(k, i, o) || later(k + 1, i, o) || better;
                        if (work_ > limit) {
                            place(sets_);
                            return;
                        }
                    }
            }
        }
        place(sets_);
    }

    // How many qubits come, over all stages.
    int swaps() const { return swaps(sets_); }

    const std::vector<Mask>& sets() const { return sets_; }

    // The stage of each gate.
    const std::vector<int>& when() const { return when_; }

    std::int64_t work() const { return work_; }

private:
    // Puts every gate into the first stage it can run in; false if there is none for one of them.
    bool place(const std::vector<Mask>& sets) {
        Frontier<int> stage;
        for (std::size_t g = 0; g < gates_.size(); ++g) {
            const Action& a = gates_[g];
            int k = 0;
            stage.before(a, [&](int earlier) { k = std::max(k, earlier); });
            work_ += 4;
            while (k < int(sets.size()) && (a.mixes & ~sets[k])) ++k, ++work_;
            if (k == int(sets.size())) return false;
            stage.add(a, [&](int& own) { own = std::max(own, k); });
            when_[g] = k;
        }
        return true;
    }

    // `in` in the place of `out` in stage `last` and those before it, as long as `out` has been there.
    bool earlier(std::size_t last, Mask in, Mask out) {
        std::vector<Mask> sets = sets_;
        for (std::size_t k = last + 1; k-- > std::size_t(fixed_) && (sets_[k] & out) && !(sets_[k] & in);) sets[k] ^= in | out;
        return take(std::move(sets));
    }

    // `out` in the place of `in` in stage `first` and those after it, as long as `in` stays.
    bool later(std::size_t first, Mask in, Mask out) {
        std::vector<Mask> sets = sets_;
        for (std::size_t k = first; k < sets_.size() && (sets_[k] & in) && !(sets_[k] & out); ++k) sets[k] ^= in | out;
        return take(std::move(sets));
    }

    bool take(std::vector<Mask> sets) {
        if (swaps(sets) >= swaps(sets_) || !place(sets)) return false;
        sets_ = std::move(sets);
        return true;
    }

    static int swaps(const std::vector<Mask>& sets) {
        int sum = 0;
        for (std::size_t k = 0; k + 1 < sets.size(); ++k) sum += std::popcount(sets[k + 1] & ~sets[k]);
        return sum;
    }

    const std::vector<Action>& gates_;
    std::vector<Mask> sets_;
    bool fixed_;
    std::vector<int> when_;
    std::int64_t work_ = 0;
};

}  // namespace qdist
