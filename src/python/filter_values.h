// Filters as the values of rtf.forms: pairs of a form's name and its fields.
#pragma once

#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/variant.h>
#include <nanobind/stl/vector.h>

#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "core/runnable_filter.h"
#include "python/arrays.h"
#include "rtf/filter_file.h"

namespace rtf::python {

using Packed = std::pair<std::string, nb::tuple>;
using PackedFilter = std::variant<Packed, std::vector<Packed>>;

struct FilterValue {
  AnyFilter filter;
  bool rows = false;  // whether there is an axis of channels, or a list of them
};

FilterValue read_filter(const std::string& operation, const PackedFilter& from);
// The same with SciPy's vectors as a TransferFunction.
FilterValue read_with_coefficients(const std::string& operation, const PackedFilter& from);
std::string form_of(const PackedFilter& from);

// The same as responses and kernels are computed from it.
struct RunnableValue {
  RunnableFilter filter;
  bool rows = false;
  std::string name;  // of its form, for messages

  // (n), or (channels, n) with rows.
  Shape shape(std::size_t n) const;
};

RunnableValue read_runnable(const std::string& operation, const PackedFilter& from);

// Coefficients of the two conventions: SciPy's vectors where there is no h0. `channels` where a signal says how many.
struct CoefficientArrays {
  const In<double>& a;
  const In<double>& b;
  const std::optional<In<double>>& h0;
};
bool have_rows(const CoefficientArrays& from);
TransferFunction read_coefficients(const std::string& operation, const CoefficientArrays& from,
                                   std::optional<std::size_t> channels = std::nullopt);

// A pair, or a list of pairs for channels that are not coefficients.
nb::object write_filter(const AnyFilter& filter, bool rows);

}  // namespace rtf::python
