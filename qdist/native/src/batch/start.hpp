// The product state that a row program starts with: first rotations of single qubits, applied to |0> of their own qubit.
//
// The adjoint of the product: with c_q the bra after qubits q + 1, q + 2, ... are contracted with their states, and p_q the
// product of the states of qubits below q, the bra of qubit q alone is r_q[b] = sum over l of c_q(b, l) conj(p_q(l)).
#pragma once
#include <vector>

#include "batch/angles.hpp"
#include "batch/walk.hpp"

namespace qdist::batch {

// A rotation about an axis (0, 1, 2: X, Y, Z) of one qubit.
struct Factor {
    int qubit, axis, angle;
};

// A qubit of each row: real and imaginary parts of the amplitudes of |0> and |1>.
template <class Real>
struct Qubit {
    Vec<Real> a, b, c, d;

    void turn(int axis, Vec<Real> cosine, Vec<Real> sine) {
        const Qubit x = *this;
        if (axis == 0)
            *this = {cosine * x.a + sine * x.d, cosine * x.b - sine * x.c, cosine * x.c + sine * x.b, cosine * x.d - sine * x.a};
        else if (axis == 1)
            *this = {cosine * x.a - sine * x.c, cosine * x.b - sine * x.d, cosine * x.c + sine * x.a, cosine * x.d + sine * x.b};
        else
            *this = {cosine * x.a + sine * x.b, cosine * x.b - sine * x.a, cosine * x.c - sine * x.d, cosine * x.d + sine * x.c};
    }

    // Re <this| -i P |ket>
    Vec<Real> sum(int axis, const Qubit& ket) const {
        if (axis == 0) return a * ket.d - b * ket.c + c * ket.b - d * ket.a;
        if (axis == 1) return c * ket.a - a * ket.c + d * ket.b - b * ket.d;
        return a * ket.b - b * ket.a - c * ket.d + d * ket.c;
    }
};

template <class Real>
void start_qubits(const std::vector<Factor>& factors, const Turn<Real>* turns, int n, Qubit<Real>* qubits) {
    for (int q = 0; q < n; ++q) qubits[q] = {splat(Real(1)), Vec<Real>{}, Vec<Real>{}, Vec<Real>{}};
    for (const Factor& f : factors) qubits[f.qubit].turn(f.axis, turns[f.angle].cosine, turns[f.angle].sine);
}

// out(b, l) = in(l) v[b] for amplitudes l below `half`; out may be in.
template <class Real>
[[gnu::always_inline]] inline void append_qubit(const Qubit<Real>& v, std::size_t half, const Real* in_re, const Real* in_im, Real* re, Real* im) {
    constexpr std::size_t W = rows<Real>;
    for (std::size_t l = 0; l < half; ++l) {
        const Vec<Real> x = load(in_re + l * W), y = load(in_im + l * W);
        store(re + l * W, x * v.a - y * v.b);
        store(im + l * W, x * v.b + y * v.a);
        store(re + (l + half) * W, x * v.c - y * v.d);
        store(im + (l + half) * W, x * v.d + y * v.c);
    }
}

template <class Real>
void start_state(const Qubit<Real>* qubits, int n, Real* state) {
    const std::size_t size = std::size_t(1) << n;
    Real *const re = state, *const im = state + size * rows<Real>;
    store(re, splat(Real(1)));
    store(im, Vec<Real>{});
    for (int q = 0; q < n; ++q) append_qubit(qubits[q], std::size_t(1) << q, re, im, re, im);
}

// Adds the derivatives by the factors' angles. bra: pulled back to the start; it and `room`, a state of the same size, are
// overwritten. add(factor, lanes) gets each derivative.
template <class Real, class Add>
void start_gradient(const std::vector<Factor>& factors, const Turn<Real>* turns, Qubit<Real>* qubits, int n, Real* bra, Real* room, Add add) {
    constexpr std::size_t W = rows<Real>;
    const std::size_t size = std::size_t(1) << n;
    Real *const cr = bra, *const ci = bra + size * W, *const pr = room, *const pi = room + size * W;
    // p_q is at places 2^q .. 2^(q + 1).
    store(pr + W, splat(Real(1)));
    store(pi + W, Vec<Real>{});
    for (int q = 0; q + 1 < n; ++q) {
        const std::size_t half = std::size_t(1) << q;
        append_qubit(qubits[q], half, pr + half * W, pi + half * W, pr + 2 * half * W, pi + 2 * half * W);
    }
    std::vector<Qubit<Real>, AlignedAllocator<Qubit<Real>>> bras(n);
    for (int q = n - 1; q >= 0; --q) {
        const std::size_t half = std::size_t(1) << q;
        const Qubit<Real> v = qubits[q];
        LaneSums<Real> total[4];
        for (std::size_t start = 0; start < half; start += 64) {
            Qubit<Real> r{};
            for (std::size_t l = start; l < std::min(half, start + 64); ++l) {
                const Vec<Real> a = load(cr + l * W), b = load(ci + l * W), c = load(cr + (l + half) * W), d = load(ci + (l + half) * W);
                const Vec<Real> x = load(pr + (half + l) * W), y = load(pi + (half + l) * W);
                r.a += a * x + b * y;
                r.b += b * x - a * y;
                r.c += c * x + d * y;
                r.d += d * x - c * y;
                store(cr + l * W, a * v.a + b * v.b + c * v.c + d * v.d);
                store(ci + l * W, b * v.a - a * v.b + d * v.c - c * v.d);
            }
            total[0].add(r.a), total[1].add(r.b), total[2].add(r.c), total[3].add(r.d);
        }
        for (std::size_t lane = 0; lane < W; ++lane) {
            bras[q].a[lane] = Real(total[0].lane[lane]);
            bras[q].b[lane] = Real(total[1].lane[lane]);
            bras[q].c[lane] = Real(total[2].lane[lane]);
            bras[q].d[lane] = Real(total[3].lane[lane]);
        }
    }
    for (std::size_t k = factors.size(); k-- > 0;) {
        const auto [qubit, axis, angle] = factors[k];
        add(factors[k], bras[qubit].sum(axis, qubits[qubit]));
        qubits[qubit].turn(axis, turns[angle].cosine, -turns[angle].sine);
        bras[qubit].turn(axis, turns[angle].cosine, -turns[angle].sine);
    }
}

}  // namespace qdist::batch
