// read_filter and write_filter of rtf.filter_file.
#include "rtf/filter_file.h"

#include "python/bindings.h"
#include "python/filter_values.h"

namespace rtf::python {
namespace {

// Whether a file's filter has an axis of channels: not for one channel, which is what most files have.
struct HasRows {
  bool operator()(const Coefficients& tf) const { return tf.channels > 1; }
  bool operator()(const std::vector<System>& channels) const { return channels.size() > 1; }
  bool operator()(const StateSpace&) const { return false; }
  bool operator()(const MimoTransferFunction&) const { return false; }
};

nb::object read_file(const std::string& path) {
  const AnyFilter filter = computing("read_filter", [&] { return read_any_filter(path); });
  return write_filter(filter, std::visit(HasRows(), filter));
}

void write_file(const std::string& path, const PackedFilter& from) {
  const FilterValue value = read_filter("write_filter", from);
  computing("write_filter", [&] { write_any_filter(path, value.filter); });
}

}  // namespace

void add_filter_file(nb::module_& m) {
  m.def("read_filter", &read_file, nb::arg("path"));
  m.def("write_filter", &write_file, nb::arg("path"), nb::arg("filter"));
}

}  // namespace rtf::python
