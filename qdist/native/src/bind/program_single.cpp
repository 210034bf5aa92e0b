// Programs in single precision.
#include "bind/program.hpp"

void bind_program_single(nb::module_& m) {
    using namespace bindings;
    nb::class_<ProgramOf<float>, AnyProgram>(m, "Program64").def(nb::init<int>(), "num_bits"_a);
}
