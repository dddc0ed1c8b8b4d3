// The randomized parity suite in the size that every run affords; parity_long.cpp is the same at length.
#include "parity.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <iostream>

using namespace rtf::testing;

namespace {

void expect_bounds(const Report& report) {
  for (const auto& [pair, w] : report.worst())
    EXPECT_LE(w.error, w.bound) << pair << " at batch " << w.at.batch << ", length " << w.at.length << ", channels "
                                << w.at.channels << ", groups " << w.at.groups << ", order " << w.at.order << ", seed "
                                << w.at.seed;
}

TEST(Parity, RandomSizes) {
  RandomFilters sizes(7);
  Report report;
  for (std::uint64_t seed = 1; seed <= 250; ++seed) {
    Case at{};
    at.order = sizes.chance(0.15) ? sizes.integer(0, 1) : sizes.integer(0, sizes.chance(0.7) ? 40 : 150);
    at.length = sizes.length(sizes.chance(0.8) ? 300 : 1200);
    at.batch = sizes.integer(1, 3);
    const auto [channels, groups] = sizes.channels_and_groups(20);
    at.channels = channels;
    at.groups = groups;
    at.seed = 1000 + seed;
    Parity(at, report).run();
  }
  expect_bounds(report);
}

// Orders below, at and above every short length.
TEST(Parity, ShortLengths) {
  Report report;
  for (std::size_t length = 1; length <= 9; ++length)
    for (std::size_t order = 0; order <= 12; ++order)
      Parity({2, length, 3, 3, order, length * 100 + order}, report).run();
  expect_bounds(report);
}

}  // namespace

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  if (const char* wanted = std::getenv("RTF_INSTRUCTION_SET"); wanted != nullptr && *wanted != '\0') {
    try {
      rtf::instruction_set();
    } catch (const rtf::Error& error) {
      std::cout << "skipped: " << error.what() << "\n";
      return 77;
    }
  }
  return RUN_ALL_TESTS();
}
