// A bar on standard error when that is a terminal and the work takes more than a second.
#pragma once

#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <mutex>
#include <string>
#include <utility>

namespace rtf {

class ProgressBar {
 public:
  explicit ProgressBar(bool quiet = false, std::string title = {})
      : title_(std::move(title)), visible_(!quiet && ::isatty(STDERR_FILENO) == 1), shown_(Clock::now()) {}
  ~ProgressBar() { finish(); }
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  // Wipes the bar off the line.
  void finish() {
    if (std::exchange(drawn_, false)) fmt::print(stderr, "\r\x1b[K");
  }

  // From any thread. `total` 0: not known, and there is a number alone.
  void draw(std::size_t done, std::size_t total) {
    const std::unique_lock lock(mutex_, std::try_to_lock);
    if (!visible_ || !lock || Clock::now() - shown_ < std::chrono::milliseconds(drawn_ ? 200 : 1000)) return;
    shown_ = Clock::now();
    drawn_ = true;
    const std::size_t width = 30, full = total > 0 ? width * done / total : 0;
    const std::string bar =
        total > 0 ? fmt::format("[{}{}] ", std::string(full, '#'), std::string(width - full, ' ')) : "";
    fmt::print(stderr, "\r{}{}{}{}\x1b[K", title_, bar, done, total > 0 ? fmt::format(" of {}", total) : "");
    std::fflush(stderr);
  }

 private:
  using Clock = std::chrono::steady_clock;

  const std::string title_;
  const bool visible_;
  bool drawn_ = false;
  std::mutex mutex_;
  Clock::time_point shown_;
};

}  // namespace rtf
