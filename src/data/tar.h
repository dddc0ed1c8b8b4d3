// Tar archives, plain or gzipped: ustar, with the long names of GNU and of POSIX.
#pragma once

#include <cstddef>
#include <functional>
#include <string>

namespace rtf::data {

// Calls visit(name, bytes) for every regular file whose name is `wanted`, in the order of the archive, with at most its
// first `most` bytes: a small archive can hold a huge file. Archives that are damaged, or that end before their end
// mark, are refused.
void read_tar(const std::string& path, std::size_t most, const std::function<bool(const std::string& name)>& wanted,
              const std::function<void(const std::string& name, std::string&& bytes)>& visit);

}  // namespace rtf::data
