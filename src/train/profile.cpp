#include "train/profile.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "train/table.h"

namespace rtf::train {

std::string Profile::table() const {
  static constexpr const char* names[] = {"data",   "forward",    "backward",   "optimizer",
                                          "device", "evaluation", "checkpoint", "logging"};
  const double total = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count();
  const double rest = total - std::accumulate(seconds_.begin(), seconds_.end(), 0.0);
  Table table({"part", "seconds", "share"});
  const auto row = [&](const char* name, double seconds) {
    table.row({name, fmt::format("{:.3f}", seconds), fmt::format("{:.1f} %", 100 * seconds / total)});
  };
  // A run has a device or the three parts before it.
  for (std::size_t i = 0; i < seconds_.size(); ++i) {
    if (seconds_[i] > 0) row(names[i], seconds_[i]);
  }
  row("rest", rest);
  row("total", total);
  std::string text = table.text();
  if (steps_.size() > 1) {
    std::vector<float> steps(steps_.begin() + 1, steps_.end());
    const auto middle = steps.begin() + static_cast<std::ptrdiff_t>(steps.size() / 2);
    std::nth_element(steps.begin(), middle, steps.end());
    text += fmt::format("median step {:.2f} ms\n", 1e3 * *middle);
  }
  return text;
}

}  // namespace rtf::train
