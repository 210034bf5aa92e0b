// Sets the matrices of a program's blocks in the order in which they will run, and tracks the scale factor that is missing
// from the amplitudes after each.
//
// There are two such factors. Givens rotations drop their cosines (tile/givens.hpp); these are multiplied into the next
// unconditional matrix of the stage, else into the last rotation. And in single precision the rounding of a matrix's
// entries scales all amplitudes by a factor within 6e-8 of one, the same in every run; in a repeated gate these errors
// add up and the norm drifts. The factor is known here, so the next unconditional matrix, or table of phases, is divided by
// it before it is rounded itself.
#pragma once
#include <cmath>
#include <type_traits>
#include <utility>

#include "gates/formulas.hpp"
#include "tile/dense.hpp"
#include "tile/diagonal.hpp"
#include "tile/pair.hpp"
#include "tile/rotations.hpp"

namespace qdist {

// The factor by which rounding a multiple of a unitary matrix to Real scales the norm of what it is applied to; 1 of a
// matrix that is zero, or so small that it is rounded to zero.
template <class Real>
double rounding_scale(const Complex* m, std::size_t entries) {
    double exact = 0, rounded = 0;
    for (const Complex* z = m; z != m + entries; ++z) {
        const double re = Real(z->real()), im = Real(z->imag());
        exact += std::norm(*z);
        rounded += re * re + im * im;
    }
    return rounded > 0 ? std::sqrt(rounded / exact) : 1;
}

template <class Real>
class MatrixSetter {
public:
    // everywhere: whether the block runs on all tiles. givens: as which Givens rotations it may run.
    void set(Dense<Real>& dense, Matrix m, bool everywhere, GivensForms givens) {
        everywhere = everywhere && dense.is_unconditional();
        const double cosine = m[0].real();
        if (everywhere && std::abs(cosine) > smallest_cosine && std::abs(cosines_ * cosine) > smallest &&
            dense.set_givens(m, givens)) {
            before_last_ = cosines_;
            // The matrix may be a multiple of a rotation, of any length.
            const double tangent = dense.givens()->tangent;
            cosines_ *= rounds ? cosine * cosine_of(Real(tangent)) / cosine_of(tangent) : cosine;
            last_ = &dense;
            last_matrix_ = std::move(m);
            return;
        }
        if (everywhere) {
            bring_in(dense, m, cosines_);
            last_ = nullptr;
        } else
            dense.set(m);
    }

    // Of a pair, which runs everywhere. What it is divided into is a unitary matrix up to rounding in double precision alone.
    void set(Pair<Real>& pair) {
        correction_ = 1 / pair.set(cosines_ * correction_);
        cosines_ = 1;
        last_ = nullptr;
    }

    void set(Rotations<Real>& rotations, const double* angles) {
        // Several strings leave some amplitudes alone, and a factor would change those too.
        const bool everywhere = rotations.is_unconditional() && rotations.is_one_string();
        rotations.set(angles, rounds && everywhere ? correction_ : 1);
        note(rotations);
    }

    // Phases take what earlier roundings left, as no matrix may follow them: of circuits of Pauli rotations there is none.
    void set(Diagonal<Real>& diagonal, const double* angles) {
        const bool takes = rounds && diagonal.multiplies_all() && std::abs(correction_ - 1) > worth_a_factor;
        diagonal.set(angles, takes ? correction_ : 1);
        note(diagonal);
    }

    // A block that is set already will run next.
    void note(const Rotations<Real>& rotations) {
        if (rounds && rotations.is_unconditional()) correction_ /= rotations.scale();
    }
    void note(const Diagonal<Real>& diagonal) {
        if (rounds) correction_ /= diagonal.mean_scale();
    }

    // The factor that is now missing from the tile's amplitudes.
    double lacking() const { return cosines_ * correction_; }

    // Ends a stage. Returns whether cosines were still pending; they are then multiplied into the last rotation.
    bool finish_stage() {
        if (!last_ || cosines_ == 1) {
            last_ = nullptr;
            return false;
        }
        bring_in(*last_, last_matrix_, before_last_);
        last_ = nullptr;
        return true;
    }

private:
    static constexpr bool rounds = std::is_same_v<Real, float>;
    // Single precision has room for much smaller factors, also squared.
    static constexpr double smallest_cosine = 0x1p-8, smallest = 0x1p-24;

    // Half of what rounding a phase may change it by.
    static constexpr double worth_a_factor = 0x1p-25;

    static double cosine_of(double tangent) { return 1 / std::sqrt(1 + tangent * tangent); }

    // Sets an unconditional matrix, multiplied by the pending cosines.
    void bring_in(Dense<Real>& dense, Matrix& m, double cosines) {
        const double factor = cosines * correction_;
        if (factor != 1)
            for (Complex& z : m) z *= factor;
        dense.set(m);
        if (rounds) correction_ = 1 / rounding_scale<Real>(m.data(), m.size());
        cosines_ = 1;
    }

    double cosines_ = 1;      // the product of the pending cosines of this stage
    double correction_ = 1;   // corrects the scale of earlier roundings
    double before_last_ = 1;  // cosines_ without the last rotation's
    Dense<Real>* last_ = nullptr;
    Matrix last_matrix_;
};

}  // namespace qdist
