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
    Matrix matrix;  // a constant matrix; the diagonal of a table
    std::vector<std::int64_t> source;  // of a permutation
    std::vector<Phase> phases;
    std::vector<WidePhase> wide;
    std::string letters;  // of a Pauli rotation, also of one that is a matrix otherwise
    double sign;
    bool is_real, is_pure;  // all entries are real; each is real or imaginary
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

    std::vector<int> slots() const {
        std::vector<int> own = form->slots;
        for (int& s : own) s += slot;
        return own;
    }
    void add_angles(const GateForm::Angles& angles, GateForm::Angles& sum) const {
        for (const auto& [k, multiple] : angles) sum.emplace_back(slot + k, multiple);
    }
};

}  // namespace qdist
