#include "core/atomic_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <filesystem>
#include <system_error>
#include <utility>
#include <vector>

#include "rtf/error.h"

namespace rtf {
namespace {

std::string describe(int error) { return std::generic_category().message(error); }

class Descriptor {
 public:
  explicit Descriptor(int value) : value_(value) {}
  ~Descriptor() {
    if (value_ >= 0) ::close(value_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;

  int get() const { return value_; }

 private:
  int value_;
};

std::string folder_of(const std::string& path) {
  const auto parent = std::filesystem::path(path).parent_path();
  return parent.empty() ? "." : parent.string();
}

// Folders may be shared between hosts, and a process be looked for on its own alone.
std::string temporary_prefix() {
  std::array<char, 256> host{};
  ::gethostname(host.data(), host.size() - 1);
  std::replace(host.begin(), host.end(), '/', '_');
  return fmt::format(".rtf-{}-", host.data());
}

// The process of a temporary name of this host; 0: it is none.
pid_t owner_of(std::string_view name, std::string_view prefix) {
  if (!name.starts_with(prefix)) return 0;
  const char* const end = name.data() + name.size();
  pid_t process = 0;
  unsigned count = 0;
  const auto [dash, bad_process] = std::from_chars(name.data() + prefix.size(), end, process);
  if (bad_process != std::errc() || dash == end || *dash != '-') return 0;
  const auto [suffix, bad_count] = std::from_chars(dash + 1, end, count);
  if (bad_count != std::errc() || std::string_view(suffix, end) != ".tmp") return 0;
  return process;
}

}  // namespace

std::string read_file(const std::string& path, const char* operation) {
  const auto fail = [&](const std::string& why) {
    throw Error(ErrorCode::io, operation, fmt::format("cannot read {}: {}", path.empty() ? "''" : path, why));
  };
  Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (file.get() < 0) fail(describe(errno));
  struct stat status {};
  if (::fstat(file.get(), &status) != 0) fail(describe(errno));
  if (S_ISDIR(status.st_mode)) fail("it is a folder");
  // A device such as /dev/zero never ends.
  if (!S_ISREG(status.st_mode) && !S_ISFIFO(status.st_mode)) fail("it is neither a file nor a pipe");

  // A file with holes may be larger than any memory, and would be filled with zeros until the system kills the program.
  const double present = static_cast<double>(::sysconf(_SC_PHYS_PAGES)) * static_cast<double>(::sysconf(_SC_PAGE_SIZE));
  if (static_cast<double>(status.st_size) > present) {
    throw Error(ErrorCode::unsupported, operation,
                fmt::format("{} has {:.0f} GB, this machine has {:.0f} GB of memory", path,
                            static_cast<double>(status.st_size) / 1e9, present / 1e9));
  }

  // One byte more than expected, so that the usual file ends without growing the buffer.
  std::string bytes(static_cast<std::size_t>(status.st_size) + 1, '\0');
  std::size_t used = 0;
  for (;;) {
    if (used == bytes.size()) bytes.resize(2 * bytes.size() + 4096);
    const auto got = ::read(file.get(), bytes.data() + used, bytes.size() - used);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail(describe(errno));
    if (got == 0) break;
    used += static_cast<std::size_t>(got);
  }
  bytes.resize(used);
  return bytes;
}

void check_output(const std::string& path, const char* operation) {
  const auto fail = [&](const std::string& why) {
    throw Error(ErrorCode::io, operation, fmt::format("cannot write {}: {}", path.empty() ? "''" : path, why));
  };
  if (path.empty()) fail("the path is empty");
  struct stat status {};
  if (::stat(path.c_str(), &status) == 0) {
    if (S_ISDIR(status.st_mode)) fail("it is a folder");
    if (!S_ISREG(status.st_mode)) fail("it is not a regular file");
    if (::access(path.c_str(), W_OK) != 0) fail(describe(errno));
  } else if (errno != ENOENT) {
    fail(describe(errno));
  } else if (path.back() == '/') {
    fail("it names a folder");
  }
  const std::string folder = folder_of(path);
  if (::access(folder.c_str(), W_OK | X_OK) != 0) fail(fmt::format("folder {}: {}", folder, describe(errno)));
}

std::string temporary_name(const std::string& folder) {
  static std::atomic<unsigned> counter{0};
  return fmt::format("{}/{}{}-{}.tmp", folder, temporary_prefix(), ::getpid(), counter++);
}

void remove_abandoned(const std::string& folder) {
  namespace fs = std::filesystem;
  const std::string prefix = temporary_prefix();
  std::vector<fs::path> found;
  std::error_code ignored;
  for (fs::directory_iterator at(folder, ignored), end; at != end; at.increment(ignored)) {
    const pid_t owner = owner_of(at->path().filename().string(), prefix);
    if (owner > 0 && ::kill(owner, 0) != 0 && errno == ESRCH) found.push_back(at->path());
  }
  for (const fs::path& path : found) fs::remove_all(path, ignored);
}

StagedFile::StagedFile(const std::string& path, const char* operation)
    : path_(path), target_(path), operation_(operation) {
  check_output(path, operation);
  // A link stays a link: the file it points to is the one replaced.
  namespace fs = std::filesystem;
  std::error_code ignored;
  for (int links = 0; links < 40 && fs::is_symlink(target_, ignored); ++links)
    target_ = (fs::path(folder_of(target_)) / fs::read_symlink(target_, ignored)).string();

  do {
    temporary_ = temporary_name(folder_of(target_));
    descriptor_ = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  } while (descriptor_ < 0 && errno == EEXIST);
  if (descriptor_ < 0) {
    const int error = errno;
    temporary_.clear();
    fail(error);
  }
  struct stat status {};
  if (::stat(target_.c_str(), &status) == 0) (void)!::fchmod(descriptor_, status.st_mode & 0777);
}

StagedFile::StagedFile(const std::string& path, std::string_view bytes, const char* operation)
    : StagedFile(path, operation) {
  append(bytes);
  flush();
}

StagedFile::~StagedFile() { discard(); }

void StagedFile::append(std::string_view bytes) {
  while (!bytes.empty()) {
    const auto put = ::write(descriptor_, bytes.data(), bytes.size());
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0) fail(put < 0 ? errno : ENOSPC);
    bytes.remove_prefix(static_cast<std::size_t>(put));
  }
}

void StagedFile::overwrite(std::size_t offset, std::string_view bytes) {
  while (!bytes.empty()) {
    const auto put = ::pwrite(descriptor_, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0) fail(put < 0 ? errno : ENOSPC);
    bytes.remove_prefix(static_cast<std::size_t>(put));
    offset += static_cast<std::size_t>(put);
  }
}

void StagedFile::flush() {
  // EINVAL: a file system without fsync.
  if (::fsync(descriptor_) != 0 && errno != EINVAL) fail(errno);
  // Network file systems report a failed write as late as here.
  if (::close(std::exchange(descriptor_, -1)) != 0) fail(errno);
}

void StagedFile::commit() {
  if (descriptor_ >= 0) flush();
  if (::rename(temporary_.c_str(), target_.c_str()) != 0) fail(errno);
  temporary_.clear();
}

void StagedFile::discard() {
  if (descriptor_ >= 0) ::close(std::exchange(descriptor_, -1));
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
  temporary_.clear();
}

void StagedFile::fail(int error) {
  discard();
  throw Error(ErrorCode::io, operation_, fmt::format("cannot write {}: {}", path_, describe(error)));
}

}  // namespace rtf
