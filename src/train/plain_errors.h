// torch's errors as one line each: its own carry a stack trace, and tell of missing memory in many ways.
#pragma once

#include <c10/util/Exception.h>

#include <string>

namespace rtf::train {

// What people are told when memory is short: of the host, and of the device.
struct MemoryLines {
  std::string host, device;
};

[[noreturn]] void throw_plain(const c10::Error& error, const char* operation, const MemoryLines& lines);

template <class F>
auto plain_errors(const char* operation, const MemoryLines& lines, F&& call) {
  try {
    return call();
  } catch (const c10::Error& error) {
    throw_plain(error, operation, lines);
  }
}

}  // namespace rtf::train
