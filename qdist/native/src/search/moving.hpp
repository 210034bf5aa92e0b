// Stages between which qubits change places, so that those at the lowest positions, which every stage holds, are ones it needs.
//
// A stage that holds some positions can leave its qubits at any of them. So what is at the lowest positions may change from
// stage to stage: of the qubits of a stage as many as there are lowest positions must be among those of the next. At the end all
// qubits have their own places; at the beginning they may have any.
#pragma once
#include <array>
#include <bit>
#include <utility>
#include <vector>

#include "search/tries.hpp"

namespace qdist {

class MovingScheduler {
public:
    // low: the qubits whose own places are the lowest ones. support: what the state depends on before the first stage, which
    // amplitudes with a 1 elsewhere do not have.
    MovingScheduler(const std::vector<Action>& gates, int num_qubits, int close, Mask low, Mask support)
        : gates_(gates), num_qubits_(num_qubits), close_(close), low_(low), support_(support), joined_(joined(gates)) {}

    // The stages that cost least of so many that are found for weights of gates that differ by chance. work: what a unit of
    // weight costs, where reading and writing the state costs 1.
    std::vector<Scheduled> run(int tries, double work) const {
        return cheapest(
            tries, [&](int number) { return without_empty(Scheduler(gates_, num_qubits_, close_, 0).run_with(sets(number))); },
            [&](const std::vector<Scheduled>& found) { return cost_of(found, gates_, num_qubits_, support_, work); });
    }

private:
    // Close qubits of stages in which all gates can run, searched from the end.
    std::vector<Mask> sets(int number) const {
        const std::vector<Action> reversed = reweighted({joined_.rbegin(), joined_.rend()}, number);
        std::vector<Mask> result;
        for (const Scheduled& stage : Scheduler(reversed, num_qubits_, close_, low_).run_moving()) result.insert(result.begin(), stage.close);
        return result;
    }

    // Stages without gates are left out, where those around them have enough qubits in common.
    std::vector<Scheduled> without_empty(std::vector<Scheduled> stages) const {
        for (std::size_t k = stages.size(); k-- > 0;) {
            if (!stages[k].gates.empty()) continue;
            const Mask after = k + 1 < stages.size() ? stages[k + 1].close : low_;
            if (k == 0 || std::popcount(stages[k - 1].close & after) >= std::popcount(low_)) stages.erase(stages.begin() + k);
        }
        return stages;
    }

    // The same gates, where those that are close whenever another one is are a part of it: gates on qubits that the last one before
    // mixes all of, and gates on one qubit that the next one mixes.
    static std::vector<Action> joined(const std::vector<Action>& gates) {
        std::vector<Action> result;
        std::array<double, 64> waiting{};
        std::array<int, 64> last;
        last.fill(-1);
        // Adds to the last gate on these qubits, if there is such a one.
        const auto joins = [&](Mask qubits, double weight) {
            const int number = last[std::countr_zero(qubits)];
            if (number < 0 || qubits & ~result[number].mixes) return false;
            bool same = true;
            each_bit(qubits, [&](int q) { same &= last[q] == number; });
            if (same) result[number].weight += weight, result[number].x_like &= ~qubits;
            return same;
        };
        const auto alone = [&](int q) {
            const double weight = std::exchange(waiting[q], 0);
            if (weight == 0 || joins(Mask(1) << q, weight)) return;
            last[q] = int(result.size());
            result.push_back({Mask(1) << q, 0, 0, weight});
        };
        for (Action gate : gates) {
            const Mask qubits = gate.mixes | gate.z_like;
            if (std::popcount(qubits) == 1 && gate.mixes && gate.weight > 0) {
                waiting[std::countr_zero(qubits)] += gate.weight;
                continue;
            }
            bool waits = false;
            each_bit(qubits, [&](int q) { waits |= waiting[q] > 0; });
            if (qubits && !waits && joins(qubits, gate.weight)) continue;
            each_bit(qubits, [&](int q) {
                if (!(gate.mixes >> q & 1)) return alone(q);
                if (waiting[q] > 0) gate.weight += std::exchange(waiting[q], 0), gate.x_like &= ~(Mask(1) << q);
            });
            each_bit(qubits, [&](int q) { last[q] = int(result.size()); });
            result.push_back(gate);
        }
        for (int q = 0; q < 64; ++q) alone(q);
        return result;
    }

    const std::vector<Action>& gates_;
    int num_qubits_, close_;
    Mask low_, support_;
    std::vector<Action> joined_;
};

}  // namespace qdist
