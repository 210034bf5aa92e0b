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

#include "actions.hpp"

namespace qdist {

class Search {
public:
    // start: the close qubits of a first stage that is there anyway. limit: visits of gates after which no wider search
    // is begun; what is done is counted, not timed, so that every rank finds the same.
    Search(const std::vector<Action>& gates, int close, std::optional<Mask> start, std::int64_t limit)
        : gates_(gates), close_(close), limit_(limit), words_((gates.size() + 63) / 64) {
        State all{Bits(words_), 0, -1, 0, 0};
        for (std::size_t g = 0; g < gates.size(); ++g) all.left[g / 64] |= Mask(1) << g % 64;
        measure(all);
        sides_[1].root = all;
        if (start) all = after(all, *start, -1, needs(all.left, false));
        sides_[0].root = all;
    }

    // The close qubits of each stage after the start's: sets of at most `close` qubits.
    std::vector<Mask> run() {
        if (std::popcount(sides_[0].root.mixed) <= close_) {
            if (std::any_of(sides_[0].root.left.begin(), sides_[0].root.left.end(), [](Mask m) { return m; }))
                best_ = {sides_[0].root.mixed};
            return best_;
        }
        greedy();
        greedy_ = false;
        for (std::size_t width = 1; !over() && !attempt(width); width *= 4) {
        }
        return best_;
    }

    std::int64_t work() const { return work_; }

private:
    using Bits = std::vector<Mask>;

    struct State {
        Bits left;         // gates that have not run
        Mask close;        // of the stage that led here
        int parent;        // in the layer before
        Mask mixed;        // by what is left
        std::int64_t weight;  // of what is left
    };

    struct Side {
        State root;
        std::vector<std::vector<State>> layers;
        std::vector<bool> full;  // whether nothing was cut up to this layer
    };

    struct Need {
        Mask mask;
        std::int64_t weight;
    };

    struct Choice {
        std::int64_t gain;
        Mask close;
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

    template <class F>
    static void each(Mask mask, F f) {
        for (; mask; mask &= mask - 1) f(std::countr_zero(mask));
    }

    static std::int64_t weight(const Action& a) { return std::popcount(a.mixes); }

    void measure(State& s) {
        s.mixed = 0, s.weight = 0;
        each(s.left, false, [&](std::size_t g) {
            s.mixed |= gates_[g].mixes, s.weight += weight(gates_[g]);
            return true;
        });
    }

    // What each gate that is left needs close in order to run now; all qubits where that is more than can be close.
    std::vector<Mask> needs(const Bits& left, bool backward) {
        std::vector<Mask> result(gates_.size(), ~Mask(0));
        std::array<Mask, 64> plain{}, x{}, z{};
        const auto too_many = [&](Mask m) { return std::popcount(m) > close_; };
        // Qubits on which some gate may still run: when there are none, all that follows is held up.
        Mask open = sides_[1].root.mixed;
        each(left, backward, [&](std::size_t g) {
            const Action& a = gates_[g];
            Mask m = a.mixes;
            each(a.mixes & ~a.x_like, [&](int q) { m |= plain[q] | x[q] | z[q]; });
            each(a.x_like, [&](int q) { m |= plain[q] | z[q]; });
            each(a.z_like, [&](int q) { m |= plain[q] | x[q]; });
            if (too_many(m)) m = ~Mask(0);
            each(a.mixes & ~a.x_like, [&](int q) { plain[q] |= m; });
            each(a.x_like, [&](int q) { x[q] |= m; });
            each(a.z_like, [&](int q) { z[q] |= m; });
            if (m == ~Mask(0))
                each((a.mixes | a.z_like) & open, [&](int q) {
                    if (too_many(plain[q] | z[q]) && too_many(plain[q] | x[q])) open &= ~(Mask(1) << q);
                });
            result[g] = m;
            work_ += 4;
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
            ++work_;
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
            if (best_.empty() || sets.size() < best_.size()) best_ = std::move(sets);
        }
    }

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
        for (;;) {
            // Two stages are the fewest here.
            if (best_.size() == 2) return true;
            refuted_ = false;
            if (!reached(int(best_.size()) - 3, width)) return refuted_ || over();
        }
    }

    // Whether so many stages and two between them do; `refuted_` if it is certain that they do not.
    bool reached(int sum, std::size_t width) {
        for (int k = 0; k <= sum; ++k) {
            // From the middle outwards: halves have the fewest states.
            const int a = (sum + (k % 2 ? k + 1 : -k)) / 2;
            bool full = deepen(0, a, width) & deepen(1, sum - a, width);
            if (join(a, sum - a, width, full)) return true;
            if ((refuted_ = full) || over()) return false;
        }
        return false;
    }

    // Whether the work is used up; the greedy plans are always made.
    bool over() const { return work_ >= limit_ && !greedy_; }

    // Makes layers up to this one; false if one was cut.
    bool deepen(int which, int layer, std::size_t width) {
        Side& side = sides_[which];
        while (int(side.layers.size()) <= layer) {
            bool full = side.full.back();
            std::vector<State> next;
            const std::vector<State>& last = side.layers.back();
            for (int p = 0; p < int(last.size()) && !over(); ++p) {
                const std::vector<Mask> needed = needs(last[p].left, which);
                for (Mask close : choices(last[p], needed, width, full)) next.push_back(after(last[p], close, p, needed));
            }
            side.layers.push_back(best_of(std::move(next), width, full));
            side.full.push_back(full && !over());
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
            work_ += std::int64_t(kept.size());
            if (worse) continue;
            if (kept.size() == width) {
                full = false;
                break;
            }
            kept.push_back(std::move(s));
        }
        return kept;
    }

    // Sets of close qubits that let most run, each reduced to the qubits that it takes for that.
    std::vector<Mask> choices(const State& s, const std::vector<Mask>& needed, std::size_t width, bool& full) {
        std::vector<Need> list = distinct(s, needed);
        std::vector<Choice> found;
        const int far = std::popcount(s.mixed) - close_;
        if (far <= 0) return {s.mixed};
        if (subsets(std::popcount(s.mixed), far, 64 * width) <= 64 * width)
            every(list, s.mixed, 0, far, found);
        else {
            full = false;
            climb(list, s.mixed, width, found);
        }
        std::sort(found.begin(), found.end(),
                  [](const Choice& a, const Choice& b) { return std::tie(b.gain, a.close) < std::tie(a.gain, b.close); });
        work_ += 20 * std::int64_t(found.size());
        std::vector<Mask> kept;
        Mask before = 0;
        for (const Choice& choice : found) {
            if (std::exchange(before, choice.close) == choice.close) continue;
            Mask core = 0;
            for (const Need& n : list)
                if (!(n.mask & ~choice.close)) core |= n.mask;
            work_ += std::int64_t(list.size() + kept.size());
            if (!over() && std::any_of(kept.begin(), kept.end(), [&](Mask k) { return !(core & ~k); })) continue;
            if (kept.size() == width || (over() && !kept.empty())) {
                full = false;
                break;
            }
            kept.push_back(core);
        }
        return kept;
    }

    // The different needs that a stage can meet, and what meeting them is worth.
    std::vector<Need> distinct(const State& s, const std::vector<Mask>& needed) {
        std::vector<Need> list;
        each(s.left, false, [&](std::size_t g) {
            if (needed[g] != ~Mask(0) && gates_[g].mixes) list.push_back({needed[g], weight(gates_[g])});
            return true;
        });
        work_ += std::int64_t(gates_.size()) / 8;
        std::sort(list.begin(), list.end(), [](const Need& a, const Need& b) { return a.mask < b.mask; });
        std::size_t last = 0;
        for (std::size_t k = 1; k < list.size(); ++k) {
            if (list[k].mask == list[last].mask)
                list[last].weight += list[k].weight;
            else
                list[++last] = list[k];
        }
        if (!list.empty()) list.resize(last + 1);
        work_ += 4 * std::int64_t(list.size());
        return list;
    }

    std::int64_t gain(const std::vector<Need>& list, Mask far) {
        std::int64_t sum = 0;
        for (const Need& n : list) sum += n.mask & far ? 0 : n.weight;
        work_ += std::int64_t(list.size());
        return sum;
    }

    static std::size_t subsets(int of, int size, std::size_t most) {
        std::size_t count = 1;
        for (int k = 0; k < std::min(size, of - size) && count <= most; ++k) count = count * (of - k) / (k + 1);
        return count;
    }

    // All sets: far so far, and so many more of the qubits above.
    void every(const std::vector<Need>& list, Mask mixed, Mask far, int more, std::vector<Choice>& found) {
        if (over()) return;
        if (more == 0) {
            found.push_back({gain(list, far), mixed & ~far});
            return;
        }
        const Mask above = far ? ~((std::bit_floor(far) << 1) - 1) : ~Mask(0);
        each(mixed & above, [&](int q) { every(list, mixed, far | Mask(1) << q, more - 1, found); });
    }

    // Sets on the way from a few first ones to better neighbours, one qubit for another at a time.
    void climb(const std::vector<Need>& list, Mask mixed, std::size_t width, std::vector<Choice>& found) {
        climb_from(list, mixed, peeled(list, mixed, 0), found);
        std::size_t starts = 1;
        each(mixed, [&](int q) {
            if (starts++ < width && !over()) climb_from(list, mixed, peeled(list, mixed, Mask(1) << q), found);
        });
    }

    // The far qubits left after taking away, one by one, the qubit that holds up least.
    Mask peeled(const std::vector<Need>& list, Mask mixed, Mask far) {
        while (std::popcount(mixed & ~far) > close_) {
            std::array<std::int64_t, 64> lost{};
            for (const Need& n : list)
                if (!(n.mask & far)) each(n.mask, [&](int q) { lost[q] += n.weight; });
            work_ += 8 * std::int64_t(list.size());
            int least = -1;
            each(mixed & ~far, [&](int q) {
                if (least < 0 || lost[q] < lost[least]) least = q;
            });
            far |= Mask(1) << least;
        }
        return far;
    }

    void climb_from(const std::vector<Need>& list, Mask mixed, Mask far, std::vector<Choice>& found) {
        std::int64_t best = gain(list, far);
        found.push_back({best, mixed & ~far});
        for (Mask better = far;; far = better) {
            each(far, [&](int out) {
                each(mixed & ~far, [&](int in) {
                    const Mask tried = (far & ~(Mask(1) << out)) | Mask(1) << in;
                    const std::int64_t g = gain(list, tried);
                    if (g > 0) found.push_back({g, mixed & ~tried});
                    if (g > best) best = g, better = tried;
                });
            });
            if (better == far) break;
        }
    }

    // Looks for two stages that join a state of each side; the best pairs first. `full` becomes false if some were not
    // looked at.
    bool join(int a, int c, std::size_t width, bool& full) {
        const std::vector<State>&front = sides_[0].layers[a], &back = sides_[1].layers[c];
        for (std::size_t i = 0; i < front.size(); ++i) {
            const std::vector<Mask> needed = needs(front[i].left, false);
            for (std::size_t j = 0; j < back.size(); ++j) {
                if ((i + 1) * (j + 1) > 4 * width || over()) {
                    full = false;
                    break;
                }
                if (!meet(front[i], back[j], needed, full)) continue;
                best_ = path(0, a, int(i));
                const std::vector<Mask> rest = path(1, c, int(j));
                best_.insert(best_.end(), between_.begin(), between_.end());
                best_.insert(best_.end(), rest.begin(), rest.end());
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
            each(front.left[w] & back.left[w], [&](int b) {
                const std::size_t g = w * 64 + b;
                const Mask m = gates_[g].mixes;
                mixed |= m;
                if (needed[g] == ~Mask(0))
                    later |= m;
                else if (m)
                    each(needed[g], [&](int q) { held[q] |= m; });
                work_ += 8;
            });
        if (std::popcount(later) > close_) return false;
        if (std::popcount(mixed) <= close_) {
            between_ = {mixed};
            return true;
        }
        const int far = std::popcount(front.mixed) - close_;
        int nodes = 0;
        const std::optional<Mask> chosen = held_by(held, front.mixed, far, later, 0, nodes);
        work_ += std::int64_t(nodes) * std::popcount(front.mixed);
        if (nodes > most_nodes) full = false;
        if (!chosen) return false;
        Mask second = later;
        each(*chosen, [&](int q) { second |= held[q]; });
        between_ = {front.mixed & ~*chosen, second};
        return true;
    }

    // `far` qubits or more of `from` that together hold up at most close_ qubits, `wide` of which are already; none of
    // `passed`, with which all has been tried.
    std::optional<Mask> held_by(const std::array<Mask, 64>& held, Mask from, int far, Mask wide, Mask passed, int& nodes) {
        Mask free = 0, open = 0;
        each(from, [&](int q) {
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
            each(open, [&](int q) {
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
    std::int64_t limit_, work_ = 0;
    std::size_t words_;
    Side sides_[2];
    std::vector<Mask> between_, best_;
    bool greedy_ = true, refuted_ = false;
};

}  // namespace qdist
