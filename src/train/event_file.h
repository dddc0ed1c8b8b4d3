// TensorBoard event files: scalars over steps, and text.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "train/append_file.h"

namespace rtf::train {

class EventFile {
 public:
  // A new file in `folder`. `resumed` is the step after which training goes on: TensorBoard forgets later points of the
  // files before.
  explicit EventFile(const std::string& folder, std::optional<int64_t> resumed = {});
  // What the destructor cannot write is lost without a word: flush() first.
  ~EventFile();

  void scalar(const std::string& tag, int64_t step, double value);
  void text(const std::string& tag, int64_t step, const std::string& markdown);
  // Hands what has been gathered to the system.
  void flush();

 private:
  void add(const std::string& event);

  AppendFile file_;
  std::string buffer_;
};

}  // namespace rtf::train
