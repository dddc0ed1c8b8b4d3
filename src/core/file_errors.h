// Refusals that name the file which the refused numbers came from, or the operation that was called.
#pragma once

#include <cstddef>
#include <string>

#include "rtf/error.h"

namespace rtf {

// The message of an error, less the operation that it begins with.
std::string without_operation(const Error& error);

// The same error, its message beginning with the file.
Error named(const std::string& path, const Error& error);

// Runs a computation on the filter of `path`; errors that come out of it name the file.
template <class F>
auto naming(const std::string& path, F&& compute) {
  try {
    return compute();
  } catch (const Error& error) {
    throw named(path, error);
  }
}

// Runs a part of an operation; errors that come out of it bear the name of the whole.
template <class F>
auto part_of(const std::string& operation, F&& compute) {
  try {
    return compute();
  } catch (const Error& error) {
    throw Error(error.code(), operation, without_operation(error));
  }
}

// Refuses what cannot fit instead of letting the system end the program. `doubles` is a low estimate.
void require_memory(double doubles, const std::string& what);

// The same of kernels, under the name of the operation that makes them.
void require_kernel_memory(const char* operation, std::size_t rows, std::size_t samples);

}  // namespace rtf
