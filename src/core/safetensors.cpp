#include "rtf/safetensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "core/array_bytes.h"
#include "core/atomic_file.h"
#include "core/json.h"
#include "core/safetensors_bytes.h"
#include "rtf/error.h"

namespace rtf {
namespace {

using nlohmann::json;

constexpr std::size_t max_header = 100'000'000;  // the limit of the format's own reader

[[noreturn]] void fail(const std::string& path, const std::string& why, ErrorCode code = ErrorCode::format) {
  throw Error(code, "read_safetensors", fmt::format("{}: {}", path, why));
}

std::vector<std::size_t> sizes(const json& value, const std::string& path, const std::string& what) {
  if (!value.is_array()) fail(path, fmt::format("{} is {}, expected a list of sizes", what, json_text(value)));
  std::vector<std::size_t> result;
  for (const json& size : value) {
    if (!size.is_number_unsigned()) fail(path, fmt::format("{} holds {}, expected sizes", what, json_text(size)));
    result.push_back(size.get<std::size_t>());
  }
  return result;
}

struct TypeName {
  DataType type;
  const char* name;
};
constexpr TypeName type_names[] = {
    {DataType::f32, "F32"}, {DataType::f64, "F64"}, {DataType::bf16, "BF16"}, {DataType::int8, "I8"}};

struct Entry {
  std::string name;
  Array array;  // its values are read when all entries have been checked
  std::size_t begin, end;
};

// One entry of the header, checked against the `available` bytes that follow it.
Entry read_entry(const json& entry, const std::string& name, std::size_t available, const std::string& path) {
  const std::string what = fmt::format("tensor '{}'", printable(name));
  if (!entry.is_object()) fail(path, fmt::format("{} is {}, expected an object", what, json_text(entry)));
  for (const char* key : {"dtype", "shape", "data_offsets"}) {
    if (!entry.contains(key)) fail(path, fmt::format("{} has no '{}'", what, key));
  }
  if (entry.size() != 3) fail(path, what + " has keys other than dtype, shape and data_offsets");
  const json& dtype = entry["dtype"];
  const auto* type = std::find_if(std::begin(type_names), std::end(type_names),
                                  [&](const TypeName& known) { return dtype == known.name; });
  if (type == std::end(type_names)) {
    fail(path, fmt::format("{} has dtype {}; expected \"F32\", \"F64\", \"BF16\" or \"I8\"", what, json_text(dtype)),
         ErrorCode::unsupported);
  }

  Array array{sizes(entry["shape"], path, what + " shape"), {}, type->type};
  const auto offsets = sizes(entry["data_offsets"], path, what + " data_offsets");
  if (offsets.size() != 2 || offsets[0] > offsets[1] || offsets[1] > available) {
    fail(path, fmt::format("{} data_offsets {} are outside the {} bytes of values", what,
                           json_text(entry["data_offsets"]), available));
  }
  const auto count = element_count(array.shape);
  std::size_t expected = 0;
  if (!count || __builtin_mul_overflow(*count, size_of(array.type), &expected)) {
    fail(path, fmt::format("{} shape {} is too large", what, json_text(entry["shape"])));
  }
  if (offsets[1] - offsets[0] != expected) {
    fail(path, fmt::format("{} shape {} needs {} bytes, data_offsets give {}", what, json_text(entry["shape"]),
                           expected, offsets[1] - offsets[0]));
  }
  return {name, std::move(array), offsets[0], offsets[1]};
}

// The tensors must tile the values exactly: no hole, no overlap, no trailing bytes. Sorts the entries by place.
void check_tiling(std::vector<Entry>& entries, std::size_t size, const std::string& path) {
  std::sort(entries.begin(), entries.end(),
            [](const Entry& x, const Entry& y) { return std::pair(x.begin, x.end) < std::pair(y.begin, y.end); });
  std::size_t end = 0;
  for (const Entry& entry : entries) {
    if (entry.begin != end) {
      fail(path, fmt::format("tensor '{}' begins at byte {}, expected {}: the values overlap or leave a hole",
                             printable(entry.name), entry.begin, end));
    }
    end = entry.end;
  }
  if (end != size) fail(path, fmt::format("{} trailing bytes after the last tensor", size - end));
}

}  // namespace

const char* safetensors_name(DataType type) {
  return std::find_if(std::begin(type_names), std::end(type_names),
                      [&](const TypeName& known) { return type == known.type; })
      ->name;
}

TensorFile parse_safetensors(std::string_view bytes, const std::string& path) {
  if (bytes.size() < 8) fail(path, "truncated: a safetensors file begins with 8 bytes of header length");
  std::uint64_t header_length = 0;
  std::memcpy(&header_length, bytes.data(), 8);
  if (header_length > max_header || header_length > bytes.size() - 8) {
    fail(path, fmt::format("the header claims {} bytes, the file has {} left{}", header_length, bytes.size() - 8,
                           bytes[0] == '{' ? "; it begins as JSON does, as filter files may" : ""));
  }
  const std::string_view header_text(bytes.data() + 8, header_length);
  const std::string_view data = bytes.substr(8 + header_length);
  const json header = parse_json(header_text, path, "read_safetensors");
  if (!header.is_object()) fail(path, fmt::format("the header is {}, expected an object", json_text(header)));

  TensorFile file;
  std::vector<Entry> entries;
  for (const auto& [name, value] : header.items()) {
    if (name != "__metadata__") {
      entries.push_back(read_entry(value, name, data.size(), path));
      continue;
    }
    if (!value.is_object()) fail(path, fmt::format("__metadata__ is {}, expected an object", json_text(value)));
    for (const auto& [key, text] : value.items()) {
      if (!text.is_string()) {
        fail(path, fmt::format("metadata '{}' is {}, expected a string", printable(key), json_text(text)));
      }
      file.metadata[key] = text.get<std::string>();
    }
  }
  check_tiling(entries, data.size(), path);
  for (Entry& entry : entries) {
    entry.array.values = decode_values(data.substr(entry.begin, entry.end - entry.begin), entry.array.type);
    file.tensors[entry.name] = std::move(entry.array);
  }
  return file;
}

TensorFile read_safetensors(const std::string& path) {
  return parse_safetensors(read_file(path, "read_safetensors"), path);
}

std::string safetensors_bytes(const TensorFile& file, const std::string& path) {
  json header = json::object();
  if (!file.metadata.empty()) header["__metadata__"] = file.metadata;
  std::string data;
  for (const auto& [name, array] : file.tensors) {
    if (name == "__metadata__") {
      throw Error(ErrorCode::argument, "write_safetensors", "a tensor cannot be named __metadata__");
    }
    const std::size_t begin = data.size();
    encode_values(array, fmt::format("{}: tensor '{}'", path, name), "write_safetensors", data);
    header[name] = {
        {"dtype", safetensors_name(array.type)}, {"shape", array.shape}, {"data_offsets", {begin, data.size()}}};
  }
  std::string text;
  try {
    text = header.dump();
  } catch (const json::exception&) {
    throw Error(ErrorCode::argument, "write_safetensors", path + ": a name or metadata text is not valid UTF-8");
  }
  text.append((8 - text.size() % 8) % 8, ' ');  // keeps the values aligned
  const std::uint64_t header_length = text.size();
  std::string bytes(8, '\0');
  std::memcpy(bytes.data(), &header_length, 8);
  return bytes + text + data;
}

void write_safetensors(const std::string& path, const TensorFile& file) {
  StagedFile(path, safetensors_bytes(file, path), "write_safetensors").commit();
}

}  // namespace rtf
