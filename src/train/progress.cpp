#include "train/progress.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "train/table.h"

namespace rtf::train {
namespace {

using namespace std::chrono_literals;

constexpr std::chrono::milliseconds redraw = 100ms, plain_line = 30s, rate_window = 30s;
constexpr std::size_t widest_bar = 30, narrowest_bar = 5;

std::size_t terminal_width(std::FILE* out) {
  struct winsize size {};
  if (::ioctl(::fileno(out), TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return 80;
  return size.ws_col;
}

std::string bar_text(const ProgressState& state, std::size_t width) {
  const double done = static_cast<double>(state.step) / static_cast<double>(state.steps);
  const auto filled = static_cast<std::size_t>(std::clamp(done, 0.0, 1.0) * static_cast<double>(width));
  return std::string(filled, '#') + std::string(width - filled, '.');
}

}  // namespace

std::string progress_text(const ProgressState& state, double rate, std::size_t width) {
  // With what goes last when there is no room for all.
  struct Part {
    std::string text;
    int weight;
  };
  std::vector<Part> parts = {{fmt::format("epoch {}/{}", state.epoch, state.epochs), 2},
                             {fmt::format("step {}/{}", state.step, state.steps), 5}};
  if (rate > 0) parts.push_back({fmt::format("{:.3g} it/s", rate), 1});
  if (!std::isnan(state.loss)) parts.push_back({fmt::format("loss {:.4g}", state.loss), 4});
  if (!state.metric.empty()) parts.push_back({fmt::format("{} {:.4g}", state.metric, state.value), 3});
  if (rate > 0) {
    const double left = static_cast<double>(std::max<int64_t>(state.steps - state.step, 0)) / rate;
    parts.push_back({duration_text(left) + " left", 3});
  }
  const auto join = [&parts] {
    std::string text;
    for (const Part& part : parts) text += (text.empty() ? "" : "  ") + part.text;
    return text;
  };
  std::string text = join();
  while (display_width(text) > width && parts.size() > 1) {
    parts.erase(
        std::min_element(parts.begin(), parts.end(), [](const Part& x, const Part& y) { return x.weight < y.weight; }));
    text = join();
  }
  if (display_width(text) > width) return text.substr(0, width);
  const std::size_t room = width - display_width(text);
  if (state.steps > 0 && room >= narrowest_bar + 4)
    text += fmt::format("  [{}]", bar_text(state, std::min(room - 4, widest_bar)));
  return text;
}

Progress::Progress(std::FILE* out) : out_(out), terminal_(::isatty(::fileno(out)) == 1), last_(Clock::now()) {}

Progress::~Progress() {
  if (!drawn_) return;
  draw(state_);
  std::fputc('\n', out_);
  std::fflush(out_);
}

void Progress::update(const ProgressState& state) {
  const auto now = Clock::now();
  state_ = state;
  if (history_.empty() || now - history_.back().first >= redraw) history_.emplace_back(now, state.step);
  while (history_.size() > 2 && now - history_[1].first > rate_window) history_.pop_front();
  if (now - last_ < (terminal_ ? redraw : plain_line)) return;
  last_ = now;
  if (terminal_) {
    draw(state);
    drawn_ = true;
  } else {
    say(progress_text(state, rate(), std::string::npos));
  }
}

void Progress::say(const std::string& line) {
  clear();
  fmt::print(out_, "{}\n", line);
  std::fflush(out_);
}

double Progress::rate() const {
  if (history_.size() < 2) return 0;
  const std::chrono::duration<double> span = history_.back().first - history_.front().first;
  return static_cast<double>(history_.back().second - history_.front().second) / span.count();
}

void Progress::draw(const ProgressState& state) {
  // One column stays free: a full line would wrap on some terminals.
  fmt::print(out_, "\r{}\x1b[K", progress_text(state, rate(), terminal_width(out_) - 1));
  std::fflush(out_);
}

void Progress::clear() {
  if (drawn_) fmt::print(out_, "\r\x1b[K");
  drawn_ = false;
}

}  // namespace rtf::train
