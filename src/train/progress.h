// What people see while a run goes on: a bar on a terminal, a line now and then elsewhere.
#pragma once

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <deque>
#include <limits>
#include <string>
#include <utility>

namespace rtf::train {

struct ProgressState {
  int64_t epoch = 0, epochs = 0;  // the one that is running, from 1 on
  int64_t step = 0, steps = 0;    // done, of the whole run
  double loss = std::numeric_limits<double>::quiet_NaN();
  std::string metric = {};  // of the last evaluation; empty: none yet
  double value = 0;
};

// One line of at most `width` columns; `rate` in steps a second, 0: not known yet. What does not fit is left out, the
// bar first.
std::string progress_text(const ProgressState& state, double rate, std::size_t width);

class Progress {
 public:
  explicit Progress(std::FILE* out = stderr);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // After every step; draws when it is time to.
  void update(const ProgressState& state);
  // A line of its own above the bar.
  void say(const std::string& line);

 private:
  using Clock = std::chrono::steady_clock;

  double rate() const;
  void draw(const ProgressState& state);
  void clear();

  std::FILE* out_;
  bool terminal_, drawn_ = false;
  Clock::time_point last_;
  std::deque<std::pair<Clock::time_point, int64_t>> history_;  // of the last half minute, for the rate
  ProgressState state_;
};

}  // namespace rtf::train
