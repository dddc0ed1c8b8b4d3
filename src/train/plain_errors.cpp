#include "train/plain_errors.h"

#include <initializer_list>

#include "rtf/error.h"
#include "train/stop_line.h"

namespace rtf::train {
namespace {

bool holds_one(const std::string& message, std::initializer_list<const char*> parts) {
  for (const char* part : parts) {
    if (message.find(part) != std::string::npos) return true;
  }
  return false;
}

}  // namespace

void throw_plain(const c10::Error& error, const char* operation, const MemoryLines& lines) {
  const std::string message = error.what_without_backtrace();
  const auto fail = [&](const std::string& why) { throw Error(ErrorCode::argument, operation, why); };
  // torch's allocator, the driver's own and cuBLAS's.
  if (holds_one(message, {"CUDA out of memory", "CUDA error: out of memory", "CUBLAS_STATUS_ALLOC_FAILED"}))
    fail(lines.device);
  if (holds_one(message, {"can't allocate memory", "out of memory", "Storage size calculation overflowed",
                          "multiplication overflow", "cannot create std::vector"}))
    fail(lines.host);
  throw Error(ErrorCode::argument, operation, without_operation(message));
}

}  // namespace rtf::train
