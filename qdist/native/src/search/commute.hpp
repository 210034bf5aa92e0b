// The one rule for what may pass what, and the frontier over it: plan/commute.py has the same rule in Python.
//
// On a qubit a gate acts like Z (it commutes with Z: controls, diagonals), like X (it commutes with X), or like neither.
// Gates may pass each other if on every qubit that they share both act like Z, or both like X.
#pragma once
#include <array>
#include <bit>
#include <type_traits>

#include "base/bits.hpp"

namespace qdist {

using Mask = Index;

// A gate as planners see it: the qubits that it mixes, those of them on which it acts like X, and others on which it acts
// like Z.
struct Action {
    Mask mixes, x_like, z_like;
    double weight;
};

enum Kind : int { like_z, like_x, like_neither };
using ByKind = std::array<Mask, 3>;

// THE rule, on one qubit.
inline constexpr bool conflict(Kind a, Kind b) { return a != b || a == like_neither; }

// Calls f with each kind as a constant, or with those that conflict with one.
template <class F>
[[gnu::always_inline]] inline void each_kind(F f) {
    f(std::integral_constant<Kind, like_z>()), f(std::integral_constant<Kind, like_x>()),
        f(std::integral_constant<Kind, like_neither>());
}
template <Kind kind, class F>
[[gnu::always_inline]] inline void each_conflict(F f) {
    each_kind([&](auto other) {
        if constexpr (conflict(kind, other)) f(other);
    });
}

// The qubits on which a gate acts in each way.
inline ByKind acts(const Action& a) { return {a.z_like, a.x_like, a.mixes & ~a.x_like}; }

// Gates that wait, and so hold up later ones.
class Waiting {
public:
    bool stop(const Action& a) const {
        const ByKind acting = acts(a);
        Mask stopped = 0;
        each_kind([&](auto kind) { stopped |= acting[kind] & stopped_[kind]; });
        return stopped;
    }
    void add(const Action& a) {
        const ByKind acting = acts(a);
        each_kind([&](auto kind) { each_conflict<kind>([&](auto other) { stopped_[kind] |= acting[other]; }); });
    }
    // Whether no gate that mixes one of these qubits, or commutes with Z there, can run.
    bool stop_all(Mask qubits) const { return stopped_[like_neither] == qubits && stopped_[like_z] == qubits; }

private:
    ByKind stopped_{};  // the qubits on which no later gate that acts in each way can pass
};

// What is known of the gates so far: for each qubit and each way to act on it, a value of the gates that do.
template <class Value>
class Frontier {
public:
    explicit Frontier(const Value& start = {}) {
        for (auto& kind : values_) kind.fill(start);
    }

    // Calls f with the values of all gates so far that one which acts in this way must come after.
    template <Kind kind, class F>
    [[gnu::always_inline]] void before(int qubit, F f) const {
        each_conflict<kind>([&](auto other) { f(values_[other][qubit]); });
    }
    template <class F>
    [[gnu::always_inline]] void before(const Action& a, F f) const {
        const ByKind acting = acts(a);
        each_kind([&](auto kind) { each_bit(acting[kind], [&](int q) { before<kind>(q, f); }); });
    }

    // Calls f with the values that `a` belongs to.
    template <class F>
    [[gnu::always_inline]] void add(const Action& a, F f) {
        const ByKind acting = acts(a);
        each_kind([&](auto kind) { each_bit(acting[kind], [&](int q) { f(values_[kind][q]); }); });
    }

private:
    std::array<std::array<Value, 64>, 3> values_;
};

}  // namespace qdist
