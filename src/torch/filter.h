// What filter and step ask of their arguments, on every device.
#pragma once

#include <tuple>

#include "rtf_torch/operators.h"

namespace rtf::ops {

using Quintuple = std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor>;

void check_filter_input(const char* operation, const Tensor& u, const Tensor& b);
void check_step_input(const Tensor& u, const Tensor& b);
void check_state(const char* operation, const Tensor& state, int64_t sequences, const Tensor& b);
// Throws when both are given.
void check_layout(const char* operation, const OptionalTensor& lengths, const OptionalTensor& offsets);

}  // namespace rtf::ops
