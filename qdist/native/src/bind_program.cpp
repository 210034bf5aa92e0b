#include <nanobind/nanobind.h>

void bind_program(nanobind::module_&) {}
