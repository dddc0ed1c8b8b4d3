// What the model computes across channels, on the memory order of each device: channels last on the CPU, length last on
// the GPU, where a product over the channels of all positions is one matrix product a sequence and nothing is
// transposed.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>

namespace rtf::nn {

// x (batch, length, features) times weight (outputs, features), plus bias (outputs). bfloat16 x: the product is
// bfloat16, accumulated in float32, and the gradient of the weight float32.
at::Tensor project(const at::Tensor& x, const at::Tensor& weight, const std::optional<at::Tensor>& bias = {});

// The same of x whose samples of a row lie side by side in memory, as those of the answer, without bias and by torch's
// own operations; and from the answer's gradient dy those of x and of the weight.
at::Tensor product(const at::Tensor& x, const at::Tensor& weight);
at::Tensor product_to_x(const at::Tensor& dy, const at::Tensor& weight);
at::Tensor product_to_weight(const at::Tensor& dy, const at::Tensor& x);

// The mean over the first lengths[s] positions of each sequence, or over all: (batch, channels).
at::Tensor pool(const at::Tensor& x, const std::optional<at::Tensor>& lengths);

// x at its last `count` positions.
at::Tensor last_positions(const at::Tensor& x, int64_t count);

}  // namespace rtf::nn
