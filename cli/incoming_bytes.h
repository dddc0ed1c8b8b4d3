// Bytes of a file or of standard input as they come.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace rtf::cli {

class Bytes {
 public:
  explicit Bytes(const std::string& path);
  ~Bytes();
  Bytes(const Bytes&) = delete;
  Bytes& operator=(const Bytes&) = delete;

  const std::string& name() const { return name_; }
  std::optional<std::uint64_t> size() const { return size_; }  // of a file
  std::string& held() { return held_; }                        // come and not used

  // False at the end.
  bool hold_more();

 private:
  [[noreturn]] void fail(const std::string& why);

  std::string name_, held_;
  int descriptor_ = -1;
  std::optional<std::uint64_t> size_;
};

}  // namespace rtf::cli
