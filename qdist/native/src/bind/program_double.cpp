// Programs in double precision, on states in double and in single precision: the same kernels, which are compiled once.
#include "bind/program.hpp"

void bind_program_double(nb::module_& m) {
    using namespace bindings;
    nb::class_<ProgramOf<double>, AnyProgram> program(m, "Program128");
    program.def(nb::init<int>(), "num_bits"_a);
    // Those in complex64 are computed in double and rounded once a stage.
    bind_runs_of_both(program);
    m.attr("lane_bits") = nb::make_tuple(qdist::Simd<float>::lane_bits, qdist::Simd<double>::lane_bits);
}
