// Plans that are compared: found for weights of gates that differ by chance, and what each of them costs.
#pragma once
#include <bit>
#include <cmath>
#include <cstdint>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "base/pool.hpp"
#include "search/schedule.hpp"

namespace qdist {

// What stages cost, where reading and writing the state costs 1 and a unit of a gate's weight `work`. support: what the state
// depends on before the first stage, which amplitudes with a 1 elsewhere do not have; those that still are zero cost nothing.
inline double cost_of(const std::vector<Scheduled>& stages, const std::vector<Action>& gates, int num_qubits, Mask support, double work) {
    double sum = 0;
    for (const Scheduled& stage : stages) {
        support |= stage.close;
        double cost = 1;
        for (int g : stage.gates) cost += work * gates[g].weight;
        sum += std::ldexp(cost, std::popcount(support) - num_qubits);
    }
    return sum;
}

// The gates as they are, and with weights from 0 to 2 times theirs for every number but 0.
inline std::vector<Action> reweighted(std::vector<Action> gates, int number) {
    std::uint64_t state = number;
    if (number)
        for (Action& gate : gates) {
            // SplitMix64.
            std::uint64_t z = state += 0x9e3779b97f4a7c15;
            z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
            z = (z ^ z >> 27) * 0x94d049bb133111eb;
            gate.weight *= 2 * (double((z ^ z >> 31) >> 11) * 0x1p-53);
        }
    return gates;
}

// What costs least of plan(0) ... plan(tries - 1), of several the first. Threads share the tries; the result is the same for any
// number of them.
template <class Plan, class Cost>
std::vector<Scheduled> cheapest(int tries, Plan plan, Cost cost) {
    struct Tried {
        double cost;
        int number;
        std::vector<Scheduled> stages;
        bool is_better(const Tried& other) const { return cost < other.cost || (cost == other.cost && number < other.number); }
    };
    std::mutex mutex;
    std::optional<Tried> best;
    run_on_threads(max_threads(), tries, [&](Pieces& pieces) {
        std::optional<Tried> own;
        for (std::size_t k = pieces.next(); k != Pieces::none; k = pieces.next()) {
            std::vector<Scheduled> found = plan(int(k));
            const double needed = cost(found);
            if (Tried tried{needed, int(k), std::move(found)}; !own || tried.is_better(*own)) own.emplace(std::move(tried));
        }
        const std::lock_guard lock(mutex);
        if (own && (!best || own->is_better(*best))) best = std::move(own);
    });
    return std::move(best->stages);
}

}  // namespace qdist
