#include "device_timing.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <vector>

#include "train/device.h"

namespace rtf::cli {
namespace {

constexpr double stretch_milliseconds = 5;
constexpr int64_t longest_stretch = 100;

double elapsed(c10::Device device, int64_t calls, const std::function<void()>& call) {
  using Clock = std::chrono::steady_clock;
  train::synchronize(device);
  const Clock::time_point begin = Clock::now();
  for (int64_t i = 0; i < calls; ++i) call();
  train::synchronize(device);
  return 1e3 * std::chrono::duration<double>(Clock::now() - begin).count() / static_cast<double>(calls);
}

}  // namespace

double median_milliseconds(c10::Device device, const TimingOptions& options, const std::function<void()>& call) {
  const double first = elapsed(device, 2, call), share = options.most_milliseconds / 10;
  const auto warm_ups = first * static_cast<double>(options.warm_ups) > share
                            ? std::max<int64_t>(1, static_cast<int64_t>(share / first))
                            : options.warm_ups;
  const double once = elapsed(device, warm_ups, call);
  const auto stretch = std::clamp<int64_t>(static_cast<int64_t>(stretch_milliseconds / once), 1, longest_stretch);
  const double fitting = options.most_milliseconds / (once * static_cast<double>(stretch));
  const auto repeats = fitting < static_cast<double>(options.repeats)
                           ? std::max<int64_t>(3, static_cast<int64_t>(fitting))
                           : options.repeats;
  std::vector<double> times;
  for (int64_t i = 0; i < repeats; ++i) times.push_back(elapsed(device, stretch, call));
  std::nth_element(times.begin(), times.begin() + repeats / 2, times.end());
  return times[static_cast<std::size_t>(repeats / 2)];
}

double median_milliseconds_of_graph(c10::Device device, const TimingOptions& options,
                                    const std::function<void()>& call) {
  if (device.is_cpu()) return median_milliseconds(device, options, call);
  for (int i = 0; i < 3; ++i) call();  // what is made or chosen once is not recorded
  const std::unique_ptr<DeviceGraph> graph = train::make_graph();
  graph->capture(call);
  return median_milliseconds(device, options, [&] { graph->replay(); });
}

}  // namespace rtf::cli
