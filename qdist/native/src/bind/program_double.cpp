// Programs in double precision, on states in double and in single precision: the same kernels, which are compiled once.
#include "bind/program.hpp"

void bind_program_double(nb::module_& m) {
    auto program = bindings::bind_program_of<double>(m, "Program128");
    bindings::bind_runs<double, double>(program);
    // On states in complex64, computed in double and rounded once a stage.
    bindings::bind_runs<double, float>(program);
    m.attr("lane_bits") = nb::make_tuple(qdist::Simd<float>::lane_bits, qdist::Simd<double>::lane_bits);
}
