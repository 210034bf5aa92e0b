// Lazy reordering at one level: which gates run when only `close` of the qubits can be mixed at a time.
#pragma once
#include <algorithm>
#include <bit>
#include <vector>

#include "actions.hpp"

namespace qdist {

struct Scheduled {
    Mask close;
    std::vector<int> gates;
};

// Which gates are held up while the earlier ones that do not run are still to come.
struct Blocked {
    Mask any = 0, for_x = 0, for_z = 0;

    bool stops(const Action& a) const {
        return ((a.mixes & ~a.x_like) & any) || (a.x_like & for_x) || (a.z_like & for_z);
    }
    void add(const Action& a) {
        const Mask plain = a.mixes & ~a.x_like;
        any |= a.mixes | a.z_like;
        for_x |= plain | a.z_like;
        for_z |= a.mixes;
    }
};

class Scheduler {
public:
    // forced: qubits that are close in every stage.
    Scheduler(const std::vector<Action>& gates, int num_qubits, int close, Mask forced)
        : gates_(gates), everything_(num_qubits >= 64 ? ~Mask(0) : (Mask(1) << num_qubits) - 1), close_(close), forced_(forced) {
        for (int g = 0; g < int(gates.size()); ++g) remaining_.push_back(g);
    }

    std::vector<Scheduled> run() {
        std::vector<Scheduled> stages;
        while (!remaining_.empty()) {
            Scheduled stage{choose(), {}};
            std::vector<int> later;
            Blocked blocked;
            for (int g : remaining_) {
                if ((gates_[g].mixes & ~stage.close) || blocked.stops(gates_[g])) {
                    blocked.add(gates_[g]);
                    later.push_back(g);
                } else
                    stage.gates.push_back(g);
            }
            remaining_ = std::move(later);
            stages.push_back(std::move(stage));
        }
        return stages;
    }

private:
    // The weight of the gates that run when these qubits are close.
    double gain(Mask close) const {
        double sum = 0;
        Blocked blocked;
        for (int g : remaining_) {
            const Action& a = gates_[g];
            if ((a.mixes & ~close) || blocked.stops(a)) {
                blocked.add(a);
                if (blocked.any == everything_ && blocked.for_z == everything_) break;
            } else
                sum += a.weight;
        }
        return sum;
    }

    // The mixed qubits of the first gate that waits for nothing but qubits that are not close.
    Mask first_wanted(Mask close) const {
        Blocked blocked;
        for (int g : remaining_) {
            const Action& a = gates_[g];
            if (blocked.stops(a) || (a.mixes & ~close)) {
                if (!blocked.stops(a)) return a.mixes;
                blocked.add(a);
            }
        }
        return 0;
    }

    Mask choose() const {
        Mask close = forced_;
        // A gate wider than the level brings its own room.
        const Mask first = first_wanted(close);
        const int room = std::max(close_, std::popcount(forced_ | first));
        if (std::popcount(close | first) > close_) return close | first;
        double best = gain(close);
        while (std::popcount(close) < room) {
            Mask add = 0;
            double best_rate = 0;
            for (Mask rest = everything_ & ~close; rest; rest &= rest - 1) {
                const Mask q = rest & -rest;
                const double rate = gain(close | q) - best;
                if (rate > best_rate) best_rate = rate, add = q;
            }
            // What the first waiting gate wants may be several qubits, none of which helps alone.
            const Mask wanted = first_wanted(close) & ~close;
            if (wanted && std::popcount(close | wanted) <= room) {
                const double rate = (gain(close | wanted) - best) / std::popcount(wanted);
                if (!add || rate > best_rate) add = wanted;
            }
            if (!add) add = (everything_ & ~close) & -(everything_ & ~close);
            if (!add) break;
            close |= add;
            best = gain(close);
        }
        return improved(close, best);
    }

    // Swaps one close qubit for another as long as that lets more gates run.
    Mask improved(Mask close, double best) const {
        for (int round = 0; round < 8; ++round) {
            Mask better = close;
            for (Mask out = close & ~forced_; out; out &= out - 1)
                for (Mask in = everything_ & ~close; in; in &= in - 1) {
                    const Mask tried = (close & ~(out & -out)) | (in & -in);
                    const double g = gain(tried);
                    if (g > best) best = g, better = tried;
                }
            if (better == close) break;
            close = better;
        }
        return close;
    }

    const std::vector<Action>& gates_;
    Mask everything_;
    int close_;
    Mask forced_;
    std::vector<int> remaining_;
};

}  // namespace qdist
