#include "rtf/workspace.h"

#include <cstdint>
#include <cstdlib>
#include <new>
#include <utility>

#include "core/huge_pages.h"

namespace rtf {
namespace {

constexpr std::size_t cache_line = 64;

}  // namespace

Workspace::Workspace(std::size_t bytes) : bytes_(bytes) {
  if (bytes > SIZE_MAX / 2) throw std::bad_alloc();  // rounded up it could wrap
  const std::size_t alignment = bytes >= huge_page ? huge_page : cache_line;
  const std::size_t rounded = (bytes + alignment) / alignment * alignment;
  data_ = static_cast<std::byte*>(std::aligned_alloc(alignment, rounded));
  if (data_ == nullptr) throw std::bad_alloc();
  prefer_huge_pages(data_, rounded);
}

Workspace::~Workspace() { std::free(data_); }

Workspace::Workspace(Workspace&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}

Workspace& Workspace::operator=(Workspace&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

}  // namespace rtf
