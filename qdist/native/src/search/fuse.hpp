// The gates of a stage as few blocks: plan/fuse.py says which, and makes them of what is found here.
//
// A gate comes as early as what it does not commute with allows, beside others of its kind. Blocks are kept in order without
// looking at all of them: a block's place is a run and a number, runs are of one kind, and a new block comes to the end of a run of
// its kind or behind all others. For each qubit and each way to act on it the places of the blocks that may not be passed so are known.
#pragma once
#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/bits.hpp"
#include "search/commute.hpp"

namespace qdist {

enum class BlockKind : int { dense, diagonal, linear, rotation, table, permute };
inline constexpr int block_kinds = 6;

// An operation of a plan, as far as fusing asks.
struct Fusable {
    Action action;
    BlockKind kind;
    Mask controls, control_values;
    bool as_rotation = false;  // whether it may be a Pauli rotation beside others; the next two are of that
    bool odd_ys = false;
    Mask signs = 0;            // the qubits whose parity is the sign of its angle
    bool is_constant = true;   // whether no angle changes it; asked for where phases join matrices, as is the next
    bool keeps_parity = false;
    bool has_wide = false;     // phases of more than two bits

    Mask all() const { return action.mixes | action.z_like; }
};

// What is left of a parity after subtracting elements of a basis over GF(2), in descending order; 0 if it is their sum.
inline Mask reduced(Mask parity, const std::vector<Mask>& basis) {
    for (Mask element : basis) parity = std::min(parity, parity ^ element);
    return parity;
}

class Fusing {
public:
    struct Block {
        BlockKind kind;
        bool is_plain;  // no operation of it has controls
        std::vector<int> operations;
        Mask mixes = 0, not_x = 0, all = 0;
        bool is_constant = true, keeps_parity = true;
        bool is_there = false;
        std::vector<Mask> signs = {};  // of rotations: a basis of the parities that are their signs
    };

    Fusing(const std::vector<Fusable>& operations, int parities, bool joins_phases)
        : operations_(operations), parities_(parities), joins_phases_(joins_phases) {}

    // The blocks in order.
    std::vector<Block> run() {
        for (int k = 0; k < int(operations_.size()); ++k) put_in(k);
        std::vector<Block> found;
        for (Place place : order_) found.push_back(std::move(at(place)));
        return found;
    }

    // How many places were looked at.
    std::int64_t steps() const { return steps_; }

private:
    using Place = std::int64_t;  // the run in the upper half, the number in the lower
    using Places = std::vector<Place>;
    static constexpr Place before_all = -1;
    static Place place_of(int run, int number) { return Place(run) << 32 | number; }
    static int run_of(Place place) { return int(place >> 32); }
    static int number_of(Place place) { return int(place & 0xffffffff); }

    Block& at(Place place) { return blocks_[number_of(place)]; }
    bool is_there(Place place) { return place != before_all && at(place).is_there; }
    // From the end, where most are looked for.
    Places::iterator lower_bound(Places& places, Place start) {
        ++steps_;
        auto found = places.end();
        for (int near = 8; near && found != places.begin() && found[-1] >= start; --near) --found;
        return found != places.begin() && found[-1] >= start ? std::lower_bound(places.begin(), found, start) : found;
    }
    void insert_sorted(Places& places, Place place) { places.insert(lower_bound(places, place), place); }
    bool is_plain_dense(const Block& block) const { return block.kind == BlockKind::dense && block.is_plain; }

    static ByKind stops(const Block& b) { return {b.mixes, b.not_x, b.all}; }

    void put_in(int k) {
        const Fusable& o = operations_[k];
        const Place after = last_in_the_way(o);
        bool as_rotation = false;
        Place into = merging(after, o);
        if (into == before_all && parities_ && o.as_rotation) {
            as_rotation = true;
            into = rotations_of(o, after);
        }
        if (into != before_all)
            add(into, k, as_rotation);
        else
            insert(new_block(as_rotation ? BlockKind::rotation : o.kind, k), after, as_rotation);
    }

    // Where the block is that an operation becomes part of; before_all if there is none.
    Place merging(Place after, const Fusable& o) {
        if (joins_phases_ && o.kind == BlockKind::diagonal && is_there(after) && joins(o, at(after))) return after;
        if (o.kind == BlockKind::diagonal || o.kind == BlockKind::linear) return first_of(o.kind, after);
        if (o.kind == BlockKind::dense && !o.controls && o.action.mixes) {
            // What acts like X may be part of an earlier block than the last that it must come after.
            const Place place = std::max(after, matrices_[std::bit_width(o.action.mixes) - 1]);
            if (is_there(place)) {
                const Block& block = at(place);
                if (is_plain_dense(block) && !(o.action.mixes & ~block.mixes) && std::popcount(block.mixes) <= 2) return place;
            }
        }
        return before_all;
    }

    // Whether phases become part of a block: a matrix on two qubits, which are all that they depend on. A constant matrix
    // stays one, for which there are decompositions, unless it keeps parities, which are faster still.
    bool joins(const Fusable& phases, const Block& block) const {
        if (!is_plain_dense(block) || std::popcount(block.mixes) != 2 || phases.all() & ~block.mixes || phases.has_wide) return false;
        return phases.is_constant || !block.is_constant || block.keeps_parity;
    }

    Block new_block(BlockKind kind, int k) {
        const Fusable& o = operations_[k];
        Block block{kind, !o.controls, {}};
        note(block, k);
        if (kind == BlockKind::dense && !o.controls && std::popcount(o.action.mixes) == 2) {
            if (joins_phases_)
                for (int phases : phases_before(block)) add_first(block, {phases});
            // One-qubit matrices right before a two-qubit one become part of it.
            std::vector<std::pair<Place, Block>> before;
            each_bit(o.action.mixes, [&](int qubit) {
                for (;;) {
                    const Place last = last_on(qubit);
                    if (!is_there(last) || !is_plain_dense(at(last)) || at(last).mixes != Mask(1) << qubit) break;
                    before.emplace_back(last, remove(last));
                }
            });
            std::sort(before.begin(), before.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
            for (auto& [place, first] : before) add_first(block, first.operations);
        }
        return block;
    }

    void note(Block& block, int k) {
        const Fusable& o = operations_[k];
        block.operations.push_back(k);
        include(block, o);
    }
    void add_first(Block& block, const std::vector<int>& earlier) {
        block.operations.insert(block.operations.begin(), earlier.begin(), earlier.end());
        for (int k : earlier) include(block, operations_[k]);
    }
    static void include(Block& block, const Fusable& o) {
        block.mixes |= o.action.mixes, block.all |= o.all(), block.not_x |= o.all() & ~o.action.x_like;
        block.is_constant &= o.is_constant;
        block.keeps_parity &= o.keeps_parity;
    }

    Place last_on(int qubit) const { return stopping_[like_neither][qubit].empty() ? before_all : stopping_[like_neither][qubit].back(); }

    // The last block that an operation must come after.
    Place last_in_the_way(const Fusable& o) {
        Place last = before_all;
        const ByKind acting = acts(o.action);
        each_kind([&](auto kind) {
            each_bit(acting[kind], [&](int qubit) {
                ++steps_;
                if (const Places& places = stopping_[kind][qubit]; !places.empty()) last = std::max(last, places.back());
            });
        });
        return last;
    }

    // The first block of a kind from a place on.
    Place first_of(BlockKind kind, Place start) {
        Places& places = of_kind_[int(kind)];
        const auto found = lower_bound(places, start);
        return found == places.end() ? before_all : *found;
    }

    // With the same flips, and both an even or both an odd number of Ys, two Pauli strings commute.
    using Flips = std::tuple<Mask, bool, Mask, Mask>;
    static Flips flips_of(const Fusable& o) { return {o.action.mixes, o.odd_ys, o.controls, o.control_values}; }

    // The last block of rotations with the same flips, if it has not ended before `start` and has room.
    Place rotations_of(const Fusable& o, Place start) {
        ++steps_;
        const Places& places = rotations_[flips_of(o)];
        if (places.empty() || places.back() < start) return before_all;
        const std::vector<Mask>& signs = at(places.back()).signs;
        return int(signs.size()) < parities_ || !reduced(o.signs, signs) ? places.back() : before_all;
    }

    void add(Place place, int k, bool as_rotation) {
        Block& block = at(place);
        const ByKind known = stops(block);
        note(block, k);
        list(place, block, known);
        if (as_rotation) add_signs(block, operations_[k]);
    }
    static void add_signs(Block& block, const Fusable& o) {
        if (const Mask rest = reduced(o.signs, block.signs)) {
            block.signs.push_back(rest);
            std::sort(block.signs.begin(), block.signs.end(), std::greater<>());
        }
    }

    // Appends a block to a run of its kind that does not end before `after`: runs stay contiguous, so that later gates can
    // still merge.
    void insert(Block block, Place after, bool as_rotation) {
        Place beside = first_of(block.kind, after + 1);
        if (beside == before_all && !order_.empty() && at(order_.back()).kind == block.kind) beside = order_.back();
        const int run = beside == before_all ? next_number() : last_run(run_of(beside), block.kind);
        const Place place = place_of(run, next_number());
        const BlockKind kind = block.kind;
        put(place, std::move(block));
        if (parities_ && kind == BlockKind::rotation && as_rotation) {
            const Fusable& o = operations_[at(place).operations[0]];
            insert_sorted(rotations_[flips_of(o)], place);
            add_signs(at(place), o);
        }
    }

    int next_number() {
        blocks_.emplace_back();
        return int(blocks_.size()) - 1;
    }

    void put(Place place, Block block) {
        Block& own = at(place);
        own = std::move(block);
        own.is_there = true;
        if (is_plain_dense(own)) each_bit(own.mixes, [&](int qubit) { matrices_[qubit] = place; });
        insert_sorted(order_, place);
        insert_sorted(of_kind_[int(own.kind)], place);
        list(place, own, {0, 0, 0});
    }

    Block remove(Place place) {
        Block& block = at(place);
        block.is_there = false;
        auto erase = [&](Places& places) { places.erase(lower_bound(places, place)); };
        erase(order_), erase(of_kind_[int(block.kind)]);
        const ByKind stopping = stops(block);
        each_kind([&](auto kind) { each_bit(stopping[kind], [&](int qubit) { erase(stopping_[kind][qubit]); }); });
        return std::move(block);
    }

    // Takes out the phases right before a matrix on two qubits that become part of it.
    std::vector<int> phases_before(const Block& block) {
        std::vector<int> found;
        Places places;
        each_bit(block.mixes, [&](int qubit) { places.push_back(last_on(qubit)); });
        std::sort(places.begin(), places.end());
        places.erase(std::unique(places.begin(), places.end()), places.end());
        for (Place place : places) {
            if (!is_there(place) || at(place).kind != BlockKind::diagonal) continue;
            std::vector<int> taken, left;
            for (int k : at(place).operations) {
                const Fusable& o = operations_[k];
                bool last = joins(o, block);
                each_bit(o.all(), [&](int qubit) { last = last && last_on(qubit) == place; });
                (last ? taken : left).push_back(k);
            }
            if (taken.empty()) continue;
            remove(place);
            if (!left.empty()) {
                Block rest{BlockKind::diagonal, true, {}};
                for (int k : left) note(rest, k);
                put(place, std::move(rest));
            }
            found.insert(found.end(), taken.begin(), taken.end());
        }
        return found;
    }

    // Lists a block under its qubits, but for those that it is known for.
    void list(Place place, const Block& block, const ByKind& known) {
        const ByKind stopping = stops(block);
        each_kind([&](auto kind) {
            each_bit(stopping[kind] & ~known[kind], [&](int qubit) { insert_sorted(stopping_[kind][qubit], place); });
        });
    }

    // The last of the runs of a kind that stand side by side from a run on.
    int last_run(int run, BlockKind kind) {
        const auto joined = joined_.find(run);
        int last = joined == joined_.end() ? run : joined->second;
        for (;;) {
            const auto next = lower_bound(order_, place_of(last + 1, 0));
            if (next == order_.end() || at(*next).kind != kind) break;
            last = run_of(*next);
        }
        joined_[run] = last;
        return last;
    }

    const std::vector<Fusable>& operations_;
    int parities_;
    bool joins_phases_;
    std::vector<Block> blocks_;  // by number
    Places order_;
    std::array<Places, block_kinds> of_kind_;
    std::array<Place, 64> matrices_ = [] {
        std::array<Place, 64> none;
        none.fill(before_all);
        return none;
    }();
    std::array<std::array<Places, 64>, 3> stopping_;  // by the way to act and the qubit: what may not be passed so
    std::map<Flips, Places> rotations_;
    std::unordered_map<int, int> joined_;  // the later of two runs of one kind between which nothing is left
    std::int64_t steps_ = 0;
};

}  // namespace qdist
