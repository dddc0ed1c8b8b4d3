#include "train/tasks/idx_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "core/array_bytes.h"
#include "data/gzip_file.h"
#include "rtf/error.h"

namespace rtf::train {
namespace {

constexpr std::size_t block = std::size_t{1} << 20;  // memory follows what the file holds, not what its header claims

[[noreturn]] void fail(const std::string& path, const std::string& why, ErrorCode code = ErrorCode::format) {
  throw Error(code, "read_idx", fmt::format("{}: {}", path, why));
}

std::string find(const std::string& folder, const std::string& name) {
  namespace fs = std::filesystem;
  const std::string plain = (fs::path(folder) / name).string();
  std::error_code ignored;
  if (!fs::is_directory(folder, ignored)) {
    throw Error(ErrorCode::io, "read_idx",
                fmt::format("data.path is '{}', which is not a folder; it must hold {} or {}.gz", folder, name, name));
  }
  for (const std::string& path : {plain, plain + ".gz"}) {
    if (fs::is_regular_file(path, ignored)) return path;
  }
  throw Error(ErrorCode::io, "read_idx", fmt::format("data.path '{}' holds neither {} nor {}.gz", folder, name, name));
}

}  // namespace

IdxArray read_idx(const std::string& folder, const std::string& name, std::size_t dimensions) {
  const std::string path = find(folder, name);
  data::GzipFile reader(path, "read_idx");
  std::vector<std::uint8_t> header(4 * (1 + dimensions));
  if (reader.read(header.data(), header.size()) < header.size()) {
    fail(path,
         fmt::format("truncated: the header of an idx file of {} dimensions has {} bytes", dimensions, header.size()));
  }
  const auto number = [&](std::size_t i) {
    return std::uint32_t{header[4 * i]} << 24 | header[4 * i + 1] << 16 | header[4 * i + 2] << 8 | header[4 * i + 3];
  };
  const auto magic = static_cast<std::uint32_t>(0x0800 + dimensions);  // unsigned bytes
  if (number(0) != magic) fail(path, fmt::format("begins with {:#010x}, expected {:#010x}", number(0), magic));

  IdxArray array;
  for (std::size_t i = 0; i < dimensions; ++i) array.shape.push_back(number(1 + i));
  const auto count = element_count(array.shape);
  if (!count || *count == 0) fail(path, fmt::format("its header gives the sizes {}", shape_text(array.shape)));
  while (array.values.size() < *count) {
    const std::size_t have = array.values.size(), more = std::min(block, *count - have);
    array.values.resize(have + more);
    if (const std::size_t got = reader.read(array.values.data() + have, more); got < more) {
      fail(path, fmt::format("truncated: its header {} promises {} bytes, it has {}", shape_text(array.shape), *count,
                             have + got));
    }
  }
  std::uint8_t beyond;
  if (reader.read(&beyond, 1) != 0) {
    fail(path, fmt::format("has more than the {} bytes that its header {} promises", *count, shape_text(array.shape)));
  }
  return array;
}

}  // namespace rtf::train
