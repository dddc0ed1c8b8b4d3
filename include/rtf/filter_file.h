// Filter files: JSON or safetensors (by the suffix .safetensors), a (G, n), b (H, n), h0 (H), and "length" for a
// trained numerator. JSON with a "form" holds another form of each channel; docs/files.md has them all.
#pragma once

#include <string>
#include <variant>
#include <vector>

#include "rtf/conversion.h"
#include "rtf/transfer_function.h"

namespace rtf {

using AnyTransferFunction = std::variant<TransferFunction, TrainedTransferFunction>;

// Appears whole or not at all.
void write_filter(const std::string& path, const AnyTransferFunction& filter);

// What a file holds, in its own form: the channels of one form, or one system of several inputs and outputs.
using AnyFilter =
    std::variant<TransferFunction, TrainedTransferFunction, std::vector<System>, StateSpace, MimoTransferFunction>;

AnyFilter read_any_filter(const std::string& path);

// The channels as one transfer function, converted where they are in another form than tf; refused when that leaves
// fewer than three digits, with the name of the file.
AnyTransferFunction to_coefficients(AnyFilter filter, const std::string& path);
// Both: what a file holds, as a transfer function.
AnyTransferFunction read_filter(const std::string& path);

void write_any_filter(const std::string& path, const AnyFilter& filter);

}  // namespace rtf
