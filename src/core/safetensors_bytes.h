// A safetensors file as bytes.
#pragma once

#include <string>
#include <string_view>

#include "rtf/safetensors.h"

namespace rtf {

// "F32", "F64", "BF16" or "I8".
const char* safetensors_name(DataType type);

// `path` is for error messages only.
TensorFile parse_safetensors(std::string_view bytes, const std::string& path);
std::string safetensors_bytes(const TensorFile& file, const std::string& path);

}  // namespace rtf
