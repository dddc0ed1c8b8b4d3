#include <ATen/cuda/EmptyTensor.h>
#include <c10/cuda/CUDACachingAllocator.h>

#include <exception>
#include <string>
#include <utility>

#include "cuda/device.h"
#include "torch/cuda/bridge.h"

namespace rtf::ops {

void check_device(const char* operation, const char* what, const at::Tensor& tensor, const char* other,
                  const at::Tensor& on) {
  TORCH_CHECK_VALUE(tensor.device() == on.device(), "[rtf::", operation, "] ", what, " is on ", tensor.device(),
                    " and ", other, " on ", on.device(), "; move them to one device");
}

std::size_t Pieces::add(std::size_t bytes) {
  constexpr std::size_t alignment = 256;
  return std::exchange(bytes_, bytes_ + (bytes + alignment - 1) / alignment * alignment);
}

at::Tensor empty_on(at::Device device, at::IntArrayRef sizes, at::ScalarType type) {
  return at::detail::empty_cuda(sizes, type, device, at::MemoryFormat::Contiguous);
}

at::Tensor empty_contiguous(const at::Tensor& like) {
  return empty_on(like.device(), like.sizes(), like.scalar_type());
}

// The device is current while `device` lives.
c10::DataPtr workspace(std::size_t bytes, const Device&) {
  return c10::cuda::CUDACachingAllocator::get()->allocate(bytes);
}

}  // namespace rtf::ops

// Called after the library is loaded: says in one line why a device cannot be used, or gives null. The line holds until
// the next call from this thread.
extern "C" __attribute__((visibility("default"))) const char* rtf_cuda_why_not(int device) {
  thread_local std::string why;
  try {
    rtf::cuda::require_device(device);
    return nullptr;
  } catch (const std::exception& error) {
    why = error.what();
    return why.c_str();
  }
}
