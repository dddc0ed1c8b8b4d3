// Between tensors on the GPU and the CUDA kernels: the stream, memory and errors of torch.
#pragma once

#include <ATen/ATen.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

#include "torch/bridge.h"

namespace rtf::ops {

// The stream that torch works on, with its device made current while this lives.
class Device {
 public:
  explicit Device(const at::Tensor& on) : guard_(on.device()), stream_(c10::cuda::getCurrentCUDAStream()) {}
  operator cudaStream_t() const { return stream_.stream(); }

 private:
  c10::cuda::CUDAGuard guard_;
  c10::cuda::CUDAStream stream_;
};

// Throws unless `tensor` lives where `on` does: "[rtf::convolve] u is on cuda:0 and the kernel on cpu; move ...".
void check_device(const char* operation, const char* what, const at::Tensor& tensor, const char* other,
                  const at::Tensor& on);

// (batch, length, channels) with the samples of a row side by side, copied only where they are not.
at::Tensor as_length_last(const at::Tensor& signal);

// as_result() of values on the GPU, without torch's copy between the two memory orders.
at::Tensor as_result(const at::Tensor& values, const at::Tensor& x, at::ScalarType type, const Device& device);

// Torch's empty() on a GPU, past the dispatcher: a small layer takes the host as long as the GPU. Nor is it filled
// where torch is to be deterministic: all of it is written.
at::Tensor empty_on(at::Device device, at::IntArrayRef sizes, at::ScalarType type);
at::Tensor empty_contiguous(const at::Tensor& like);

// Memory for one call on the current stream, from torch's allocator.
c10::DataPtr workspace(std::size_t bytes, const Device& device);

// Memory for one call in pieces: one allocation takes the host as long as a launch.
class Pieces {
 public:
  // How far from the beginning a new piece lies.
  std::size_t add(std::size_t bytes);
  void allocate(const Device& device) { memory_ = workspace(bytes_, device); }
  void* at(std::size_t piece) const { return static_cast<std::byte*>(memory_.get()) + piece; }

 private:
  std::size_t bytes_ = 0;
  c10::DataPtr memory_;
};

// Of the sizes of `signal`, or with so many channels, with the samples of a row side by side.
at::Tensor empty_length_last(const at::Tensor& signal, at::ScalarType type, std::optional<int64_t> channels = {});

}  // namespace rtf::ops
