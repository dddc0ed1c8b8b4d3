// What filter and step ask of their arguments, on every device.
#pragma once

#include <tuple>
#include <vector>

#include "rtf_torch/operators.h"

namespace rtf::ops {

using Quintuple = std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor>;

void check_filter_input(const char* operation, const Tensor& u, const Tensor& b);
void check_step_input(const Tensor& u, const Tensor& b);
void check_state(const char* operation, const Tensor& state, int64_t sequences, const Tensor& b);
// Throws when both are given.
void check_layout(const char* operation, const OptionalTensor& lengths, const OptionalTensor& offsets);

// Rows (denominators, columns) for each of the channels that share them, and the sums over those channels.
Tensor spread_rows(const Tensor& rows, const c10::SymInt& channels);
Tensor gathered_rows(const Tensor& rows, const c10::SymInt& denominators);

Quintuple filter_backward(const Tensor& dy, const OptionalTensor& dstate, const Tensor& u, const Tensor& a,
                          const Tensor& b, const Tensor& h0, const OptionalTensor& initial_state,
                          const OptionalTensor& lengths, const OptionalTensor& offsets);
// Gradients to dy, dstate, u, a, b, h0 and the initial state from those, and lengths and offsets, and from gradients to
// the results of filter_backward.
std::vector<Tensor> filter_second_derivatives(const std::vector<Tensor>& saved, const std::vector<Tensor>& gradients);

}  // namespace rtf::ops
