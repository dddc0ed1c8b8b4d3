// What a device is called. Free of torch.
#pragma once

#include <optional>
#include <string>

namespace rtf::train {

// The number of the GPU that "cuda" or "cuda:N" names, -1 for "cpu"; none: no name of a device. N goes up to 127, as
// far as torch counts.
std::optional<int> device_number(const std::string& name);

}  // namespace rtf::train
