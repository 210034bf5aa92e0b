// Programs in double precision on states in single precision.
#include "bind/program.hpp"

void bind_rounded_runs(nb::class_<qdist::Program<double>>& program) { bindings::bind_runs<double, float>(program); }
