// The checkpoints of `rtf train`: what rtf.load makes a model of.
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>

#include <optional>
#include <utility>

#include "core/checkpoint_file.h"
#include "python/arrays.h"
#include "python/bindings.h"

namespace rtf::python {
namespace {

using Metadata = std::map<std::string, std::string>;

Out values_of(const Array& array) {
  if (array.type == DataType::f64) return to_numpy(array.values, array.shape);
  Buffer<float> narrow(array.values.size());
  std::copy(array.values.begin(), array.values.end(), narrow.data());  // were float32 in the file
  return narrow.to_numpy(array.shape);
}

// Metadata and tensors; nothing for a file that `rtf export` wrote.
std::optional<std::pair<Metadata, nb::dict>> read_checkpoint(const std::string& path) {
  const std::optional<TensorFile> file = computing("load", [&]() -> std::optional<TensorFile> {
    TensorFile read = read_model_or_checkpoint(path);
    if (is_exported_model(read)) return {};
    check_checkpoint(read, path);
    return read;
  });
  if (!file) return {};
  nb::dict tensors;
  for (const auto& [name, array] : file->tensors) tensors[name.c_str()] = values_of(array);
  return {{file->metadata, tensors}};
}

}  // namespace

void add_checkpoint(nb::module_& m) {
  m.def("read_checkpoint", &read_checkpoint, nb::arg("path"),
        nb::sig("def read_checkpoint(path: str) -> tuple[dict[str, str], dict[str, numpy.typing.NDArray]] | None"));
}

}  // namespace rtf::python
