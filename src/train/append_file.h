// A file that grows: every append reaches the system whole or is an error.
#pragma once

#include <string>
#include <string_view>

namespace rtf::train {

class AppendFile {
 public:
  // Errors begin with `operation` and name `path`.
  AppendFile(const std::string& path, const char* operation);
  ~AppendFile();
  AppendFile(const AppendFile&) = delete;
  AppendFile& operator=(const AppendFile&) = delete;

  void append(std::string_view bytes);
  // Returns when what was appended would survive a power cut.
  void sync();

 private:
  [[noreturn]] void fail(int error) const;

  std::string path_;
  const char* operation_;
  int descriptor_ = -1;
};

}  // namespace rtf::train
