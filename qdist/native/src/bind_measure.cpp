#include <nanobind/nanobind.h>

void bind_measure(nanobind::module_&) {}
