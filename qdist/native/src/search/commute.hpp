// The one rule for what may pass what, and the frontier over it: plan/commute.py has the same rule in Python.
//
// On a qubit a gate acts like Z (it commutes with Z: controls, diagonals), like X (it commutes with X), or like neither.
// Gates may pass each other if on every qubit that they share both act like Z, or both like X.
#pragma once
#include <array>
#include <bit>
#include <cstdint>

namespace qdist {

using Mask = std::uint64_t;

// Calls f with the number of each bit that is set.
template <class F>
void each_bit(Mask mask, F f) {
    for (; mask; mask &= mask - 1) f(std::countr_zero(mask));
}

inline constexpr Mask qubits_below(int count) { return count >= 64 ? ~Mask(0) : (Mask(1) << count) - 1; }

// A gate as planners see it: the qubits that it mixes, those of them on which it acts like X, and others on which it acts
// like Z.
struct Action {
    Mask mixes, x_like, z_like;
    double weight;
};

enum Kind : int { like_z, like_x, like_neither };
using ByKind = std::array<Mask, 3>;

// The qubits on which a gate acts in each way.
inline ByKind acts(const Action& a) { return {a.z_like, a.x_like, a.mixes & ~a.x_like}; }

// THE rule: the qubits on which a gate may not be passed by one that acts in each way there.
inline ByKind stops(const Action& a) { return {a.mixes, (a.mixes & ~a.x_like) | a.z_like, a.mixes | a.z_like}; }

inline bool meet(const ByKind& acting, const ByKind& stopping) {
    return (acting[like_z] & stopping[like_z]) | (acting[like_x] & stopping[like_x]) | (acting[like_neither] & stopping[like_neither]);
}

inline bool commute(const Action& a, const Action& b) { return !meet(acts(a), stops(b)); }

// Gates that wait, and so hold up later ones.
class Waiting {
public:
    bool stop(const Action& a) const { return meet(acts(a), stopped_); }
    void add(const Action& a) {
        const ByKind more = stops(a);
        for (int kind : {like_z, like_x, like_neither}) stopped_[kind] |= more[kind];
    }
    // Whether no gate that mixes one of these qubits, or commutes with Z there, can run.
    bool stop_all(Mask qubits) const { return stopped_[like_neither] == qubits && stopped_[like_z] == qubits; }

private:
    ByKind stopped_{};
};

// What is known of the gates so far: for each qubit and each way to act on it, a value of all gates that may not be passed.
template <class Value>
class Frontier {
public:
    explicit Frontier(const Value& start = {}) {
        for (auto& kind : values_) kind.fill(start);
    }

    // Calls f with the values of all gates that `a` must come after.
    template <class F>
    void before(const Action& a, F f) const {
        const ByKind acting = acts(a);
        for (int kind : {like_z, like_x, like_neither}) each_bit(acting[kind], [&](int q) { f(values_[kind][q]); });
    }

    // Calls f with the values of all gates to come that `a` must come before.
    template <class F>
    void after(const Action& a, F f) {
        const ByKind stopping = stops(a);
        for (int kind : {like_z, like_x, like_neither}) each_bit(stopping[kind], [&](int q) { f(values_[kind][q]); });
    }

    const Value& at(Kind kind, int qubit) const { return values_[kind][qubit]; }

private:
    std::array<std::array<Value, 64>, 3> values_;
};

}  // namespace qdist
