// Bindings of circuits that are lowered without a plan: gates go to stages, to blocks and to a program in one call.
#include <algorithm>
#include <bit>
#include <map>
#include <numeric>

#include "base/checks.hpp"
#include "bind/any_program.hpp"
#include "program/block_checks.hpp"
#include "program/gate_form.hpp"
#include "search/fuse.hpp"
#include "search/schedule.hpp"

namespace bindings {
namespace {

// Blocks of up to so many CX run them as controlled gates, on half the tile; larger ones as one index permutation.
constexpr std::size_t eager_flips = 2;
// How often an amplitude is rounded by a matrix with complex entries; by others once (plan/precision.py).
constexpr int complex_roundings = 4;

void check_form(const GateForm& form) {
    check_range(form.qubits, 0, 62, "the number of qubits");
    check_positions(form.targets, form.qubits, "targets");
    for (Mask mask : {form.mixes, form.x_like, form.z_like}) check_mask(mask, form.qubits, "a gate's qubits");
    for (const auto& [place, value] : form.controls) {
        check_range(place, 0, form.qubits - 1, "a control");
        check_range(value, 0, 1, "the value of a control");
    }
    auto check_angles = [&](const GateForm::Angles& angles) {
        for (const auto& [k, multiple] : angles) check_range(k, 0, form.angles - 1, "the number of an angle");
    };
    const auto check_angles_of = [&](const std::vector<int>& slots) {
        for (int k : slots) check_range(k, 0, form.angles - 1, "the number of an angle");
    };
    check_angles_of(form.slots);
    for (const auto& [product, constant, angles] : form.phases) {
        check_positions(product, form.qubits, "a product of bits");
        check_range(std::int64_t(product.size()), 0, 2, "the number of a product's bits");
        check_angles(angles);
    }
    for (const auto& [conditions, constant, angles] : form.wide) {
        for (const auto& [place, value] : conditions) {
            check_range(place, 0, form.qubits - 1, "a condition");
            check_range(value, 0, 1, "the value of a condition");
        }
        check_angles(angles);
    }
    const std::size_t count = form.targets.size();
    switch (form.kind) {
        case BlockKind::dense: {
            std::vector<int> bits(count);
            std::iota(bits.begin(), bits.end(), 0);
            check_factor(form.formula, form.slots, bits, form.matrix.size(), int(count));
            break;
        }
        case BlockKind::linear:
            check_size(count, form.swaps ? 2 : 1, "targets");
            if (form.controls.size() > 1 || (form.swaps && !form.controls.empty())) refuse("an index change has at most one control");
            break;
        case BlockKind::permute: {
            check_size(form.source.size(), std::size_t(1) << count, "a permutation");
            check_sources(std::vector<std::uint32_t>(form.source.begin(), form.source.end()), int(count));
            break;
        }
        case BlockKind::table: check_size(form.matrix.size(), std::size_t(1) << count, "a table"); break;
        case BlockKind::rotation: break;
        case BlockKind::diagonal: break;
    }
    check_mask(form.pass.qubits | form.pass.flips, form.qubits, "a gate's qubits");
    if (form.pass.kind == PassKind::alone && std::popcount(form.pass.qubits) != 1) refuse("a row is of one qubit");
    for (const Factor& f : form.factors) check_angles_of(f.source.slots);
    if (form.kind == BlockKind::rotation || !form.letters.empty()) {
        check_size(form.letters.size(), count, "letters");
        check_size(form.slots.size(), 1, "the angles of a rotation");
    }
}

// What runs as one operation: a gate, or gates on the same two qubits that are one matrix, by their numbers.
using Units = std::vector<std::vector<int>>;

// The blocks of one stage, lowered to a program whose stage has begun.
class Lowering {
public:
    Lowering(AnyProgram& program, const std::vector<PlacedGate>& gates, const Units& units, const std::vector<int>& positions)
        : program_(program), gates_(gates), units_(units), size_(program.tile_bits()) {
        bit_.fill(-1);
        for (int k = 0; k < int(positions.size()); ++k) bit_[positions[k]] = k;
    }

    // Returns how often the block rounds an amplitude.
    int add(const Fusing::Block& block) {
        block_ = &block.operations;
        switch (block.kind) {
            case BlockKind::dense: return add_dense();
            case BlockKind::diagonal: add_diagonal(); return 1;
            case BlockKind::linear: add_linear(); return 0;
            case BlockKind::rotation: add_rotations(); return 1;
            case BlockKind::table: add_tables(); return 1;
            case BlockKind::permute: add_permutation(); return 0;
        }
        return 0;
    }

private:
    const PlacedGate& gate(std::size_t k) const { return gates_[units_[(*block_)[k]].front()]; }
    std::size_t num_gates() const { return block_->size(); }
    int bit(const PlacedGate& g, int place) const { return bit_[g.qubits[place]]; }

    struct Near {
        Bits near, far;
    };
    Near conditions(const PlacedGate& g, const GateForm::Conditions& given) const {
        Near found;
        for (const auto& [place, value] : given) {
            const int qubit = g.qubits[place];
            Bits& side = bit_[qubit] >= 0 ? found.near : found.far;
            const int position = bit_[qubit] >= 0 ? bit_[qubit] : qubit;
            side.mask |= std::size_t(1) << position;
            side.value |= std::size_t(value) << position;
        }
        return found;
    }

    int add_dense() {
        std::vector<int> qubits;
        std::vector<Factor> factors;
        bool real = true, alike = true;
        const PlacedGate& first = gate(0);
        std::vector<int> first_bits;
        for (int unit : *block_)
            for (int number : units_[unit]) {
                const PlacedGate& g = gates_[number];
                std::vector<int> bits;
                const auto place = [&](int k) {
                    const auto found = std::find(qubits.begin(), qubits.end(), g.qubits[k]);
                    bits.push_back(int(found - qubits.begin()));
                    if (found == qubits.end()) qubits.push_back(g.qubits[k]);
                    return bits.back();
                };
                g.add_factors(factors, units_[unit].size() > 1, place);
                need(g);
                if (number == units_[block_->front()].front()) first_bits = bits;
                real = real && g.form->is_real;
                alike = alike && g.form == first.form && bits == first_bits;
            }
        // Turns about the same axis are one turn.
        alike = alike && (factors.size() == 1 || !first.form->letters.empty());
        const bool joined = units_[block_->front()].size() > 1;
        const Near c = joined ? Near{} : conditions(first, first.form->controls);
        std::vector<int> targets;
        for (int q : qubits) targets.push_back(bit_[q]);
        program_.add_dense(std::move(targets), c.near, c.far, std::move(factors));
        return real || (alike && first.form->is_pure) ? 1 : complex_roundings;
    }

    void add_diagonal() {
        std::map<std::pair<int, int>, std::pair<double, Products>> terms;
        std::vector<WideData> wides;
        for (std::size_t k = 0; k < num_gates(); ++k) {
            const PlacedGate& g = gate(k);
            for (const auto& [product, constant, angles] : g.form->phases) {
                std::pair<int, int> key{-1, -1};
                for (int place : product) {
                    const int inside = bit(g, place), at = inside >= 0 ? inside : size_ + g.qubits[place];
                    key = key.first < 0 ? std::pair(at, at) : std::pair(std::min(key.first, at), std::max(key.first, at));
                }
                auto& [sum, products] = terms[key];
                sum += constant;
                g.add_angles(angles, products);
            }
            for (const auto& [given, constant, angles] : g.form->wide) {
                const Near c = conditions(g, given);
                Products products;
                g.add_angles(angles, products);
                wides.emplace_back(c.near.mask, c.near.value, c.far.mask, c.far.value, constant, std::move(products));
            }
            need(g);
        }
        std::vector<TermData> sums;
        for (auto& [key, sum] : terms) sums.emplace_back(key.first, key.second, sum.first, std::move(sum.second));
        program_.add_diagonal(sums, wides);
    }

    void add_linear() {
        bool flips_alone = num_gates() <= eager_flips;
        for (std::size_t k = 0; k < num_gates(); ++k) flips_alone = flips_alone && !gate(k).form->swaps;
        if (flips_alone) {
            for (std::size_t k = 0; k < num_gates(); ++k) {
                const PlacedGate& g = gate(k);
                const Near c = conditions(g, g.form->controls);
                program_.add_dense({bit(g, g.form->targets[0])}, c.near, c.far, {{{Formula::constant, {}, {0, 1, 1, 0}}, {0}}});
            }
            return;
        }
        // Element i comes from element constant ^ XOR of columns[k] over the bits k of i, and of flips whose conditions hold
        // outside the tile (backends/index_map.py).
        std::vector<std::uint32_t> columns(size_);
        for (int k = 0; k < size_; ++k) columns[k] = std::uint32_t(1) << k;
        std::uint32_t constant = 0;
        std::vector<FlipData> flips;
        for (std::size_t k = 0; k < num_gates(); ++k) {
            const PlacedGate& g = gate(k);
            if (g.form->swaps) {
                std::swap(columns[bit(g, g.form->targets[0])], columns[bit(g, g.form->targets[1])]);
                continue;
            }
            const std::uint32_t target = columns[bit(g, g.form->targets[0])];
            if (g.form->controls.empty()) {
                constant ^= target;
                continue;
            }
            const auto [place, value] = g.form->controls[0];
            const int control = bit(g, place);
            if (control < 0) {
                const std::size_t mask = std::size_t(1) << g.qubits[place];
                flips.emplace_back(mask, value ? mask : 0, target);
                continue;
            }
            columns[control] ^= target;
            if (!value) constant ^= target;
        }
        std::vector<std::uint32_t> source(std::size_t(1) << size_);
        source[0] = constant;
        for (int k = 0; k < size_; ++k)
            for (std::size_t i = 0; i < std::size_t(1) << k; ++i) source[i | std::size_t(1) << k] = source[i] ^ columns[k];
        program_.add_permutation(std::move(source), flips);
    }

    void add_rotations() {
        std::size_t x = 0;
        std::vector<StringData> strings;
        for (std::size_t k = 0; k < num_gates(); ++k) {
            const PlacedGate& g = gate(k);
            std::size_t z = 0, far_z = 0;
            for (std::size_t l = 0; l < g.form->letters.size(); ++l) {
                const int qubit = g.qubits[g.form->targets[l]], inside = bit_[qubit];
                const char letter = g.form->letters[l];
                if (letter == 'X' || letter == 'Y') x |= std::size_t(1) << inside;
                if (letter == 'Y' || letter == 'Z') (inside >= 0 ? z : far_z) |= std::size_t(1) << (inside >= 0 ? inside : qubit);
            }
            strings.emplace_back(z, far_z, Products{{g.slot + g.form->slots[0], g.form->sign}});
            need(g);
        }
        const Near c = conditions(gate(0), gate(0).form->controls);
        program_.add_rotations(x, c.near, c.far, strings);
    }

    void add_tables() {
        for (std::size_t k = 0; k < num_gates(); ++k) {
            const PlacedGate& g = gate(k);
            Places inside, outside;
            for (int place = 0; place < int(g.form->targets.size()); ++place) {
                const int at = bit(g, g.form->targets[place]);
                (at >= 0 ? inside : outside).emplace_back(at >= 0 ? at : g.qubits[g.form->targets[place]], place);
            }
            const Near c = conditions(g, g.form->controls);
            program_.add_table(std::move(inside), std::move(outside), c.near, c.far, g.form->matrix);
        }
    }

    void add_permutation() {
        const PlacedGate& g = gate(0);
        std::vector<int> bits;
        for (int place : g.form->targets) bits.push_back(bit(g, place));
        std::vector<std::uint32_t> source(std::size_t(1) << size_);
        const Index cleared = ~scattered(~Index(0), bits);
        for (std::size_t i = 0; i < source.size(); ++i) {
            std::size_t small = 0;
            for (std::size_t k = 0; k < bits.size(); ++k) small |= (i >> bits[k] & 1) << k;
            source[i] = std::uint32_t((i & cleared) | scattered(Index(g.form->source[small]), bits));
        }
        program_.add_permutation(std::move(source), {});
    }

    void need(const PlacedGate& g) { program_.need_angles(g.slot + g.form->angles); }

    AnyProgram& program_;
    const std::vector<PlacedGate>& gates_;
    const Units& units_;
    int size_;
    std::array<int, 64> bit_;
    const std::vector<int>* block_ = nullptr;
};

using Numbers = Array<const std::int32_t>;

std::vector<PlacedGate> placed(const std::vector<const GateForm*>& forms, Numbers which, Numbers qubits, int num_bits) {
    std::vector<PlacedGate> gates;
    gates.reserve(which.size());
    std::size_t next = 0;
    int slot = 0;
    for (std::size_t g = 0; g < which.size(); ++g) {
        check_range(which.data()[g], 0, std::int64_t(forms.size()) - 1, "the number of a form");
        const GateForm& form = *forms[which.data()[g]];
        if (next + std::size_t(form.qubits) > qubits.size()) refuse("there are fewer qubits than gates act on");
        const int* own = qubits.data() + next;
        Mask seen = 0;
        for (int k = 0; k < form.qubits; ++k) {
            check_range(own[k], 0, num_bits - 1, "a qubit");
            if (seen >> own[k] & 1) refuse("a gate acts on qubit ", own[k], " twice");
            seen |= Mask(1) << own[k];
        }
        gates.push_back({&form, own, slot});
        next += std::size_t(form.qubits), slot += form.angles;
    }
    if (next != qubits.size()) refuse("there are more qubits than gates act on");
    return gates;
}

Units joined(const std::vector<PlacedGate>& gates, int num_bits) {
    std::vector<PairGate> passes;
    passes.reserve(gates.size());
    for (const PlacedGate& g : gates) passes.push_back(g.pass());
    const Units runs = PairRuns(passes, num_bits).worth_joining();
    std::vector<const std::vector<int>*> inside(gates.size(), nullptr);
    for (const std::vector<int>& run : runs)
        for (int k : run) inside[k] = &run;
    Units units;
    units.reserve(gates.size());
    for (int k = 0; k < int(gates.size()); ++k) {
        if (!inside[k])
            units.push_back({k});
        else if (inside[k]->back() == k)
            units.push_back(*inside[k]);
    }
    return units;
}

Fusable fusable(const std::vector<PlacedGate>& gates, const std::vector<int>& unit) {
    if (unit.size() == 1) return gates[unit.front()].fusable();
    Mask qubits = 0;
    for (int k : unit) qubits |= gates[k].pass().qubits;
    return {.action = {qubits, 0, 0, 16}, .kind = BlockKind::dense, .controls = 0, .control_values = 0};
}

// Returns the number of stages and of blocks, and how often an amplitude is rounded.
std::tuple<int, int, int> add_gates(AnyProgram& program, const std::vector<const GateForm*>& forms, Numbers which, Numbers qubits,
                                    int tile, int contiguous, int parities) {
    const int n = program.num_bits();
    check_range(tile, 0, n, "the bits of a tile");
    check_range(contiguous, 0, tile, "the contiguous bits of a tile");
    check_range(parities, 0, 62, "parities");
    if (program.num_stages()) refuse("gates are added to a program without stages");
    const std::vector<PlacedGate> gates = placed(forms, which, qubits, n);
    const Units units = joined(gates, n);
    std::vector<Fusable> fusables;
    fusables.reserve(units.size());
    for (const std::vector<int>& unit : units) fusables.push_back(fusable(gates, unit));
    std::vector<Scheduled> stages;
    if (tile == n) {
        std::vector<int> all(units.size());
        std::iota(all.begin(), all.end(), 0);
        stages.push_back({low_bits(n), std::move(all)});
    } else {
        std::vector<Action> actions;
        actions.reserve(units.size());
        for (const Fusable& f : fusables) actions.push_back(f.action);
        stages = Scheduler(actions, n, tile, low_bits(contiguous)).run();
    }
    int blocks = 0, roundings = 0;
    for (const Scheduled& stage : stages) {
        Units own_units;
        std::vector<Fusable> own;
        own_units.reserve(stage.gates.size()), own.reserve(stage.gates.size());
        for (int u : stage.gates) own_units.push_back(units[u]), own.push_back(fusables[u]);
        const std::vector<int> positions = positions_of(stage.close);
        program.begin_stage(positions, true);
        const std::vector<Fusing::Block> found = Fusing(own, parities, false).run();
        program.expect_blocks(found.size());
        Lowering lowering(program, gates, own_units, positions);
        for (const Fusing::Block& block : found) ++blocks, roundings += lowering.add(block);
    }
    return {int(stages.size()), blocks, roundings};
}

}  // namespace
}  // namespace bindings

void bind_forms(nb::module_& m) {
    using namespace bindings;
    nb::class_<GateForm>(m, "GateForm")
        .def(
            "__init__",
            [](GateForm* form, int kind, bool swaps, int qubits, int angles, Mask mixes, Mask x_like, Mask z_like,
               std::vector<int> targets, GateForm::Conditions controls, int formula, std::vector<int> slots,
               std::vector<Complex> matrix, std::vector<std::int64_t> source, std::vector<GateForm::Phase> phases,
               std::vector<GateForm::WidePhase> wide, const char* letters, double sign, bool is_real, bool is_pure,
               std::tuple<int, Mask, bool, bool> pass, const std::vector<FactorData>& factors) {
                check_range(kind, 0, block_kinds - 1, "the kind of a block");
                const auto [pass_kind, flips, odd_ys, is_simple] = pass;
                check_range(pass_kind, 0, pass_kinds - 1, "the kind of a pass");
                int needed = 0;
                GateForm made{BlockKind(kind), swaps, qubits, angles, mixes, x_like, z_like, std::move(targets), std::move(controls),
                              formula, std::move(slots), std::move(matrix), std::move(source), std::move(phases), std::move(wide),
                              letters, sign, is_real, is_pure, {mixes | z_like, PassKind(pass_kind), flips, odd_ys, is_simple},
                              checked_factors(factors, qubits, needed)};
                check_form(made);
                new (form) GateForm(std::move(made));
            },
            "kind"_a, "swaps"_a, "qubits"_a, "angles"_a, "mixes"_a, "x_like"_a, "z_like"_a, "targets"_a, "controls"_a,
            "formula"_a, "slots"_a, "matrix"_a, "source"_a, "phases"_a, "wide"_a, "letters"_a, "sign"_a, "is_real"_a, "is_pure"_a,
            "pass_of"_a, "factors"_a,
            "A gate on the qubits 0, 1, ... with the angles 0, 1, ...: plan/operations.py says what these are.")
        .def_prop_ro("num_mixed", [](const GateForm& form) { return std::popcount(form.mixes); });
    m.def("add_gates", &add_gates, "program"_a, "forms"_a, "which"_a, "qubits"_a, "tile"_a, "contiguous"_a, "parities"_a,
          "Lowers gates to a program that has no stages yet, as they come: (stages, blocks, roundings of an amplitude). which: the number of "
          "each gate's form; qubits: of all gates, one after the other.");
}
