// A bar on the terminal while the tasks of an operation run.
#pragma once

#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <mutex>
#include <string>
#include <utility>

#include "rtf/executor.h"

namespace rtf::cli {

// How much of some work is done, on standard error when that is a terminal and the work takes more than a second.
class ProgressBar {
 public:
  explicit ProgressBar(bool quiet) : visible_(!quiet && ::isatty(STDERR_FILENO) == 1), shown_(Clock::now()) {}
  ~ProgressBar() { finish(); }

  // From any thread.
  void draw(std::size_t done, std::size_t total) {
    const std::unique_lock lock(mutex_, std::try_to_lock);
    if (!visible_ || !lock || Clock::now() - shown_ < std::chrono::milliseconds(drawn_ ? 200 : 1000)) return;
    shown_ = Clock::now();
    drawn_ = true;
    const std::size_t width = 30, full = width * done / total;
    fmt::print(stderr, "\r[{}{}] {} of {}\x1b[K", std::string(full, '#'), std::string(width - full, ' '), done, total);
    std::fflush(stderr);
  }

  // Wipes the bar off the line.
  void finish() {
    if (std::exchange(drawn_, false)) fmt::print(stderr, "\r\x1b[K");
  }

 private:
  using Clock = std::chrono::steady_clock;

  const bool visible_;
  bool drawn_ = false;
  std::mutex mutex_;
  Clock::time_point shown_;
};

// Runs on another executor and shows how many of its tasks are done.
class ProgressExecutor : public Executor {
 public:
  explicit ProgressExecutor(Executor& inner, bool quiet) : inner_(inner), bar_(quiet) {}

  std::size_t workers() const override { return inner_.workers(); }

  void run(std::size_t tasks, Task task, void* context) override {
    std::atomic<std::size_t> done = 0;
    parallel_for(inner_, tasks, [&](std::size_t i, std::size_t worker) {
      task(context, i, worker);
      bar_.draw(++done, tasks);
    });
  }

 private:
  Executor& inner_;
  ProgressBar bar_;
};

}  // namespace rtf::cli
