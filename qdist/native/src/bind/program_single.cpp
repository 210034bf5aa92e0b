// Programs in single precision.
#include "bind/program.hpp"

void bind_program_single(nb::module_& m) {
    auto program = bindings::bind_program_of<float>(m, "Program64");
    bindings::bind_runs<float, float>(program);
}
