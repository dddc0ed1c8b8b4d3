// The layer's forward pass, and forward + backward. Counters: the worst error of outputs and gradients, and its bound.
#include <benchmark/benchmark.h>

#include <memory>

#include "accuracy.h"
#include "layer.h"

namespace {

using namespace rtf::bench;
using Row = std::vector<double>;

struct Sizes {
  Family family;
  std::size_t batch, length, channels, order;

  bool operator==(const Sizes&) const = default;
};

Row convolve_directly(const Row& k, const Row& u) {
  Row y(u.size());
  for (std::size_t j = 0; j < u.size(); ++j)
    for (std::size_t t = j; t < u.size(); ++t) y[t] += k[t - j] * u[j];
  return y;
}

// d/du of a loss through y = k * u, given dy; d/dk when x is u.
Row correlate_directly(const Row& x, Row dy) {
  std::reverse(dy.begin(), dy.end());
  Row dx = convolve_directly(x, dy);
  std::reverse(dx.begin(), dx.end());
  return dx;
}

Row part(const std::vector<double>& values, std::size_t index, std::size_t count) {
  const auto first = values.begin() + static_cast<std::ptrdiff_t>(index * count);
  return {first, first + static_cast<std::ptrdiff_t>(count)};
}

Row samples(const Samples& signal, const Layer& layer, std::size_t sequence, std::size_t channel) {
  Row row(layer.length);
  for (std::size_t t = 0; t < layer.length; ++t)
    row[t] = signal[(sequence * layer.length + t) * layer.channels + channel];
  return row;
}

rtf::TrainedTransferFunction one_channel(const rtf::TrainedTransferFunction& trained, std::size_t channel) {
  auto one = rtf::make_coefficients<rtf::TrainedTransferFunction>(1, 1, trained.order);
  one.a = part(trained.a, channel, trained.order);
  one.b = part(trained.b, channel, trained.order);
  one.h0 = {trained.h0[channel]};
  one.length = trained.length;
  return one;
}

// A layer that has run once, and how well: the first and the last channel against direct sums in double.
class Case {
 public:
  Case(const Sizes& sizes_, Pass pass_)
      : sizes(sizes_),
        layer(layer_filter(sizes.family, sizes.length, sizes.channels, sizes.order), sizes.batch, pass_),
        u(normal_samples(layer.y.size(), 3)),
        dy(normal_samples(layer.y.size(), 4)) {
    layer.run(u, dy);
    for (const std::size_t channel : {std::size_t{0}, layer.channels - 1}) check(channel);
  }

  Sizes sizes;
  Layer layer;
  Samples u, dy;
  Accuracy accuracy;

 private:
  void check(std::size_t channel) {
    const std::size_t last = layer.batch - 1;
    const auto one = one_channel(layer.trained, channel);
    const double bound = float_bound(rtf::condition(one.a, layer.length));
    const Row k = rtf::wrapped_kernel(one);
    const auto row = [&](const Samples& signal, std::size_t s) { return samples(signal, layer, s, channel); };
    const auto check_signal = [&](const Row& exact, const Samples& result) {
      accuracy.add(relative_error(exact, row(result, last), result), bound);
    };
    check_signal(convolve_directly(k, row(u, last)), layer.y);
    if (layer.pass == Pass::forward) return;

    check_signal(correlate_directly(k, row(dy, last)), layer.u_gradient);
    Row dk(layer.length);
    for (std::size_t s = 0; s < layer.batch; ++s) {
      const Row each = correlate_directly(row(u, s), row(dy, s));
      for (std::size_t t = 0; t < layer.length; ++t) dk[t] += each[t];
    }
    const auto check_gradient = [&](const Row& exact, const Row& result) {
      accuracy.add(relative_error(exact, part(result, channel, exact.size()), result), bound);
    };
    const rtf::CoefficientsGradient exact = rtf::wrapped_kernel_vjp(one, dk);
    check_gradient(exact.a, layer.a_gradient);
    check_gradient(exact.b, layer.b_gradient);
    check_gradient(exact.h0, layer.h0_gradient);
  }
};

// The library calls a benchmark several times; only a change of the case prepares a new one.
Case& prepared(const Sizes& sizes, Pass pass) {
  static std::unique_ptr<Case> last;
  if (!last || last->sizes != sizes || last->layer.pass != pass) {
    last.reset();
    last = std::make_unique<Case>(sizes, pass);
  }
  return *last;
}

void run(benchmark::State& state, const Sizes& sizes, Pass pass) {
  Case& one = prepared(sizes, pass);
  for (auto _ : state) {
    one.layer.run(one.u, one.dy);
    benchmark::ClobberMemory();
  }
  state.counters["error"] = one.accuracy.error;
  state.counters["bound"] = one.accuracy.bound;
}

void add(const Sizes& s) {
  for (const Pass pass : passes) {
    const std::string shape =
        std::to_string(s.batch) + "x" + std::to_string(s.length) + "x" + std::to_string(s.channels);
    const std::string title =
        std::string("layer/") + name(pass) + "/" + name(s.family) + "/" + shape + "/n" + std::to_string(s.order);
    benchmark::RegisterBenchmark(title.c_str(), run, s, pass)->Unit(benchmark::kMillisecond)->UseRealTime();
  }
}

}  // namespace

int main(int argc, char** argv) {
  for (const Family family : families)
    for (const std::size_t order : {64, 1024}) add({family, 16, 4096, 128, order});
  add({Family::montel, 16, 1024, 128, 64});
  add({Family::montel, 4, 16384, 128, 64});
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  benchmark::RunSpecifiedBenchmarks();
}
