// Memory on huge pages where the system has them: new memory is then handed over in a few pieces.
#pragma once

#include <cstddef>
#include <cstdint>

#if defined(__linux__)
#include <sys/mman.h>
#endif

namespace rtf {

inline constexpr std::size_t huge_page = std::size_t{2} << 20;

// Advice, for the whole pages in [data, data + bytes): without huge pages the memory is as good as any.
inline void prefer_huge_pages([[maybe_unused]] void* data, [[maybe_unused]] std::size_t bytes) {
#if defined(__linux__)
  const auto at = reinterpret_cast<std::uintptr_t>(data), first = (at + huge_page - 1) / huge_page * huge_page;
  const auto last = (at + bytes) / huge_page * huge_page;
  if (first < last) (void)madvise(reinterpret_cast<void*>(first), last - first, MADV_HUGEPAGE);
#endif
}

}  // namespace rtf
