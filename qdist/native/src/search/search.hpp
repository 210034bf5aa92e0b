// The network level: sets of close qubits, one a stage, such that the stages are few.
//
// In a stage run all gates whose *needs* are close: what they mix, and what is mixed before them by gates they may not
// pass. To run more is never worse, so what counts is which gates are left. The search works from both ends of the
// circuit: layer a of the forward side holds what can be left after a stages, layer c of the backward side what can be
// left before the last c. What is left on both sides must fit into the stages between, of which two are found exactly:
// the second has to mix what the far qubits of the first hold up, and that is a union of one set a far qubit.
//
// Layers hold the `width` best states, so width 1 is the greedy plan of the circuit and of its reverse; width grows until
// the plan is known to be the best or the work is used up. Where all sets of close qubits are looked at and no layer is
// cut, the plan has the fewest stages there are.
#pragma once
#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "search/close_sets.hpp"
#include "search/commute.hpp"

namespace qdist {

class Search {
public:
    // start: the close qubits of a first stage that is there anyway. limit: a deterministic budget in visits of gates, not
    // in time, so that all ranks stop at the same node; once it is used up no wider search is begun.
    Search(const std::vector<Action>& gates, int close, std::optional<Mask> start, std::int64_t limit)
        : gates_(gates), close_(close), work_{0, limit, false}, words_((gates.size() + 63) / 64) {
        State all{Bits(words_), 0, -1, 0, 0};
        for (std::size_t g = 0; g < gates.size(); ++g) {
            all.left[g / 64] |= Mask(1) << g % 64;
            all.mixed |= gates[g].mixes;
            all.weight += weight(gates[g]);
        }
        sides_[1].root = all;
        if (start) all = after(all, *start, -1, needs(all.left, false));
        sides_[0].root = all;
    }

    // Plans with the fewest stages found: for each stage after the start's a set of at most `close` qubits.
    std::vector<std::vector<Mask>> run() {
        const State& root = sides_[0].root;
        if (std::popcount(root.mixed) <= close_) {
            const bool done = std::all_of(root.left.begin(), root.left.end(), [](Mask m) { return m == 0; });
            return {done ? std::vector<Mask>{} : std::vector<Mask>{root.mixed}};
        }
        greedy();
        work_.bounded = true;
        // As many stages, joined from both ends: perhaps with fewer swaps.
        reached(int(fewest()) - 2, 1);
        for (std::size_t width = 1; !work_.over() && !attempt(width); width *= 4) {
        }
        return best_;
    }

    std::int64_t work() const { return work_.done; }

private:
    using Bits = std::vector<Mask>;

    struct State {
        Bits left;            // gates that have not run
        Mask close;           // of the stage that led here
        int parent;           // in the layer before
        Mask mixed;           // by what is left
        std::int64_t weight;  // of what is left
    };

    struct Side {
        State root;
        std::vector<std::vector<State>> layers;
        std::vector<bool> full;  // whether nothing was cut up to this layer
    };

    // Calls f for each gate, in order or against it, until it returns false.
    template <class F>
    static void each(const Bits& bits, bool backward, F f) {
        const std::size_t words = bits.size();
        for (std::size_t k = 0; k < words; ++k) {
            const std::size_t w = backward ? words - 1 - k : k;
            for (Mask m = bits[w]; m;) {
                const int b = backward ? 63 - std::countl_zero(m) : std::countr_zero(m);
                if (!f(w * 64 + b)) return;
                m &= ~(Mask(1) << b);
            }
        }
    }

    static std::int64_t weight(const Action& a) { return std::popcount(a.mixes); }

    // What each gate that is left needs close in order to run now; all qubits where that is more than can be close.
    std::vector<Mask> needs(const Bits& left, bool backward) {
        std::vector<Mask> result(gates_.size(), ~Mask(0));
        Frontier<Mask> frontier;
        const auto too_many = [&](Mask m) { return std::popcount(m) > close_; };
        // Qubits on which some gate may still run: when there are none, all that follows is held up.
        Mask open = sides_[1].root.mixed;
        each(left, backward, [&](std::size_t g) {
            const Action& a = gates_[g];
            Mask m = a.mixes;
            frontier.before(a, [&](Mask earlier) { m |= earlier; });
            if (too_many(m)) m = ~Mask(0);
            frontier.add(a, [&](Mask& own) { own |= m; });
            if (m == ~Mask(0))
                each_bit((a.mixes | a.z_like) & open, [&](int q) {
                    Mask for_x = 0, for_z = 0;
                    frontier.before<like_x>(q, [&](Mask earlier) { for_x |= earlier; });
                    frontier.before<like_z>(q, [&](Mask earlier) { for_z |= earlier; });
                    if (too_many(for_x) && too_many(for_z)) open &= ~(Mask(1) << q);
                });
            result[g] = m;
            work_.done += 4;
            return open != 0;
        });
        return result;
    }

    State after(const State& s, Mask close, int parent, const std::vector<Mask>& needs) {
        State next{s.left, close, parent, 0, 0};
        each(s.left, false, [&](std::size_t g) {
            if (!(needs[g] & ~close))
                next.left[g / 64] &= ~(Mask(1) << g % 64);
            else
                next.mixed |= gates_[g].mixes, next.weight += weight(gates_[g]);
            ++work_.done;
            return true;
        });
        return next;
    }

    // The best set of each stage, one after the other, from either end.
    void greedy() {
        for (int which : {0, 1}) {
            Side& side = sides_[which];
            side.layers = {{side.root}}, side.full = {true};
            int last = 0;
            while (std::popcount(side.layers[last][0].mixed) > close_) deepen(which, ++last, 1);
            std::vector<Mask> sets = path(which, last, 0);
            sets.insert(which ? sets.begin() : sets.end(), side.layers[last][0].mixed);
            note(std::move(sets));
        }
    }

    void note(std::vector<Mask> sets) {
        if (!best_.empty() && sets.size() < fewest()) best_.clear();
        if (best_.empty() || sets.size() == fewest()) best_.push_back(std::move(sets));
    }

    std::size_t fewest() const { return best_[0].size(); }

    // The sets that led to a state, first to last.
    std::vector<Mask> path(int which, int layer, int number) const {
        std::vector<Mask> sets;
        for (; layer > 0; --layer) {
            const State& s = sides_[which].layers[layer][number];
            sets.push_back(s.close);
            number = s.parent;
        }
        if (which == 0) std::reverse(sets.begin(), sets.end());
        return sets;
    }

    // Looks for fewer stages than known, with layers of this width. True if there is nothing more to look for.
    bool attempt(std::size_t width) {
        for (Side& side : sides_) side.layers = {{side.root}}, side.full = {true};
        // Two stages are the fewest here.
        while (fewest() > 2) {
            refuted_ = false;
            if (reached(int(fewest()) - 3, width)) continue;
            return refuted_ || work_.over();
        }
        return true;
    }

    // Whether so many stages and two between them do; `refuted_` if it is certain that they do not.
    bool reached(int sum, std::size_t width) {
        for (int k = 0; k <= sum; ++k) {
            // From the middle outwards: halves have the fewest states.
            const int a = (sum + (k % 2 ? k + 1 : -k)) / 2;
            bool full = deepen(0, a, width) & deepen(1, sum - a, width);
            if (join(a, sum - a, width, full)) return true;
            if ((refuted_ = full) || work_.over()) return false;
        }
        return false;
    }

    // Makes layers up to this one; false if one was cut.
    bool deepen(int which, int layer, std::size_t width) {
        Side& side = sides_[which];
        while (int(side.layers.size()) <= layer) {
            bool full = side.full.back();
            std::vector<State> next;
            const std::vector<State>& last = side.layers.back();
            for (int p = 0; p < int(last.size()) && !work_.over(); ++p) {
                const std::vector<Mask> needed = needs(last[p].left, which);
                for (Mask close : choices(last[p], needed, width, full)) next.push_back(after(last[p], close, p, needed));
            }
            side.layers.push_back(best_of(std::move(next), width, full));
            side.full.push_back(full && !work_.over());
        }
        return side.full[layer];
    }

    // The states with least left, without those in which another's gates are left too.
    std::vector<State> best_of(std::vector<State> states, std::size_t width, bool& full) {
        std::sort(states.begin(), states.end(),
                  [](const State& a, const State& b) { return std::tie(a.weight, a.left) < std::tie(b.weight, b.left); });
        std::vector<State> kept;
        for (State& s : states) {
            const bool worse = std::any_of(kept.begin(), kept.end(), [&](const State& k) {
                for (std::size_t w = 0; w < words_; ++w)
                    if (k.left[w] & ~s.left[w]) return false;
                return true;
            });
            work_.done += std::int64_t(kept.size());
            if (worse) continue;
            if (kept.size() == width) {
                full = false;
                break;
            }
            kept.push_back(std::move(s));
        }
        return kept;
    }

    // Sets of close qubits that let most of what is left run.
    std::vector<Mask> choices(const State& s, const std::vector<Mask>& needed, std::size_t width, bool& full) {
        std::vector<Need> list;
        each(s.left, false, [&](std::size_t g) {
            if (needed[g] != ~Mask(0) && gates_[g].mixes) list.push_back({needed[g], weight(gates_[g])});
            return true;
        });
        work_.done += std::int64_t(gates_.size()) / 8;
        return CloseSets(std::move(list), s.mixed, close_, work_).best(width, full);
    }

    // Looks for two stages that join a state of each side; the best pairs first. `full` becomes false if some were not
    // looked at.
    bool join(int a, int c, std::size_t width, bool& full) {
        const std::vector<State>&front = sides_[0].layers[a], &back = sides_[1].layers[c];
        for (std::size_t i = 0; i < front.size(); ++i) {
            const std::vector<Mask> needed = needs(front[i].left, false);
            for (std::size_t j = 0; j < back.size(); ++j) {
                if ((i + 1) * (j + 1) > 4 * width || work_.over()) {
                    full = false;
                    break;
                }
                if (!meet(front[i], back[j], needed, full)) continue;
                std::vector<Mask> sets = path(0, a, int(i));
                const std::vector<Mask> rest = path(1, c, int(j));
                sets.insert(sets.end(), between_.begin(), between_.end());
                sets.insert(sets.end(), rest.begin(), rest.end());
                note(std::move(sets));
                return true;
            }
        }
        return false;
    }

    // Whether two stages, or one, do all that is left on both sides; they are then `between_`.
    bool meet(const State& front, const State& back, const std::vector<Mask>& needed, bool& full) {
        Mask mixed = 0, later = 0;
        std::array<Mask, 64> held{};
        // From the end, where gates are that cannot run in the first of two stages whatever is close then.
        for (std::size_t w = words_; w-- > 0 && std::popcount(later) <= close_;)
            each_bit(front.left[w] & back.left[w], [&](int b) {
                const std::size_t g = w * 64 + b;
                const Mask m = gates_[g].mixes;
                mixed |= m;
                if (needed[g] == ~Mask(0))
                    later |= m;
                else if (m)
                    each_bit(needed[g], [&](int q) { held[q] |= m; });
                work_.done += 8;
            });
        if (std::popcount(later) > close_) return false;
        if (std::popcount(mixed) <= close_) {
            between_ = {mixed};
            return true;
        }
        const int far = std::popcount(front.mixed) - close_;
        int nodes = 0;
        const std::optional<Mask> chosen = held_by(held, front.mixed, far, later, 0, nodes);
        work_.done += std::int64_t(nodes) * std::popcount(front.mixed);
        if (nodes > most_nodes) full = false;
        if (!chosen) return false;
        Mask second = later;
        each_bit(*chosen, [&](int q) { second |= held[q]; });
        between_ = {front.mixed & ~*chosen, second};
        return true;
    }

    // `far` qubits or more of `from` that together hold up at most close_ qubits, `wide` of which are already; none of
    // `passed`, with which all has been tried.
    std::optional<Mask> held_by(const std::array<Mask, 64>& held, Mask from, int far, Mask wide, Mask passed, int& nodes) {
        Mask free = 0, open = 0;
        each_bit(from, [&](int q) {
            if (!(held[q] & ~wide))
                free |= Mask(1) << q;
            else if (std::popcount(wide | held[q]) <= close_)
                open |= Mask(1) << q;
        });
        if (free & passed) return {};
        if (std::popcount(free) >= far) return free;
        open &= ~passed;
        while (open && std::popcount(free | open) >= far) {
            if (++nodes > most_nodes) return {};
            int least = -1;
            each_bit(open, [&](int q) {
                if (least < 0 || std::popcount(held[q] & ~wide) < std::popcount(held[least] & ~wide)) least = q;
            });
            if (auto found = held_by(held, from, far, wide | held[least], passed, nodes)) return found;
            open &= ~(Mask(1) << least);
            passed |= Mask(1) << least;
        }
        return {};
    }

    static constexpr int most_nodes = 5000;

    const std::vector<Action>& gates_;
    int close_;
    Work work_;  // the greedy plans are always made
    std::size_t words_;
    Side sides_[2];
    std::vector<Mask> between_;
    std::vector<std::vector<Mask>> best_;
    bool refuted_ = false;
};

}  // namespace qdist
