// Measures the constants of src/cpu/cost_table.h on one thread, for every instruction set that this processor has, and
// prints them as they stand there. Run it on an idle machine.
#include "cpu/cost_table.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <memory>
#include <vector>

#include "core/carver.h"
#include "core/fft.h"
#include "cpu/recurrence_lanes.h"
#include "filters.h"
#include "rtf/convolution.h"
#include "rtf/filter.h"
#include "rtf/workspace.h"

namespace {

using namespace rtf;

Executor& one_thread() {
  static const std::unique_ptr<Executor> executor = make_thread_pool(1);
  return *executor;
}

// The fastest of many short trials: what else runs on the machine only adds time.
template <class F>
double nanoseconds(F call) {
  using Clock = std::chrono::steady_clock;
  const auto trial = [&](int repetitions) {
    const auto start = Clock::now();
    for (int i = 0; i < repetitions; ++i) call();
    return std::chrono::duration<double, std::nano>(Clock::now() - start).count() / repetitions;
  };
  const int repetitions = std::max(1, static_cast<int>(1e6 / trial(2)));
  double best = trial(repetitions);
  for (int i = 0; i < 20; ++i) best = std::min(best, trial(repetitions));
  return best;
}

struct Point {
  double x, y;
};

// y = start + slope x with the least squares of relative errors; `off` is the worst of these.
struct Line {
  double start = 0, slope = 0, off = 0;

  explicit Line(const std::vector<Point>& points) {
    double w = 0, wx = 0, wy = 0, wxx = 0, wxy = 0;
    for (const auto [x, y] : points) {
      const double weight = 1 / (y * y);
      w += weight;
      wx += weight * x;
      wy += weight * y;
      wxx += weight * x * x;
      wxy += weight * x * y;
    }
    slope = (w * wxy - wx * wy) / (w * wxx - wx * wx);
    start = (wy - slope * wx) / w;
    for (const auto [x, y] : points) off = std::max(off, std::abs(start + slope * x - y) / y);
  }
};

double mean(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += value;
  return sum / static_cast<double>(values.size());
}

constexpr std::size_t batch = 4, tiles = 4;

// Channels side by side, as method_cost counts them.
template <class T>
std::size_t lanes(InstructionSet set) {
  return cpu::recurrence_lanes(set).lanes * sizeof(double) / sizeof(T);
}

// One complex transform of `lanes` rows, for one element of them.
template <class T>
double transform_element(InstructionSet set, std::size_t length) {
  const auto fft = get_fft<T>(FftKind::complex, FftLanes::all, length, set);
  AlignedVector<T> space(FftRow<T>::elements(*fft), T(0));
  const double vectors = static_cast<double>(lanes<T>(set)) / static_cast<double>(fft->lanes);
  return vectors * nanoseconds([&] { FftRow<T>(*fft, space.data()).forward(); }) / static_cast<double>(length);
}

template <class T>
double convolution_time(std::size_t length, std::size_t channels) {
  const ConvolutionPlan<T> plan(batch, length, channels, length);
  AlignedVector<T> u(batch * length * channels, T(1)), y(u.size());
  const KernelSpectrum<T> kernel(plan, std::vector<T>(channels * length, T(1) / static_cast<T>(length)));
  const Workspace workspace(plan.workspace_bytes(one_thread()));
  return nanoseconds([&] {
    convolve(plan, channels_last(u.data(), batch, length, channels), kernel,
             channels_last(y.data(), batch, length, channels), {}, workspace, one_thread());
  });
}

// The same for one element of `lanes` rows.
template <class T>
double convolution_element(InstructionSet set, std::size_t length) {
  const double elements = static_cast<double>(batch * tiles * length);
  return convolution_time<T>(length, tiles * lanes<T>(set)) / elements;
}

double filter_time(std::size_t sequences, std::size_t length, std::size_t channels, std::size_t order,
                   FilterOptions options) {
  const auto tf = bench::make_filter<TransferFunction>(bench::Family::montel, channels, channels, order, 1);
  const FilterPlan<float> plan(tf, sequences, length, options);
  bench::Samples u = bench::normal_samples(sequences * length * channels, 3), y(u.size());
  const std::vector<double> state(options.initial_state ? sequences * channels * order : 0);
  const Workspace workspace(plan.workspace_bytes(one_thread()));
  return nanoseconds([&] {
    filter(plan, channels_last(u.data(), sequences, length, channels),
           channels_last(y.data(), sequences, length, channels), state, {}, {}, workspace, one_thread());
  });
}

struct Transforms {
  std::vector<double> near, far, element;
};

// The element's share is what short convolutions cost beyond their transforms; the rest is the transforms' own.
template <class T>
void measure_transforms(InstructionSet set, Transforms& result) {
  for (const std::size_t length : {256, 512, 1024})
    result.element.push_back(convolution_element<T>(set, length) - 2 * transform_element<T>(set, length));
  const double element = mean(result.element);
  const auto rest = [&](std::size_t length) {
    return (convolution_element<T>(set, length) - element) / (2 * std::log2(length));
  };
  for (const std::size_t length : {512, 1024, 2048, 4096}) result.near.push_back(rest(length));
  for (const std::size_t length : {32768, 65536, 131072}) result.far.push_back(rest(length));
}

// What filtering from a state costs beyond its two convolutions, for each of the three copies that method_cost counts.
double measure_copy(InstructionSet set) {
  const std::size_t length = 2040, order = 8, channels = tiles * lanes<double>(set);
  const double all = filter_time(batch, length, channels, order, {.method = FilterMethod::fft, .initial_state = true});
  const double convolutions =
      convolution_time<double>(length + order, channels) + convolution_time<double>(order, channels);
  return (all - convolutions) / static_cast<double>(3 * batch * (length + order) * channels);
}

Line measure_across_channels(InstructionSet set) {
  const std::size_t length = 4096;
  std::vector<Point> points;
  for (const std::size_t order : {3, 7, 15, 31, 63, 127})
    points.push_back({static_cast<double>(order),
                      filter_time(1, length, tiles * lanes<double>(set), order, {.method = FilterMethod::recurrence}) /
                          static_cast<double>(length * tiles)});
  return Line(points);
}

Line measure_across_time(InstructionSet set) {
  const std::size_t length = 16384;
  std::vector<Point> points;
  for (const std::size_t order : {2, 4, 8, 16, 32, 64, 128})
    points.push_back(
        {static_cast<double>(order), filter_time(1, length, 1, order, {.method = FilterMethod::recurrence}) /
                                         static_cast<double>(length / lanes<double>(set))});
  return Line(points);
}

void measure(InstructionSet set) {
  set_instruction_set(set);
  Transforms transforms;
  measure_transforms<float>(set, transforms);
  measure_transforms<double>(set, transforms);
  const Line channels = measure_across_channels(set), time = measure_across_time(set);
  const cpu::CostTable table{mean(transforms.near),
                             mean(transforms.far),
                             mean(transforms.element),
                             measure_copy(set),
                             channels.slope,
                             channels.start,
                             time.slope,
                             time.start};
  std::printf("  static constexpr CostTable %s{%.2f, %.2f, %.1f, %.2f, %.2f, %.1f, %.2f, %.1f};\n", name(set),
              table.transform, table.transform_far, table.element, table.copy, table.tap, table.sample, table.time_tap,
              table.time_vector);
  std::fprintf(stderr,
               "%s: the lines of the recurrence miss a measured time by %.0f %% (channels) and %.0f %% (time)\n",
               name(set), 100 * channels.off, 100 * time.off);
}

}  // namespace

int main() {
  for (const InstructionSet set : instruction_sets()) measure(set);
}
