// Programs in double precision.
#include "bind/program.hpp"

void bind_program_double(nb::module_& m) {
    auto program = bindings::bind_program_of<double>(m, "Program128");
    bindings::bind_runs<double, double>(program);
    bind_rounded_runs(program);
    m.attr("lane_bits") = nb::make_tuple(qdist::Simd<float>::lane_bits, qdist::Simd<double>::lane_bits);
}
