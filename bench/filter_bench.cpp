// filter() in float32 with a prepared plan: one channel, and 128 that share one filter as SciPy's lfilter takes them.
// Label: the method that was chosen. Counters: time of one sample of one channel, error and its bound.
#include <benchmark/benchmark.h>

#include <memory>

#include "accuracy.h"
#include "filters.h"
#include "rtf/rtf.h"

namespace {

using namespace rtf::bench;

struct Sizes {
  Family family;
  std::size_t length, channels, order;

  bool operator==(const Sizes&) const = default;
};

rtf::TransferFunction shared_filter(const Sizes& sizes) {
  const rtf::TransferFunction one = one_filter(sizes.family, sizes.order);
  auto all = rtf::make_coefficients(sizes.channels, 1, sizes.order);
  all.a = one.a;
  for (std::size_t i = 0; i < all.b.size(); ++i) all.b[i] = one.b[i % sizes.order];
  return all;
}

// v_t = u_t - a . (v_{t-1}, ...), y_t = h0 u_t + b . (v_{t-1}, ...).
std::vector<double> direct_recurrence(const rtf::TransferFunction& one, const std::vector<double>& u) {
  std::vector<double> v(u.size()), y(u.size());
  for (std::size_t t = 0; t < u.size(); ++t) {
    v[t] = u[t];
    y[t] = one.h0[0] * u[t];
    for (std::size_t k = 1; k <= std::min(t, one.order); ++k) {
      v[t] -= one.a[k - 1] * v[t - k];
      y[t] += one.b[k - 1] * v[t - k];
    }
  }
  return y;
}

// A plan that has run once, and how well: the first and the last channel against the recurrence in double.
class Case {
 public:
  explicit Case(const Sizes& sizes_)
      : sizes(sizes_),
        plan(shared_filter(sizes), 1, sizes.length),
        u(normal_samples(sizes.length * sizes.channels, 3)),
        y(u.size()),
        workspace(plan.workspace_bytes(rtf::default_executor())) {
    run();
    const rtf::TransferFunction one = one_filter(sizes.family, sizes.order);
    const double bound = float_bound(rtf::condition(one.a, sizes.length));
    for (const std::size_t channel : {std::size_t{0}, sizes.channels - 1})
      accuracy.add(relative_error(direct_recurrence(one, row(u, channel)), row(y, channel), y), bound);
  }

  void run() {
    rtf::filter(plan, rtf::channels_last(u.data(), 1, sizes.length, sizes.channels),
                rtf::channels_last(y.data(), 1, sizes.length, sizes.channels), {}, {}, {}, workspace,
                rtf::default_executor());
  }

  Sizes sizes;
  rtf::FilterPlan<float> plan;
  Samples u, y;
  rtf::Workspace workspace;
  Accuracy accuracy;

 private:
  std::vector<double> row(const Samples& signal, std::size_t channel) const {
    std::vector<double> values(sizes.length);
    for (std::size_t t = 0; t < sizes.length; ++t) values[t] = signal[t * sizes.channels + channel];
    return values;
  }
};

// The library calls a benchmark several times; only a change of the case prepares a new one.
Case& prepared(const Sizes& sizes) {
  static std::unique_ptr<Case> last;
  if (!last || last->sizes != sizes) last = std::make_unique<Case>(sizes);
  return *last;
}

void run(benchmark::State& state, const Sizes& sizes) {
  Case& one = prepared(sizes);
  for (auto _ : state) {
    one.run();
    benchmark::ClobberMemory();
  }
  state.SetLabel(rtf::name(one.plan.method()));
  const auto work = static_cast<double>(sizes.length * sizes.channels);
  state.counters["sample"] =
      benchmark::Counter(work, benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
  state.counters["error"] = one.accuracy.error;
  state.counters["bound"] = one.accuracy.bound;
}

void add(const Sizes& s) {
  const std::string shape = "1x" + std::to_string(s.length) + "x" + std::to_string(s.channels);
  const std::string title = std::string("filter/") + name(s.family) + "/" + shape + "/n" + std::to_string(s.order);
  benchmark::RegisterBenchmark(title.c_str(), run, s)->Unit(benchmark::kMillisecond)->UseRealTime();
}

}  // namespace

int main(int argc, char** argv) {
  for (const Family family : families)
    for (const std::size_t order : {2, 8, 16, 64}) {
      add({family, 65536, 1, order});
      add({family, 8192, 128, order});
    }
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  benchmark::RunSpecifiedBenchmarks();
}
