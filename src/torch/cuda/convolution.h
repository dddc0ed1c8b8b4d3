// What convolve lends to wrapped_convolve.
#pragma once

#include <vector>

#include "cuda/convolution.h"
#include "rtf_torch/operators.h"
#include "torch/cuda/bridge.h"

namespace rtf::ops {

// What both directions of the operator need, checked.
struct ConvolutionArguments {
  Tensor u, kernel;               // the kernel float32, or float64 when u is
  Tensor lengths, offsets;        // int64 on the device of u, or undefined
  std::vector<std::size_t> cuts;  // offsets on the host
  bool unfused;
  cuda::Convolution sizes;

  ConvolutionArguments(const char* operation, const Tensor& u, const Tensor& kernel, bool bidirectional,
                       const OptionalTensor& lengths, const OptionalTensor& offsets);

  bool empty() const { return u.numel() == 0 || kernel.numel() == 0; }

 private:
  Tensor device_lengths(const char* operation, const Tensor& given) const;
};

// A signal as rows of samples that lie side by side: itself, or turned over in a piece of memory, or in a tensor.
class Rows {
 public:
  Rows(const Tensor& x, Pieces& pieces);
  // Of x, contiguous; `rows` is as empty_length_last() makes it.
  Rows(const Tensor& x, const Tensor& rows) : x_(x), rows_(rows) {}

  // Where they are to be written.
  cuda::Signal rows() const;
  // Where they are to be read, and how they come there.
  cuda::Input input() const;
  // What was written, as the signal. `beside` as transpose() has it.
  Tensor written(cudaStream_t stream, bool beside = false) const;

 private:
  // Where the rows are when they are not x itself.
  void* memory() const;

  Tensor x_, rows_;
  const Pieces* pieces_ = nullptr;
  std::size_t piece_ = 0;
};

}  // namespace rtf::ops
