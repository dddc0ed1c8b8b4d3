// Filter files: JSON or safetensors (by the suffix .safetensors), a (G, n), b (H, n), h0 (H), and "length" for a
// trained numerator.
#pragma once

#include <string>
#include <variant>

#include "rtf/transfer_function.h"

namespace rtf {

using AnyTransferFunction = std::variant<TransferFunction, TrainedTransferFunction>;

AnyTransferFunction read_filter(const std::string& path);

// Appears whole or not at all.
void write_filter(const std::string& path, const AnyTransferFunction& filter);

}  // namespace rtf
