// length_last and channels_last on the GPU, and what keeps the signals of other operators in their memory order.
#include "torch/memory_order.h"

#include <ATen/Functions.h>
#include <torch/library.h>

#include "cuda/transpose.h"
#include "torch/cuda/bridge.h"

namespace rtf::ops {
namespace {

// Torch copies the rest: numbers of 1 and 16 bytes, and what is not contiguous.
bool can_be_turned(const at::Tensor& x) {
  return x.is_contiguous() && (x.element_size() == 2 || x.element_size() == 4 || x.element_size() == 8);
}

// (batch, columns, rows), contiguous, of (batch, rows, columns), contiguous too: torch's copy takes four times as long.
at::Tensor turned(const at::Tensor& x, const Device& device) {
  const at::Tensor result = empty_on(x.device(), {x.size(0), x.size(2), x.size(1)}, x.scalar_type());
  call([&] {
    cuda::transpose({x.const_data_ptr(), result.mutable_data_ptr(), x.size(0), x.size(1), x.size(2), x.element_size()},
                    device);
  });
  return result;
}

at::Tensor to_length_last(const at::Tensor& x) {
  return can_be_turned(x) ? turned(x, Device(x)).transpose(1, 2) : copied_length_last(x);
}

}  // namespace

at::Tensor as_length_last(const at::Tensor& signal) {
  return signal.stride(1) == 1 || signal.size(1) <= 1 ? signal : to_length_last(signal);
}

at::Tensor as_result(const at::Tensor& values, const at::Tensor& x, at::ScalarType type, const Device& device) {
  const bool same = x.dim() != 3 || values.scalar_type() != type || x.stride(1) == 1 || values.is_contiguous();
  if (same || !can_be_turned(values.transpose(1, 2))) return as_result(values, x, type);
  return turned(values.transpose(1, 2), device);
}

at::Tensor empty_length_last(const at::Tensor& signal, at::ScalarType type, std::optional<int64_t> channels) {
  const int64_t batch = signal.size(0), length = signal.size(1), rows = channels.value_or(signal.size(2));
  // Of a single position both orders are the same memory; these are the strides of a contiguous tensor.
  const int64_t next = length == 1 ? rows : 1;
  return at::empty_strided({batch, length, rows}, {length * rows, next, length}, signal.options().dtype(type));
}

namespace {

at::Tensor length_last_cuda(const at::Tensor& x) {
  check_signal("length_last", "x", x);
  return to_length_last(x);
}

at::Tensor channels_last_cuda(const at::Tensor& x) {
  check_signal("channels_last", "x", x);
  const at::Tensor rows = x.transpose(1, 2);
  return can_be_turned(rows) ? turned(rows, Device(x)) : copied_channels_last(x);
}

}  // namespace

TORCH_LIBRARY_IMPL(rtf, CUDA, m) {
  m.impl("length_last", length_last_cuda);
  m.impl("channels_last", channels_last_cuda);
}

}  // namespace rtf::ops
