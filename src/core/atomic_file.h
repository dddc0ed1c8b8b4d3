// Files read whole, and written whole or not at all.
#pragma once

#include <string>
#include <string_view>

namespace rtf {

// The bytes of a regular file or a pipe. Errors name `path` and begin with `operation`.
std::string read_file(const std::string& path, const char* operation);

// Throws unless `path` can be created or replaced. Folders, devices and pipes are refused: a rename would put a
// regular file in their place.
void check_output(const std::string& path, const char* operation);

// Bytes on disk beside `path`, under a temporary name. commit() renames them to `path`; without it nothing stays.
// Several files that belong together are staged first and committed last.
class StagedFile {
 public:
  StagedFile(const std::string& path, std::string_view bytes, const char* operation);
  ~StagedFile();
  StagedFile(const StagedFile&) = delete;
  StagedFile& operator=(const StagedFile&) = delete;

  void commit();

 private:
  [[noreturn]] void fail(int error);

  std::string path_, target_, temporary_;
  const char* operation_;
};

}  // namespace rtf
