#include "data/tar.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>

#include "core/printable.h"
#include "data/gzip_file.h"
#include "rtf/error.h"

namespace rtf::data {
namespace {

constexpr std::size_t block = 512;
constexpr std::size_t longest_name = std::size_t{1} << 20;  // a header that claims more is damaged
constexpr std::size_t piece = std::size_t{1} << 20;         // memory follows what the file holds, not what it claims

class Archive {
 public:
  explicit Archive(const std::string& path) : path_(path), file_(path, "read_tar") {}

  [[noreturn]] void fail(const std::string& why) const {
    throw Error(ErrorCode::format, "read_tar", fmt::format("{}: {}", path_, why));
  }

  // The next header; false at the end mark.
  bool next() {
    if (file_.read(header_.data(), block) < block) fail("truncated: it ends without the end mark of an archive");
    if (std::all_of(header_.begin(), header_.end(), [](std::uint8_t byte) { return byte == 0; })) return false;
    // The sum of the header's bytes, its own field read as blanks.
    std::uint64_t sum = 0;
    for (std::size_t i = 0; i < block; ++i) sum += i >= 148 && i < 156 ? ' ' : header_[i];
    if (number(148, 8) != sum) {
      fail(read_ == 0 ? "not a tar archive" : fmt::format("damaged: the header after {} files is no header", read_));
    }
    size_ = number(124, 12);
    ++read_;
    return true;
  }

  char type() const { return static_cast<char>(header_[156]); }

  std::string name() const {
    const bool ustar = text(257, 5) == "ustar" && header_[262] == 0;  // GNU's own form keeps other things there
    const std::string prefix = ustar ? text(345, 155) : "";
    return prefix.empty() ? text(0, 100) : prefix + "/" + text(0, 100);
  }

  // The first `most` bytes of the file; the rest is passed over.
  std::string contents(const std::string& of, std::uint64_t most) {
    std::string bytes;
    const std::uint64_t kept = std::min(size_, most);
    for (std::uint64_t left = kept; left > 0;) {
      const std::size_t have = bytes.size(), more = static_cast<std::size_t>(std::min<std::uint64_t>(left, piece));
      bytes.resize(have + more);
      require(reinterpret_cast<std::uint8_t*>(bytes.data()) + have, more, of);
      left -= more;
    }
    skip(size_ - kept + padding(), of);
    return bytes;
  }

  std::string name_contents() {
    if (size_ > longest_name) fail(fmt::format("damaged: a name of {} bytes", size_));
    return contents("a long name", longest_name);
  }

  void pass(const std::string& of) { skip(size_ + padding(), of); }

 private:
  std::uint64_t padding() const { return (block - size_ % block) % block; }

  void require(std::uint8_t* bytes, std::size_t size, const std::string& of) {
    if (file_.read(bytes, size) < size) fail(fmt::format("truncated inside {}", printable(of, 200)));
  }

  void skip(std::uint64_t bytes, const std::string& of) {
    std::array<std::uint8_t, 1 << 14> space;
    while (bytes > 0) {
      const std::size_t more = static_cast<std::size_t>(std::min<std::uint64_t>(bytes, space.size()));
      require(space.data(), more, of);
      bytes -= more;
    }
  }

  std::string text(std::size_t offset, std::size_t size) const {
    const auto begin = header_.begin() + static_cast<std::ptrdiff_t>(offset);
    return {begin, std::find(begin, begin + static_cast<std::ptrdiff_t>(size), 0)};
  }

  // Octal, with blanks around it.
  std::uint64_t number(std::size_t offset, std::size_t size) const {
    const std::string field = text(offset, size);
    const std::size_t first = field.find_first_not_of(' '), last = field.find_last_not_of(' ');
    if (first == std::string::npos) return 0;
    std::uint64_t value = 0;
    const char* end = field.data() + last + 1;
    const auto [stop, error] = std::from_chars(field.data() + first, end, value, 8);
    if (error != std::errc() || stop != end) fail("not a tar archive, or a damaged one: a header holds no number");
    return value;
  }

  const std::string& path_;
  GzipFile file_;
  std::array<std::uint8_t, block> header_;
  std::uint64_t size_ = 0;
  std::size_t read_ = 0;
};

// The path in records of the form "length key=value\n".
std::string pax_path(const Archive& archive, const std::string& records) {
  std::string found;
  for (std::size_t at = 0; at < records.size();) {
    std::size_t size = 0;
    const char* end = records.data() + records.size();
    const auto [stop, error] = std::from_chars(records.data() + at, end, size);
    const std::size_t head = static_cast<std::size_t>(stop - records.data()) + 1;  // after the blank
    if (error != std::errc() || size == 0 || size > records.size() - at || head >= at + size || *stop != ' ') {
      archive.fail("damaged: an extended header is not a list of records");
    }
    const std::string record = records.substr(head, at + size - 1 - head);
    if (record.starts_with("path=")) found = record.substr(5);
    at += size;
  }
  return found;
}

}  // namespace

void read_tar(const std::string& path, std::size_t most, const std::function<bool(const std::string& name)>& wanted,
              const std::function<void(const std::string& name, std::string&& bytes)>& visit) {
  Archive archive(path);
  std::string long_name;  // of the entry that follows
  while (archive.next()) {
    const char type = archive.type();
    if (type == 'L') {
      long_name = archive.name_contents();
      long_name.resize(long_name.find_last_not_of('\0') + 1);
    } else if (type == 'x') {
      const std::string name = pax_path(archive, archive.name_contents());
      if (!name.empty()) long_name = name;
    } else {
      const std::string name = long_name.empty() ? archive.name() : long_name;
      long_name.clear();
      if ((type == '0' || type == '\0' || type == '7') && wanted(name)) {
        visit(name, archive.contents(name, most));
      } else {
        archive.pass(name);
      }
    }
  }
}

}  // namespace rtf::data
