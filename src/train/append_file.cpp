#include "train/append_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

#include "rtf/error.h"

namespace rtf::train {

AppendFile::AppendFile(const std::string& path, const char* operation) : path_(path), operation_(operation) {
  descriptor_ = ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  if (descriptor_ < 0) fail(errno);
}

AppendFile::~AppendFile() { ::close(descriptor_); }

void AppendFile::append(std::string_view bytes) {
  while (!bytes.empty()) {
    const auto put = ::write(descriptor_, bytes.data(), bytes.size());
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0) fail(put < 0 ? errno : ENOSPC);
    bytes.remove_prefix(static_cast<std::size_t>(put));
  }
}

void AppendFile::sync() {
  // EINVAL: a file system without fsync.
  if (::fsync(descriptor_) != 0 && errno != EINVAL) fail(errno);
}

void AppendFile::fail(int error) const {
  throw Error(ErrorCode::io, operation_,
              fmt::format("cannot write {}: {}", path_, std::generic_category().message(error)));
}

}  // namespace rtf::train
