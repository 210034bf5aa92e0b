// Lazy reordering at one level: which gates run when only `close` of the qubits can be mixed at a time.
#pragma once
#include <algorithm>
#include <bit>
#include <numeric>
#include <utility>
#include <vector>

#include "base/bits.hpp"
#include "search/close_sets.hpp"
#include "search/commute.hpp"

namespace qdist {

struct Scheduled {
    Mask close;
    std::vector<int> gates;
};

class Scheduler {
public:
    // forced: qubits that are close in every stage.
    Scheduler(const std::vector<Action>& gates, int num_qubits, int close, Mask forced)
        : gates_(gates), qubits_(low_bits(num_qubits)), close_(close), forced_(forced), remaining_(gates.size()) {
        std::iota(remaining_.begin(), remaining_.end(), 0);
    }

    std::vector<Scheduled> run() {
        std::vector<Scheduled> stages;
        while (!remaining_.empty()) stages.push_back(taken(choose()));
        return stages;
    }

    // The same where qubits change places between stages: those that are forced are close in the first stage, and as many that
    // are close in one stage, whichever they are, are close in the next.
    std::vector<Scheduled> run_moving() {
        std::vector<Scheduled> stages;
        const int kept = std::popcount(forced_);
        while (!remaining_.empty()) {
            stages.push_back(taken(choose()));
            forced_ = 0, kept_ = kept, before_ = stages.back().close;
        }
        return stages;
    }

    // Stages with these close qubits, in which each gate runs as early as it can.
    std::vector<Scheduled> run_with(const std::vector<Mask>& sets) {
        std::vector<Scheduled> stages;
        for (Mask close : sets) stages.push_back(taken(close));
        return stages;
    }

private:
    // The stage of all that can run when these qubits are close.
    Scheduled taken(Mask close) {
        Scheduled stage{close, {}};
        std::vector<int> later;
        each(
            close, [&](int g) { stage.gates.push_back(g); },
            [&](int g, bool, const Waiting&) {
                later.push_back(g);
                return true;
            });
        remaining_ = std::move(later);
        return stage;
    }

    // Whether a set that has these qubits, and is full, can have enough of those that were close before.
    bool may(Mask close) const { return std::popcount(close) + std::max(0, kept_ - std::popcount(close & before_)) <= close_; }

    // Calls runs(g) for each gate that can run when these qubits are close, in order, and waits(g, whether earlier ones
    // hold it up, all that wait) for the others, until that returns false.
    template <class Runs, class Waits>
    void each(Mask close, Runs runs, Waits waits) const {
        Waiting waiting;
        for (int g : remaining_) {
            const Action& a = gates_[g];
            const bool stopped = waiting.stop(a);
            if (!stopped && !(a.mixes & ~close)) {
                runs(g);
                continue;
            }
            waiting.add(a);
            if (!waits(g, stopped, waiting)) return;
        }
    }

    // The weight of the gates that run when these qubits are close.
    double gain(Mask close) const {
        double sum = 0;
        each(
            close, [&](int g) { sum += gates_[g].weight; },
            [&](int, bool, const Waiting& waiting) { return !waiting.stop_all(qubits_); });
        return sum;
    }

    // What the first gate mixes that waits for nothing but close qubits.
    Mask first_wanted(Mask close) const {
        Mask wanted = 0;
        each(
            close, [](int) {},
            [&](int g, bool stopped, const Waiting&) {
                if (!stopped) wanted = gates_[g].mixes;
                return stopped;
            });
        return wanted;
    }

    Mask choose() const {
        // A gate wider than the level brings its own room.
        const Mask first = first_wanted(forced_);
        if (std::popcount(forced_ | first) > close_) return forced_ | first;
        return greedy_close(
            forced_, qubits_, close_, [&](Mask close) { return gain(close); }, [&](Mask close) { return first_wanted(close); },
            [&](Mask close) { return may(close); });
    }

    const std::vector<Action>& gates_;
    Mask qubits_;
    int close_;
    Mask forced_;
    std::vector<int> remaining_;
    // So many of those that were close before must be close again.
    int kept_ = 0;
    Mask before_ = 0;
};

}  // namespace qdist
