// Tensors as what the elementwise kernels take: (batch, channels, length) in memory, nothing between the rows.
#pragma once

#include "cuda/elements.h"
#include "cuda/wrapped_kernel.h"
#include "torch/cuda/bridge.h"

namespace rtf::ops {

inline cuda::Type element_type(const char* operation, at::ScalarType type) {
  compute_type(operation, type);  // refuses all others
  return type == at::kDouble ? cuda::Type::float64 : type == at::kFloat ? cuda::Type::float32 : cuda::Type::bfloat16;
}

inline cuda::Numbers numbers(const at::Tensor& contiguous) {
  return {contiguous.data_ptr(), element_type("numbers", contiguous.scalar_type())};
}

// What is not a signal (batch, length, channels) counts as one of length 1, which keeps the order of its elements.
inline at::Tensor packed(const at::Tensor& x) {
  if (x.dim() == 3) return is_length_last(x) ? x : as_length_last(x).transpose(1, 2).contiguous().transpose(1, 2);
  return x.contiguous().view({c10::multiply_integers(x.sizes().slice(0, x.dim() - 1)), 1, x.size(-1)});
}

// The other way: what was computed of packed(), in the sizes that it had before.
inline at::Tensor unpacked(const at::Tensor& x, at::IntArrayRef sizes) {
  return x.sizes() == sizes ? x : x.reshape(sizes);
}

// The type that a norm's kernel writes: that of x, or bfloat16 of float32.
inline at::ScalarType normalized_type(at::ScalarType x, at::ScalarType wanted) {
  return x == at::kFloat && wanted == at::kBFloat16 ? wanted : x;
}

// Parameters in the type that they are computed with.
inline at::Tensor parameter(const char* operation, const at::Tensor& values, const at::Tensor& signal) {
  return values.to(compute_type(operation, signal.scalar_type())).contiguous();
}

}  // namespace rtf::ops
