// The parts of the module rtf._core.
#pragma once

#include <nanobind/nanobind.h>

namespace rtf::python {

void add_checkpoint(nanobind::module_& m);
void add_deployment(nanobind::module_& m);
void add_filter_file(nanobind::module_& m);
void add_functions(nanobind::module_& m);
void add_sequences(nanobind::module_& m);
void add_stream(nanobind::module_& m);
void add_toolbox(nanobind::module_& m);

}  // namespace rtf::python
