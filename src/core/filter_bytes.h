// A filter file as bytes.
#pragma once

#include <string>
#include <string_view>

#include "rtf/filter_file.h"

namespace rtf {

// `path` is for error messages, and its suffix tells safetensors from JSON.
AnyFilter parse_filter(std::string_view bytes, const std::string& path);
std::string filter_bytes(const AnyFilter& filter, const std::string& path);

}  // namespace rtf
