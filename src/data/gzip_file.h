// Files read from the beginning to the end, plain as they are and gzipped ones unpacked.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

struct gzFile_s;

namespace rtf::data {

class GzipFile {
 public:
  // Errors begin with `operation` and name `path`.
  GzipFile(std::string path, const char* operation);

  // How many of the `size` bytes were there. Damaged and truncated streams are refused; a checksum is verified where
  // the end is read.
  std::size_t read(std::uint8_t* bytes, std::size_t size);

 private:
  [[noreturn]] void refuse();

  std::string path_;
  const char* operation_;
  std::unique_ptr<gzFile_s, int (*)(gzFile_s*)> file_;
};

}  // namespace rtf::data
