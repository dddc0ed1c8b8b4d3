// The Cauchy kernel of S4 and its gradient on the GPU, beside what arithmetic and memory allow, and beside what S4's
// own CUDA extension takes at N = 64, L = 16384 and 128 channels on an H200. Calls run inside a CUDA graph.
#include <cmath>
#include <cstdio>
#include <numbers>
#include <random>

#include "cuda/cauchy.h"
#include "graph_timing.h"
#include "rtf/error.h"

namespace {

using namespace rtf::cuda;
using namespace rtf::bench;

constexpr double extension_ms = 0.094;

int attribute(cudaDeviceAttr which) {
  int value = 0;
  require(cudaDeviceGetAttribute(&value, which, 0));
  return value;
}

// What a GPU of compute capability 9 does in a second.
struct Rates {
  double clocks = 1e3 * attribute(cudaDevAttrMultiProcessorCount) * attribute(cudaDevAttrClockRate);
  double operations = 128 * clocks, reciprocals = 16 * clocks;
  double bytes = 2e3 / 8 * attribute(cudaDevAttrMemoryClockRate) * attribute(cudaDevAttrGlobalMemoryBusWidth);
};

// Milliseconds that no kernel with these operations can be below.
double bound(const Rates& rates, double terms, double operations, double bytes) {
  return 1e3 * std::max({terms * operations / rates.operations, terms / rates.reciprocals, bytes / rates.bytes});
}

std::vector<double> random_numbers(std::size_t count, unsigned seed) {
  std::mt19937 engine(seed);
  std::normal_distribution<double> draw;
  std::vector<double> values(count);
  for (double& value : values) value = draw(engine);
  return values;
}

void measure(const char* what, std::int64_t rows, std::int64_t sums, std::int64_t pairs, std::int64_t points) {
  std::vector<double> poles = random_numbers(2 * rows * pairs, 1), at(points);
  for (std::size_t i = 0; i < poles.size(); i += 2) {
    poles[i] = -0.005;
    poles[i + 1] = -std::abs(poles[i + 1]);
  }
  for (std::int64_t i = 0; i < points; ++i)
    at[i] = 2 * std::tan(std::numbers::pi / 2 * static_cast<double>(i) / static_cast<double>(points));
  const std::size_t results = 2 * rows * sums * points;
  const DeviceArray<double> v(random_numbers(2 * rows * sums * pairs, 2)), l(poles), s(at);
  const DeviceArray<float> y(results), dy(std::vector<float>(results, 1.0f));
  CauchyArguments arguments{rows, sums, pairs, points, Type::float32, v.get(), l.get(), s.get(), nullptr};
  const CauchyParts parts = cauchy_parts(arguments);
  const std::size_t v_numbers = 2 * parts.shares * rows * sums * pairs;
  const std::size_t pole_numbers = 2 * parts.shares * parts.groups * rows * pairs;
  const DeviceArray<double> v_parts(v_numbers), pole_parts(pole_numbers);
  const double forward = 1e-3 * microseconds([&](cudaStream_t stream) {
                           arguments.stream = stream;
                           cauchy(arguments, y.get());
                         });
  const double backward = 1e-3 * microseconds([&](cudaStream_t stream) {
                            arguments.stream = stream;
                            cauchy_backward(arguments, dy.get(), v_parts.get(), pole_parts.get());
                          });
  // As src/cuda/cauchy.cu counts them; six sums share a reciprocal.
  const Rates rates;
  const double terms = static_cast<double>(rows * pairs * points), groups = std::ceil(static_cast<double>(sums) / 6);
  const double each = static_cast<double>(sums), bytes = 4.0 * static_cast<double>(results);
  const double least = bound(rates, terms, 7 * groups + 4 * each, bytes);
  const double least_back =
      bound(rates, terms, 14 * groups + 8 * each, bytes + 8.0 * static_cast<double>(v_numbers + pole_numbers));
  std::printf("%-34s %4lld %4lld %5lld %6lld %9.4f %8.4f %7.2f %9.2f %9.4f %8.4f %7.2f\n", what,
              static_cast<long long>(rows), static_cast<long long>(sums), static_cast<long long>(pairs),
              static_cast<long long>(points), forward, least, forward / least, forward / extension_ms, backward,
              least_back, backward / least_back);
  std::fflush(stdout);
}

}  // namespace

int main() try {
  std::printf("%-34s %4s %4s %5s %6s %9s %8s %7s %9s %9s %8s %7s\n", "ms, float32", "rows", "sums", "pairs", "points",
              "forward", "bound", "x bound", "x 0.094", "backward", "bound", "x bound");
  measure("N = 64 pairs, L points", 128, 1, 64, 16384);
  measure("N = 64 pairs, half of the circle", 128, 1, 64, 8192);
  measure("N = 32 pairs, L points", 128, 1, 32, 16384);
  measure("N = 32 pairs, half of the circle", 128, 1, 32, 8192);
  measure("S4 at n = 64, causal", 128, 4, 32, 8192);
  measure("S4 at n = 64, Path-X", 256, 6, 32, 8192);
  measure("S4 at n = 64, Image", 512, 6, 32, 512);
  measure("S4 at n = 4, ListOps", 256, 6, 2, 1024);
  measure("S4 at n = 1024, Path-X", 256, 6, 512, 8192);
  return 0;
} catch (const rtf::Error& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
