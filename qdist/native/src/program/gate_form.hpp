// A gate of a circuit that is lowered without a plan: an operation on numbered places, and the qubits and angles that it is put on.
#pragma once
#include <cstdint>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "base/bits.hpp"
#include "gates/matrices.hpp"
#include "search/fuse.hpp"
#include "search/pairs.hpp"

namespace qdist {

// What plan.operations makes of a gate on the qubits 0, 1, ... with the angles 0, 1, ...
struct GateForm {
    using Angles = std::vector<std::pair<int, double>>;  // (which, its multiple)
    using Conditions = std::vector<std::pair<int, int>>;  // (qubit, the value it must have)
    using Phase = std::tuple<std::vector<int>, double, Angles>;  // of a product of at most two qubits
    using WidePhase = std::tuple<Conditions, double, Angles>;

    BlockKind kind;
    bool swaps;  // linear: a SWAP gate, not X or CX
    int qubits, angles;
    Mask mixes, x_like, z_like;
    std::vector<int> targets;
    Conditions controls;
    int formula;
    std::vector<int> slots;
    std::vector<Complex> matrix;       // a constant matrix; the diagonal of a table
    std::vector<std::int64_t> source;  // of a permutation
    std::vector<Phase> phases;
    std::vector<WidePhase> wide;
    std::string letters;  // of a Pauli rotation, also of one that is a matrix otherwise
    double sign;
    bool is_real, is_pure;  // all entries are real; each is real or imaginary
    PairGate pass;          // on places; what it is as a pass of its own
    std::vector<Factor> factors;  // as part of a matrix on its qubits, where that is not its own
};

// A form on qubits of a circuit, its angles numbered from `slot` on.
struct PlacedGate {
    const GateForm* form;
    const int* qubits;
    int slot;

    Mask on(Mask places) const {
        Mask mask = 0;
        each_bit(places, [&](int place) { mask |= Mask(1) << qubits[place]; });
        return mask;
    }
    Action action() const {
        const double weight = form->mixes ? double(Mask(1) << 2 * std::popcount(form->mixes)) : 0.01;
        return {on(form->mixes), on(form->x_like), on(form->z_like), weight};
    }

    Fusable fusable() const {
        Fusable o{.action = action(), .kind = form->kind, .controls = 0, .control_values = 0};
        for (const auto& [place, value] : form->controls) {
            o.controls |= Mask(1) << qubits[place];
            o.control_values |= Mask(value) << qubits[place];
        }
        o.as_rotation = !form->letters.empty();
        for (std::size_t k = 0; k < form->letters.size(); ++k) {
            if (form->letters[k] == 'Y' || form->letters[k] == 'Z') o.signs |= Mask(1) << qubits[form->targets[k]];
            o.odd_ys ^= form->letters[k] == 'Y';
        }
        return o;
    }

    PairGate pass() const {
        PairGate own = form->pass;
        own.qubits = on(own.qubits), own.flips = on(own.flips);
        return own;
    }

    // As factors of a matrix: its own where it runs under its conditions, if there are any, or with them as part of a larger one.
    // place(k) is the bit of its qubit k there.
    template <class Place>
    void add_factors(std::vector<Factor>& factors, bool is_part, Place place) const {
        const auto add = [&](const Source& source, const std::vector<int>& places) {
            Factor own{source, {}};
            for (int& s : own.source.slots) s += slot;
            for (int k : places) own.bits.push_back(place(k));
            factors.push_back(std::move(own));
        };
        if (!is_part || (form->kind == BlockKind::dense && form->controls.empty()))
            return add({Formula(form->formula), form->slots, Matrix(form->matrix.begin(), form->matrix.end())}, form->targets);
        for (const Factor& f : form->factors) add(f.source, f.bits);
    }
    void add_angles(const GateForm::Angles& angles, GateForm::Angles& sum) const {
        for (const auto& [k, multiple] : angles) sum.emplace_back(slot + k, multiple);
    }
};

}  // namespace qdist
