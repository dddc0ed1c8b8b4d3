// A filter as a model of one layer, with as many inputs and outputs as it has channels.
#pragma once

#include "rtf/export.h"
#include "rtf/filter_file.h"
#include "rtf/realize.h"

namespace rtf::python {

Exported realize_filter(const AnyFilter& filter, const RealizeOptions& options);

}  // namespace rtf::python
