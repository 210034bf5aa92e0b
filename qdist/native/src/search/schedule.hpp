// Lazy reordering at one level: which gates run when only `close` of the qubits can be mixed at a time.
#pragma once
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
        while (!remaining_.empty()) {
            Scheduled stage{choose(), {}};
            std::vector<int> later;
            each(
                stage.close, [&](int g) { stage.gates.push_back(g); },
                [&](int g, bool, const Waiting&) {
                    later.push_back(g);
                    return true;
                });
            remaining_ = std::move(later);
            stages.push_back(std::move(stage));
        }
        return stages;
    }

private:
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
            forced_, qubits_, close_, [&](Mask close) { return gain(close); }, [&](Mask close) { return first_wanted(close); });
    }

    const std::vector<Action>& gates_;
    Mask qubits_;
    int close_;
    Mask forced_;
    std::vector<int> remaining_;
};

}  // namespace qdist
