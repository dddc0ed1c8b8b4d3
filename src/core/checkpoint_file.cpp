#include "core/checkpoint_file.h"

#include <fmt/format.h>

#include "core/checkpoint_parts.h"
#include "core/checksum.h"
#include "core/printable.h"
#include "core/safetensors_bytes.h"
#include "rtf/error.h"

namespace rtf {
namespace {

[[noreturn]] void fail(const std::string& path, const std::string& why, ErrorCode code = ErrorCode::format) {
  throw Error(code, "checkpoint", fmt::format("{}: {}", path, why));
}

}  // namespace

TensorFile read_model_or_checkpoint(const std::string& path) { return parse_safetensors(read_parts(path), path); }

bool is_exported_model(const TensorFile& file) {
  const auto format = file.metadata.find("format");
  return format != file.metadata.end() && format->second.starts_with("rtf-model ");
}

void check_checkpoint(const TensorFile& file, const std::string& path) {
  const auto format = file.metadata.find("format"), crc = file.metadata.find("crc32");
  if (format == file.metadata.end()) fail(path, "its metadata has no 'format': not a checkpoint");
  if (is_exported_model(file)) fail(path, "it is an exported model; a run or a checkpoint is needed");
  if (format->second != checkpoint_format) {
    fail(path,
         fmt::format("is of format '{}'; this version reads format {}", printable(format->second), checkpoint_format),
         ErrorCode::unsupported);
  }
  if (crc == file.metadata.end()) fail(path, "its metadata has no 'crc32': not a checkpoint");
  if (crc->second != std::to_string(checksum(file))) fail(path, "damaged: its checksum does not match its contents");
  for (const auto& [name, array] : file.tensors) {
    if (array.type != DataType::f32 && array.type != DataType::f64)
      fail(path, fmt::format("tensor '{}' is neither F32 nor F64", printable(name)), ErrorCode::unsupported);
  }
}

}  // namespace rtf
