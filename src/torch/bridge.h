// Between tensors and the core: views, coefficients, torch's thread pool and torch's memory.
#pragma once

#include <ATen/ATen.h>

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "rtf/error.h"
#include "rtf/executor.h"
#include "rtf/kernel.h"
#include "rtf/signal.h"
#include "rtf/transfer_function.h"

namespace rtf::ops {

// The executor of every operator: at::parallel_for. Loading the library makes it the core's default too.
Executor& executor();

// Bytes from torch's allocator for one call.
class Scratch {
 public:
  explicit Scratch(std::size_t bytes);
  operator std::span<std::byte>() const { return {static_cast<std::byte*>(tensor_.data_ptr()), bytes_}; }

 private:
  at::Tensor tensor_;
  std::size_t bytes_;
};

// The type that samples of `type` are computed in: bfloat16 in float32.
at::ScalarType compute_type(const char* operation, at::ScalarType type);

// to() of the same type, too, takes its way through the dispatcher.
inline at::Tensor as_type(const at::Tensor& x, at::ScalarType type) { return x.scalar_type() == type ? x : x.to(type); }

// (batch, length, channels) with whatever strides it has.
template <class T>
Signal<T> signal(const at::Tensor& tensor) {
  return {static_cast<T*>(tensor.data_ptr()),
          static_cast<std::size_t>(tensor.size(0)),
          static_cast<std::size_t>(tensor.size(1)),
          static_cast<std::size_t>(tensor.size(2)),
          tensor.stride(0),
          tensor.stride(1),
          tensor.stride(2)};
}

// Throws unless x is (batch, length, channels).
void check_signal(const char* operation, const char* what, const at::Tensor& x);

// Whether x (batch, length, channels) has the samples of a row side by side, and nothing between the rows. Strides tell
// what a transposed view would; of a small layer the host makes views for longer than the GPU computes.
bool is_length_last(const at::Tensor& x);

// An empty result for x, with another last size where `channels` says so. Of a signal whose samples lie side by side it
// has them so too; of all else it is contiguous. Every device and the meta kernels keep to this.
at::Tensor empty_result(const at::Tensor& x, at::ScalarType type, std::optional<c10::SymInt> channels = std::nullopt);

// `values`, which the caller gives away, in the type and memory order of a result for x: copied only where they differ.
at::Tensor as_result(const at::Tensor& values, const at::Tensor& x, at::ScalarType type);

template <class T>
std::span<T> values(const at::Tensor& contiguous) {
  return {static_cast<T*>(contiguous.data_ptr()), static_cast<std::size_t>(contiguous.numel())};
}

// `lengths` of a padded batch on the host, one for each of `batch` sequences of at most `length` samples; empty when
// there are none.
std::vector<std::size_t> lengths_of(const char* operation, const std::optional<at::Tensor>& lengths, int64_t batch,
                                    int64_t length);
// `offsets` of a packed signal on the host, from 0 up to `length`; empty when there are none.
std::vector<std::size_t> offsets_of(const char* operation, const std::optional<at::Tensor>& offsets, int64_t length);

// At least 1, and a size that the core can take.
std::size_t length_of(const char* operation, int64_t length);

// Throws unless `tensor` has this shape.
void check_shape(const char* operation, const char* what, const at::Tensor& tensor, at::IntArrayRef shape);

// Throws unless a, b, h0 are (denominators, order), (channels, order), (channels) and denominators divides channels.
void check_coefficients(const char* operation, const at::Tensor& a, const at::Tensor& b, const at::Tensor& h0);

// a, b, h0 as contiguous float64 on the CPU, their shapes and types checked.
struct CoefficientTensors {
  CoefficientTensors(const char* operation, const at::Tensor& a, const at::Tensor& b, const at::Tensor& h0);

  CoefficientsView view() const;
  TransferFunction plain() const;
  TrainedTransferFunction trained(std::size_t length) const;

  at::Tensor a, b, h0;
  std::size_t channels, groups, order;
};

// Gradients as tensors of the shapes and types of a, b, h0.
std::tuple<at::Tensor, at::Tensor, at::Tensor> gradient_tensors(const CoefficientsGradient& gradient,
                                                                const at::Tensor& a, const at::Tensor& b,
                                                                const at::Tensor& h0);

// A core error as the exception torch shows in Python: one line, no C++ backtrace.
template <class F>
auto call(F&& compute) {
  try {
    return compute();
  } catch (const Error& error) {
    TORCH_CHECK_VALUE(false, error.what());
  }
}

// compute(T()) for the type of the arithmetic.
template <class F>
void with_type(at::ScalarType type, F&& compute) {
  call([&] {
    if (type == at::kDouble)
      compute(double());
    else
      compute(float());
  });
}

}  // namespace rtf::ops
