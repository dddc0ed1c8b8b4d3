// What stands between C and the library: no exception passes, and every failure leaves a code and a line.
#pragma once

#include <cstddef>
#include <cstring>
#include <span>
#include <utility>

#include "core/arguments.h"
#include "rtf.h"

namespace rtf::c_api {

// The code of the exception that is being handled; its message becomes that of rtf_last_error().
rtf_status caught(const char* operation) noexcept;

template <class Work>
rtf_status guarded(const char* operation, Work&& work) noexcept {
  try {
    std::forward<Work>(work)();
    return RTF_OK;
  } catch (...) {
    return caught(operation);
  }
}

template <class T>
T& required(const char* operation, const char* what, T* pointer) {
  if (pointer == nullptr) fail(ErrorCode::argument, operation, "{} is null", what);
  return *pointer;
}

// C may hand over any number as an enum, and C++ may not read it as one.
template <class Enum>
int number_of(const Enum& value) {
  int number;
  static_assert(sizeof number == sizeof value);
  std::memcpy(&number, &value, sizeof number);
  return number;
}

// NULL is an array of no numbers.
template <class T>
std::span<T> array(const char* operation, const char* what, T* data, std::size_t size) {
  if (size > 0) required(operation, what, data);
  return {data, size};
}

// A handle and what it is made of; nothing is written unless it could be made.
template <class Handle, class Make>
rtf_status make_handle(const char* operation, Handle** handle, Make&& make) noexcept {
  return guarded(operation, [&] {
    required(operation, "the place for the handle", handle);
    *handle = new Handle(make());
  });
}

}  // namespace rtf::c_api
