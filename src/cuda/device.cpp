#include "cuda/device.h"

#include <string>

#include "rtf/error.h"

namespace rtf::cuda {
namespace {

std::string capability_text(int capability) {
  return std::to_string(capability / 10) + "." + std::to_string(capability % 10);
}

}  // namespace

int compiled_capability() { return RTF_CUDA_CAPABILITY; }

void check(const char* operation, cudaError_t result) {
  if (result == cudaSuccess) return;
  std::string why = cudaGetErrorString(result);
  if (result == cudaErrorMemoryAllocation) why += "; a smaller batch, or shorter sequences, need less memory";
  if (result == cudaErrorNoKernelImageForDevice || result == cudaErrorInvalidDeviceFunction)
    why += "; build with -D CMAKE_CUDA_ARCHITECTURES set to the compute capability of this device, or use the CPU";
  cudaGetLastError();  // told once: the next call must not find it again
  throw Error(ErrorCode::unsupported, operation, "CUDA: " + why);
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
    throw Error(ErrorCode::argument, "cuda", "device " + std::to_string(device) + " does not exist; there are " +
                                                 std::to_string(count) + ", counted from 0");
  int major = 0, minor = 0;
  check("cuda", cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device));
  check("cuda", cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device));
  const int capability = 10 * major + minor;
  // Machine code runs on later minor versions of its own major version alone.
  if (capability < compiled_capability() || major != compiled_capability() / 10)
    throw Error(ErrorCode::unsupported, "cuda",
                "device " + std::to_string(device) + " has compute capability " + capability_text(capability) +
                    " and this build is for " + capability_text(compiled_capability()) + "; build with " +
                    "-D CMAKE_CUDA_ARCHITECTURES=" + std::to_string(capability) + ", or use the CPU");
}

}  // namespace rtf::cuda
