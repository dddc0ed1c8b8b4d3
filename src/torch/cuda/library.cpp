#include <exception>
#include <string>
#include <utility>

#include "cuda/device.h"
#include "cuda/transpose.h"
#include "torch/cuda/bridge.h"

namespace rtf::ops {

void check_device(const char* operation, const char* what, const at::Tensor& tensor, const char* other,
                  const at::Tensor& on) {
  TORCH_CHECK_VALUE(tensor.device() == on.device(), "[rtf::", operation, "] ", what, " is on ", tensor.device(),
                    " and ", other, " on ", on.device(), "; move them to one device");
}

namespace {
// What the operators refuse comes by here, too.
bool can_be_turned(const at::Tensor& x) {
  return x.is_contiguous() && (x.element_size() == 2 || x.element_size() == 4 || x.element_size() == 8);
}

// (batch, columns, rows), contiguous, of (batch, rows, columns), contiguous too: torch's copy takes four times as long.
at::Tensor turned(const at::Tensor& x, const Device& device) {
  at::Tensor result = at::empty({x.size(0), x.size(2), x.size(1)}, x.options());
  call([&] {
    cuda::transpose(x.const_data_ptr(), result.mutable_data_ptr(), x.size(0), x.size(1), x.size(2), x.element_size(),
                    device);
  });
  return result;
}
}  // namespace

at::Tensor length_last(const at::Tensor& signal) {
  if (signal.stride(1) == 1 || signal.size(1) <= 1) return signal;
  const at::Tensor rows = can_be_turned(signal) ? turned(signal, Device(signal)) : signal.transpose(1, 2).contiguous();
  return rows.transpose(1, 2);
}

at::Tensor as_result(const at::Tensor& values, const at::Tensor& x, at::ScalarType type, const Device& device) {
  const bool same = x.dim() != 3 || values.scalar_type() != type || x.stride(1) == 1 || values.is_contiguous();
  if (same || !can_be_turned(values.transpose(1, 2))) return as_result(values, x, type);
  return turned(values.transpose(1, 2), device);
}

at::Tensor empty_length_last(const at::Tensor& signal, at::ScalarType type) {
  return at::empty({signal.size(0), signal.size(2), signal.size(1)}, signal.options().dtype(type)).transpose(1, 2);
}

std::size_t Pieces::add(std::size_t bytes) {
  constexpr std::size_t alignment = 256;
  return std::exchange(bytes_, bytes_ + (bytes + alignment - 1) / alignment * alignment);
}

at::Tensor workspace(std::size_t bytes, const at::Tensor& on) {
  return at::empty({static_cast<int64_t>(bytes)}, on.options().dtype(at::kByte));
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
