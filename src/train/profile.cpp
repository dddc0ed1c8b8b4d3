#include "train/profile.h"

#include <fmt/format.h>

#include <numeric>

#include "train/table.h"

namespace rtf::train {

std::string Profile::table() const {
  static constexpr const char* names[] = {"data",       "forward",    "backward", "optimizer",
                                          "evaluation", "checkpoint", "logging"};
  const double total = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count();
  const double rest = total - std::accumulate(seconds_.begin(), seconds_.end(), 0.0);
  Table table({"part", "seconds", "share"});
  const auto row = [&](const char* name, double seconds) {
    table.row({name, fmt::format("{:.3f}", seconds), fmt::format("{:.1f} %", 100 * seconds / total)});
  };
  for (std::size_t i = 0; i < seconds_.size(); ++i) row(names[i], seconds_[i]);
  row("rest", rest);
  row("total", total);
  return table.text();
}

}  // namespace rtf::train
