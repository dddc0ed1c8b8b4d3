#include "core/filter_bytes.h"
#include "core/safetensors_bytes.h"
#include "fuzz.h"

using namespace rtf;

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  TensorFile file;
  if (!fuzz::accepted([&] { file = parse_safetensors(bytes, "fuzz.safetensors"); })) return 0;
  const TensorFile again = parse_safetensors(safetensors_bytes(file, "again.safetensors"), "again.safetensors");
  bool same = again.metadata == file.metadata && again.tensors.size() == file.tensors.size();
  for (const auto& [name, array] : file.tensors) {
    const auto found = again.tensors.find(name);
    same = same && found != again.tensors.end() && found->second.shape == array.shape &&
           found->second.type == array.type && fuzz::same_bits(found->second.values, array.values);
  }
  fuzz::expect(same, "tensors that were read change when they are written and read again");

  // The same bytes as a filter.
  AnyFilter filter;
  if (!fuzz::accepted([&] { filter = parse_filter(bytes, "fuzz.safetensors"); })) return 0;
  const std::string written = filter_bytes(filter, "fuzz.safetensors");
  fuzz::expect(filter_bytes(parse_filter(written, "fuzz.safetensors"), "fuzz.safetensors") == written,
               "a filter that was read changes when it is written and read again");
  return 0;
}
