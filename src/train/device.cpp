#include "train/device.h"

#include <ATen/Context.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <dlfcn.h>
#include <link.h>

#include <cstdlib>
#include <filesystem>

#include "rtf/error.h"
#include "train/device_name.h"
#include "train/stop_line.h"

namespace rtf::train {
namespace {

constexpr const char* operators = "librtf_torch.so";
constexpr const char* cuda_operators = "librtf_torch_cuda.so";

[[noreturn]] void fail(const std::string& why) { throw Error(ErrorCode::unsupported, "device", why); }

// The CUDA backend lies beside the operators, wherever the loader found those.
std::string backend_path() {
  void* loaded = ::dlopen(operators, RTLD_LAZY | RTLD_NOLOAD);
  link_map* map = nullptr;
  if (!loaded || ::dlinfo(loaded, RTLD_DI_LINKMAP, &map) != 0) return cuda_operators;
  return (std::filesystem::path(map->l_name).parent_path() / cuda_operators).string();
}

// Loaded once. torch finds the CUDA parts of its own when they are loaded, and asks for them once.
void* backend() {
  static void* const library = [] {
    const std::string path = backend_path();
    std::error_code ignored;
    if (!std::filesystem::exists(path, ignored)) {
      fail("this build has no CUDA backend (" + path +
           " is not there); use the CPU, or build with a CUDA toolkit and RTF_CUDA=ON");
    }
    // Global, so that what it registers with torch's libraries and ours is one and the same.
    void* handle = ::dlopen(path.c_str(), RTLD_NOW | RTLD_GLOBAL);
    if (!handle) fail(std::string("the CUDA backend cannot be loaded: ") + ::dlerror());
    return handle;
  }();
  return library;
}

template <class F>
F* backend_function(const char* name) {
  void* found = ::dlsym(backend(), name);
  if (!found) fail(std::string("the CUDA backend has no ") + name + ": it is of another version; build both together");
  return reinterpret_cast<F*>(found);
}

}  // namespace

c10::Device use_device(const std::string& name, bool deterministic) {
  if (name == "cpu") return c10::Device(c10::kCPU);
  const auto index = static_cast<c10::DeviceIndex>(device_number(name).value());
  // cuBLAS reads it when the device is first used.
  if (deterministic) ::setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8", /*overwrite=*/0);
  if (const char* why = backend_function<const char*(int)>("rtf_cuda_why_not")(index))
    fail("device " + name + ": " + without_operation(why));
  const c10::Device device(c10::kCUDA, index);
  at::globalContext().lazyInitDevice(c10::kCUDA);
  const c10::impl::VirtualGuardImpl cuda(c10::kCUDA);
  cuda.setDevice(device);
  // Graphs cannot be recorded on the default stream.
  cuda.exchangeStream(cuda.getStreamFromGlobalPool(device));
  return device;
}

std::unique_ptr<DeviceGraph> make_graph(const DeviceGraph* beside) {
  return std::unique_ptr<DeviceGraph>(backend_function<decltype(rtf_cuda_make_graph)>("rtf_cuda_make_graph")(beside));
}

void synchronize(c10::Device device) {
  if (device.is_cpu()) return;
  const c10::impl::VirtualGuardImpl cuda(c10::kCUDA);
  cuda.synchronizeStream(cuda.getStream(device));
}

}  // namespace rtf::train
