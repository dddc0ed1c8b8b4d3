// NumPy arrays in and out, and refusals under the name of the function that was called.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <algorithm>
#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/array_bytes.h"
#include "core/file_errors.h"
#include "rtf/error.h"

namespace rtf::python {

namespace nb = nanobind;

template <class T>
using In = nb::ndarray<const T, nb::c_contig, nb::device::cpu>;
using Out = nb::ndarray<nb::numpy>;
using Shape = std::vector<std::size_t>;

template <class T>
std::span<const T> values(const In<T>& array) {
  return {array.data(), array.size()};
}

template <class T>
Shape shape_of(const In<T>& array) {
  return {array.shape_ptr(), array.shape_ptr() + array.ndim()};
}

[[noreturn]] inline void refuse(const std::string& operation, const std::string& message) {
  throw Error(ErrorCode::argument, operation, message);
}

// Memory of an array to be filled and handed over.
template <class T>
class Buffer {
 public:
  explicit Buffer(std::size_t size) : values_(new T[size]), size_(size) {}

  T* data() { return values_.get(); }
  std::span<T> span() { return {values_.get(), size_}; }

  Out to_numpy(const Shape& shape) {
    const nb::capsule owner(values_.get(), [](void* data) noexcept { delete[] static_cast<T*>(data); });
    return Out(values_.release(), shape.size(), shape.data(), owner, nullptr, nb::dtype<T>());
  }

 private:
  std::unique_ptr<T[]> values_;
  std::size_t size_;
};

template <class T>
Out to_numpy(std::span<const T> from, const Shape& shape) {
  Buffer<T> buffer(from.size());
  std::copy(from.begin(), from.end(), buffer.data());
  return buffer.to_numpy(shape);
}

template <class T>
Out to_numpy(const std::vector<T>& from, const Shape& shape) {
  return to_numpy(std::span<const T>(from), shape);
}

// Runs a computation that touches nothing of Python's; other threads of Python run meanwhile.
template <class F>
auto computing(const std::string& operation, F&& compute) {
  const nb::gil_scoped_release release;
  return part_of(operation, compute);
}

}  // namespace rtf::python
