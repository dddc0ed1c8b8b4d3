// Cuts a caller's workspace into aligned arrays.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <span>
#include <string>
#include <vector>

#include "rtf/error.h"

namespace rtf {

constexpr std::size_t workspace_alignment = 64;

// A size of memory; one that no memory has is as good as memory that is not there.
constexpr std::size_t memory_product(std::size_t a, std::size_t b) {
  std::size_t product = 0;
  if (__builtin_mul_overflow(a, b, &product) || product > SIZE_MAX / 2) throw std::bad_alloc();
  return product;
}

// Bytes of `count` elements, rounded up so that the next array stays aligned.
template <class T>
constexpr std::size_t array_bytes(std::size_t count) {
  return (memory_product(count, sizeof(T)) + workspace_alignment - 1) / workspace_alignment * workspace_alignment;
}

// Sizes are summed with array_bytes; the carver checks that what it is given holds them.
class Carver {
 public:
  Carver(std::span<std::byte> workspace, std::size_t needed, const char* operation) : at_(workspace.data()) {
    const auto skip =
        (workspace_alignment - reinterpret_cast<std::uintptr_t>(at_) % workspace_alignment) % workspace_alignment;
    if (workspace.size() < needed || workspace.size() - needed < skip)
      throw Error(ErrorCode::argument, operation,
                  "the workspace has " + std::to_string(workspace.size()) + " bytes; this plan needs " +
                      std::to_string(needed) + " aligned to 64");
    at_ += skip;
  }

  template <class T>
  T* take(std::size_t count) {
    T* array = reinterpret_cast<T*>(at_);
    at_ += array_bytes<T>(count);
    return array;
  }

 private:
  std::byte* at_;
};

template <class T>
struct AlignedAllocator {
  using value_type = T;
  AlignedAllocator() = default;
  template <class U>
  AlignedAllocator(const AlignedAllocator<U>&) {}
  T* allocate(std::size_t count) {
    return static_cast<T*>(::operator new(count * sizeof(T), std::align_val_t(workspace_alignment)));
  }
  void deallocate(T* data, std::size_t) { ::operator delete(data, std::align_val_t(workspace_alignment)); }
  bool operator==(const AlignedAllocator&) const { return true; }
};

// What SIMD code loads in whole vectors.
template <class T>
using AlignedVector = std::vector<T, AlignedAllocator<T>>;

}  // namespace rtf
