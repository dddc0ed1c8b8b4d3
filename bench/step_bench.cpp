// One step of 256 channels of order 64, as a deployed model takes it.
#include <benchmark/benchmark.h>

#include <vector>

#include "filters.h"
#include "rtf/recurrence.h"

namespace {

void step(benchmark::State& state) {
  const auto channels = static_cast<std::size_t>(state.range(0)), order = static_cast<std::size_t>(state.range(1));
  const rtf::TransferFunction tf = rtf::bench::step_filter(channels, order);
  const rtf::bench::Samples u = rtf::bench::normal_samples(channels, 3);
  rtf::bench::Samples y(channels);
  std::vector<double> x(channels * order);
  for (auto _ : state) {
    rtf::step<float>(tf, u, x, y);
    benchmark::ClobberMemory();
  }
}

BENCHMARK(step)->Args({256, 64})->ArgNames({"channels", "order"})->Unit(benchmark::kMicrosecond)->UseRealTime();

}  // namespace

BENCHMARK_MAIN();
