// A filter as a model of one layer, with as many inputs and outputs as it has channels.
#pragma once

#include <cstddef>

#include "rtf/export.h"
#include "rtf/filter_file.h"
#include "rtf/realize.h"

namespace rtf::python {

// `length`: samples over which the error of a recurrence is measured, and a kernel refitted; a trained filter has its
// own.
Exported realize_filter(const AnyFilter& filter, std::size_t length, const RealizeOptions& options);

}  // namespace rtf::python
