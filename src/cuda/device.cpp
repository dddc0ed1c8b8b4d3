#include "cuda/device.h"

#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "rtf/error.h"

namespace rtf::cuda {
namespace {

std::string capability_text(int capability) {
  return std::to_string(capability / 10) + "." + std::to_string(capability % 10);
}

constexpr int compiled[] = {RTF_CUDA_CAPABILITIES};  // ascending

int device_capability(int device) {
  int major = 0, minor = 0;
  check("cuda", cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device));
  check("cuda", cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device));
  return 10 * major + minor;
}

int current_device(const char* operation) {
  int device = 0;
  check(operation, cudaGetDevice(&device));
  return device;
}

// Machine code runs on later minor versions of its own major version alone. 8.6 and 8.9 have less shared memory than
// the kernels for 8.0 use.
bool runs(int code, int capability) {
  return code <= capability && code / 10 == capability / 10 && capability != 86 && capability != 89;
}

// Which of them a device runs.
std::optional<int> fitting(int capability) {
  std::optional<int> best;
  for (const int each : compiled)
    if (runs(each, capability)) best = each;
  return best;
}

}  // namespace

int compiled_capability() {
  thread_local int last = -1, found = compiled[0];
  const int device = current_device("cuda");
  if (device != last) {
    found = fitting(device_capability(device)).value_or(compiled[0]);
    last = device;
  }
  return found;
}

void check(const char* operation, cudaError_t result) {
  if (result == cudaSuccess) return;
  std::string why = cudaGetErrorString(result);
  if (result == cudaErrorMemoryAllocation) why += "; a smaller batch, or shorter sequences, need less memory";
  if (result == cudaErrorNoKernelImageForDevice || result == cudaErrorInvalidDeviceFunction)
    why += "; build with -D CMAKE_CUDA_ARCHITECTURES set to the compute capability of this device, or use the CPU";
  cudaGetLastError();  // told once: the next call must not find it again
  throw Error(ErrorCode::unsupported, operation, "CUDA: " + why);
}

std::size_t largest_shared_memory(const char* operation) {
  thread_local int last = -1, bytes = 0;
  const int device = current_device(operation);
  if (device != last) {
    check(operation, cudaDeviceGetAttribute(&bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, device));
    last = device;
  }
  return static_cast<std::size_t>(bytes);
}

void allow_shared_memory(const char* operation, const void* kernel, std::size_t bytes) {
  if (bytes <= 48 * 1024) return;  // allowed by default
  // To say it at every launch takes the host half as long as the launch. It holds for all threads, and so does this.
  static std::mutex mutex;
  static std::map<std::pair<const void*, int>, std::size_t> allowed;
  const int device = current_device(operation);
  const std::lock_guard lock(mutex);
  std::size_t& most = allowed[{kernel, device}];
  if (bytes <= most) return;
  check(operation, cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(bytes)));
  most = bytes;
}

void require_device(int device) {
  int count = 0;
  const cudaError_t found = cudaGetDeviceCount(&count);
  if (found == cudaErrorInsufficientDriver) {
    int driver = 0;
    cudaDriverGetVersion(&driver);
    if (driver == 0) throw Error(ErrorCode::unsupported, "cuda", "there is no NVIDIA driver; use the CPU");
    throw Error(ErrorCode::unsupported, "cuda",
                "the driver knows CUDA " + std::to_string(driver / 1000) + "." + std::to_string(driver % 1000 / 10) +
                    " and this build needs CUDA " + std::to_string(CUDART_VERSION / 1000) +
                    "; install a newer driver, or use the CPU");
  }
  if (found != cudaSuccess || count == 0)
    throw Error(ErrorCode::unsupported, "cuda", "there is no CUDA device; use the CPU");
  if (device >= count)
    throw Error(ErrorCode::argument, "cuda",
                "device " + std::to_string(device) + " does not exist; there are " + std::to_string(count) +
                    ", counted from 0");
  const int capability = device_capability(device);
  if (fitting(capability)) return;
  std::string known;
  for (const int each : compiled) known += (known.empty() ? "" : ", ") + capability_text(each);
  std::string what = "use the CPU";
  for (const int each : {80, 90, 100})
    if (runs(each, capability))
      what = "build with -D CMAKE_CUDA_ARCHITECTURES=" + std::to_string(each) + ", or " + what;
  throw Error(ErrorCode::unsupported, "cuda",
              "device " + std::to_string(device) + " has compute capability " + capability_text(capability) +
                  " and this build is for " + known + "; " + what);
}

}  // namespace rtf::cuda
