// Files read whole, and written whole or not at all.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace rtf {

// The bytes of a regular file or a pipe. Errors name `path` and begin with `operation`.
std::string read_file(const std::string& path, const char* operation);

// Throws unless `path` can be created or replaced. Folders, devices and pipes are refused: a rename would put a
// regular file in their place.
void check_output(const std::string& path, const char* operation);

// A new name in `folder` for what is not finished yet. It says whose it is: .rtf-<host>-<process>-<count>.tmp.
std::string temporary_name(const std::string& folder);

// Removes what has such a name in `folder` and was left by a process of this host that no longer lives.
void remove_abandoned(const std::string& folder);

// Bytes on disk beside `path`, under a temporary name. commit() renames them to `path`; without it nothing stays.
// Several files that belong together are staged first and committed last.
class StagedFile {
 public:
  // Empty, to be filled by append(), piece after piece.
  StagedFile(const std::string& path, const char* operation);
  // Filled and flushed.
  StagedFile(const std::string& path, std::string_view bytes, const char* operation);
  ~StagedFile();
  StagedFile(const StagedFile&) = delete;
  StagedFile& operator=(const StagedFile&) = delete;

  void append(std::string_view bytes);
  // Over bytes that were appended: a head whose numbers are known last.
  void overwrite(std::size_t offset, std::string_view bytes);
  // To disk: nothing but the name can fail afterwards. commit() does it where it has not been done.
  void flush();
  void commit();

 private:
  void discard();
  [[noreturn]] void fail(int error);

  std::string path_, target_, temporary_;
  const char* operation_;
  int descriptor_ = -1;  // open until flush()
};

}  // namespace rtf
