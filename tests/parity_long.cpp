// `make test-long`: many random cases, the worst error of each pair against its bound, and how many cases were
// well-conditioned. Exits 1 when a bound fails or too few cases have unscaled bounds.
#include <fmt/format.h>

#include <cstdlib>

#include "parity.h"

int main(int argc, char** argv) {
  using namespace rtf::testing;
  const std::size_t cases = argc > 1 ? std::strtoul(argv[1], nullptr, 10) : 10000;
  struct Band {
    std::size_t low, high, cases = 0, well_f64 = 0, well_f32 = 0;
  };
  Band bands[] = {{0, 0}, {1, 8}, {9, 64}, {65, 256}, {257, 600}};
  RandomFilters sizes(20240607);
  Report report;
  for (std::size_t i = 0; i < cases; ++i) {
    // The bands of order in turn, lengths up to 5,000, the larger work with fewer rows.
    Band& band = bands[i % 5];
    Case at{};
    at.order = sizes.integer(band.low, band.high);
    at.length = sizes.chance(0.3) ? sizes.length(5000) : sizes.length(700);
    const bool heavy = at.order * at.length > 300000;
    at.batch = sizes.integer(1, heavy ? 1 : 3);
    const auto [channels, groups] = sizes.channels_and_groups(heavy ? 3 : 20);
    at.channels = channels;
    at.groups = groups;
    at.seed = i + 1;
    Parity parity(at, report);
    ++band.cases;
    band.well_f64 += parity.kappa() <= 1e6;
    band.well_f32 += parity.kappa() <= 1e2;
    parity.run();
    if (i % 50 == 49) {
      fmt::print(stderr, "\r{:6d} of {} cases", i + 1, cases);
      std::fflush(stderr);
    }
  }
  fmt::print(stderr, "\r                          \r");

  bool good = true;
  fmt::print("{:<36} {:>8} {:>10} {:>10} {:>7}   worst at (batch, length, channels, groups, order; seed)\n", "pair",
             "checks", "error", "bound", "share");
  for (const auto& [pair, w] : report.worst()) {
    const bool holds = w.ratio <= 1;
    good = good && holds;
    fmt::print("{:<36} {:>8} {:>10.2e} {:>10.2e} {:>6.1f}%   ({}, {}, {}, {}, {}; {}){}\n", pair, w.count, w.error,
               w.bound, 100 * w.ratio, w.at.batch, w.at.length, w.at.channels, w.at.groups, w.at.order, w.at.seed,
               holds ? "" : "  FAILS");
  }
  fmt::print("\n{:<12} {:>8} {:>22} {:>22}\n", "orders", "cases", "kappa <= 1e6 (f64)", "kappa <= 1e2 (f32)");
  for (const Band& band : bands) {
    const double f64 = 100.0 * static_cast<double>(band.well_f64) / static_cast<double>(band.cases);
    const double f32 = 100.0 * static_cast<double>(band.well_f32) / static_cast<double>(band.cases);
    good = good && f64 >= 70 && f32 >= 70;
    fmt::print("{:<12} {:>8} {:>21.1f}% {:>21.1f}%\n", fmt::format("{}..{}", band.low, band.high), band.cases, f64,
               f32);
  }
  fmt::print("\n{} cases on instruction set {}: {}\n", cases, rtf::name(rtf::instruction_set()),
             good ? "every bound holds" : "A BOUND FAILS");
  return good ? 0 : 1;
}
