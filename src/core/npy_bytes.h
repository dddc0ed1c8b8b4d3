// An npy file as bytes, for callers that stage several files before they commit one.
#pragma once

#include <string>
#include <string_view>

#include "rtf/npy.h"

namespace rtf {

// `path` is for error messages only.
Array parse_npy(std::string_view bytes, const std::string& path);
std::string npy_bytes(const Array& array, const std::string& path);
std::string npy_bytes(const ComplexArray& array, const std::string& path);

}  // namespace rtf
