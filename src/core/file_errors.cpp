#include "core/file_errors.h"

#include <fmt/format.h>
#include <unistd.h>

namespace rtf {

std::string without_operation(const Error& error) {
  const std::string text = error.what();
  return text.substr(text.find("] ") + 2);
}

Error named(const std::string& path, const Error& error) {
  const std::string text = error.what();
  const std::size_t begin = std::string("[rtf::").size();
  return Error(error.code(), text.substr(begin, text.find("] ") - begin), path + ": " + without_operation(error));
}

void require_memory(double doubles, const std::string& what) {
  const double needed = 8 * doubles;
  const double present = static_cast<double>(::sysconf(_SC_PHYS_PAGES)) * static_cast<double>(::sysconf(_SC_PAGE_SIZE));
  if (needed > present) {
    throw Error(ErrorCode::unsupported, "memory",
                fmt::format("{} needs at least {:.0f} GB of memory, this machine has {:.0f} GB", what, needed / 1e9,
                            present / 1e9));
  }
}

void require_kernel_memory(const char* operation, std::size_t rows, std::size_t samples) {
  part_of(operation, [&] {
    require_memory(static_cast<double>(rows) * static_cast<double>(samples),
                   fmt::format("a kernel of {} samples", samples));
  });
}

}  // namespace rtf
