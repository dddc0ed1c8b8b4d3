// The safetensors format: named tensors and string metadata in one file.
#pragma once

#include <cstddef>
#include <map>
#include <string>

#include "rtf/npy.h"

namespace rtf {

struct TensorFile {
  std::map<std::string, Array> tensors;  // F32, F64, BF16 and I8
  std::map<std::string, std::string> metadata;
};

// Checks every length, offset and shape of the header against the file before it reads a value.
TensorFile read_safetensors(const std::string& path);

// Appears whole or not at all.
void write_safetensors(const std::string& path, const TensorFile& file);

}  // namespace rtf
