// A safetensors file as bytes.
#pragma once

#include <string>
#include <string_view>

#include "rtf/safetensors.h"

namespace rtf {

// `path` is for error messages only.
TensorFile parse_safetensors(std::string_view bytes, const std::string& path);
std::string safetensors_bytes(const TensorFile& file, const std::string& path);

}  // namespace rtf
