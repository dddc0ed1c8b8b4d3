#include "core/checkpoint_parts.h"

#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <vector>

#include "core/atomic_file.h"
#include "core/checksum.h"
#include "core/printable.h"
#include "rtf/error.h"

namespace rtf {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr const char* operation = "checkpoint";
constexpr const char* extension = ".part";
// No safetensors file begins so: it would have a header of more than 10^18 bytes.
constexpr std::string_view beginning = "{\"parts\":[";

[[noreturn]] void fail(const std::string& path, const std::string& why) {
  throw Error(ErrorCode::format, operation, fmt::format("{}: {}", path, why));
}

struct Part {
  std::string file;
  std::uint64_t bytes = 0;
  std::uint32_t crc32 = 0;
};

// The parts that an index names. Nothing when `text` is no index.
std::optional<std::vector<Part>> parts_of(std::string_view text, const std::string& path) {
  if (!text.starts_with(beginning)) return {};
  std::vector<Part> parts;
  try {
    const json index = json::parse(text);
    for (const json& entry : index.at("parts")) {
      parts.push_back({entry.at("file").get<std::string>(), entry.at("bytes").get<std::uint64_t>(),
                       entry.at("crc32").get<std::uint32_t>()});
    }
  } catch (const json::exception&) {
    fail(path, "damaged: not the index of a checkpoint in parts");
  }
  for (const Part& part : parts) {
    // Another folder's file is none of ours.
    if (part.file.empty() || fs::path(part.file).filename() != part.file) {
      fail(path, fmt::format("names the part '{}'", printable(part.file)));
    }
  }
  return parts;
}

}  // namespace

void write_parts(const std::string& index, const std::string& stem, std::string_view bytes, std::size_t most) {
  const fs::path folder = fs::path(index).parent_path();
  const std::size_t count = (bytes.size() + most - 1) / most;
  json list = json::array();
  for (std::size_t i = 0; i < count; ++i) {
    const std::string_view part = bytes.substr(i * most, most);
    const std::uint32_t crc = crc32(0, part.data(), part.size());
    const std::string file = fmt::format("{}-{:08x}-{}of{}{}", stem, crc, i + 1, count, extension);
    StagedFile((folder / file).string(), part, operation).commit();
    list.push_back({{"file", file}, {"bytes", part.size()}, {"crc32", crc}});
  }
  StagedFile(index, json{{"parts", list}}.dump() + "\n", operation).commit();
}

std::string read_parts(const std::string& path) {
  std::string text = read_file(path, operation);
  const auto parts = parts_of(text, path);
  if (!parts) return text;
  std::string bytes;
  for (const Part& part : *parts) {
    const std::string file = (fs::path(path).parent_path() / part.file).string();
    std::error_code ignored;
    if (!fs::exists(file, ignored)) fail(path, fmt::format("incomplete: its part {} is not there", part.file));
    const std::string more = read_file(file, operation);
    if (more.size() != part.bytes || crc32(0, more.data(), more.size()) != part.crc32) {
      fail(path, fmt::format("damaged: its part {} is not what was written", part.file));
    }
    bytes += more;
  }
  return bytes;
}

void remove_unused_parts(const std::string& folder) {
  std::set<std::string> used;
  std::string damaged;  // indices as they are
  std::vector<fs::path> parts;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(folder, ignored)) {
    const fs::path& path = entry.path();
    if (path.extension() == extension) parts.push_back(path);
    if (path.extension() != ".safetensors") continue;
    // A whole checkpoint is large, and its first bytes tell it from an index.
    std::string head(beginning.size(), '\0');
    std::ifstream file(path, std::ios::binary);
    if (!file.read(head.data(), static_cast<std::streamsize>(head.size())) || head != beginning) continue;
    const std::string text = read_file(path.string(), operation);
    try {
      const auto named = parts_of(text, path.string());
      for (const Part& part : named.value()) used.insert(part.file);
    } catch (const Error&) {
      damaged += text;
    }
  }
  for (const fs::path& part : parts) {
    const std::string file = part.filename().string(), stem = '"' + file.substr(0, file.find('-') + 1);
    // Parts of the step that a damaged index names may still be of use to someone.
    if (!used.contains(file) && damaged.find(stem) == std::string::npos) fs::remove(part, ignored);
  }
}

}  // namespace rtf
