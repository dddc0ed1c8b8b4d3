#include "incoming_bytes.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <utility>

#include "rtf/error.h"
#include "sample_source.h"

namespace rtf::cli {
namespace {

constexpr std::size_t piece = std::size_t{1} << 16;  // bytes of a read

std::string text_of(int error) { return std::generic_category().message(error); }

}  // namespace

Bytes::Bytes(const std::string& path)
    : name_(shown(path)),
      descriptor_(path == standard_stream ? ::dup(STDIN_FILENO) : ::open(path.c_str(), O_RDONLY | O_CLOEXEC)) {
  struct stat status {};
  if (descriptor_ < 0 || ::fstat(descriptor_, &status) != 0) fail(text_of(errno));
  if (S_ISDIR(status.st_mode)) fail("it is a folder");
  if (S_ISREG(status.st_mode) && path != standard_stream) size_ = static_cast<std::uint64_t>(status.st_size);
}

Bytes::~Bytes() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

bool Bytes::hold_more() {
  const std::size_t used = held_.size();
  held_.resize(used + piece);
  ssize_t got;
  do got = ::read(descriptor_, held_.data() + used, piece);
  while (got < 0 && errno == EINTR);
  const int error = errno;
  held_.resize(used + static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
  if (got < 0) fail(text_of(error));
  return got > 0;
}

// Also out of the constructor, after which no destructor runs.
void Bytes::fail(const std::string& why) {
  if (descriptor_ >= 0) ::close(std::exchange(descriptor_, -1));
  throw Error(ErrorCode::io, "stream", "cannot read " + name_ + ": " + why);
}

}  // namespace rtf::cli
