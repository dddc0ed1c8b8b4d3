// ListOps: the law that expressions are drawn by, and the same ones whatever the number of threads.
#include "data/listops.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <set>

#include "data/draws.h"
#include "rtf/executor.h"

namespace rtf::data {
namespace {

// Counts of `cells` equally likely outcomes: the statistic has mean cells - 1 and standard deviation sqrt(2 (cells -
// 1)); six of them are not reached by chance.
void expect_even(const std::vector<double>& counts, const std::string& what) {
  double total = 0, statistic = 0;
  for (const double count : counts) total += count;
  const double cells = static_cast<double>(counts.size()), expected = total / cells;
  for (const double count : counts) statistic += (count - expected) * (count - expected) / expected;
  EXPECT_LT(statistic, cells - 1 + 6 * std::sqrt(2 * (cells - 1))) << what;
}

TEST(ListOps, WritesAsThePublicFilesDo) {
  EXPECT_EQ(listops_source({{ListOps::max, 3, 5, ListOps::end}, 5}), "( ( ( [MAX 3 ) 5 ) ] )");
  EXPECT_EQ(listops_source({{ListOps::sm, ListOps::min, 9, 1, ListOps::end, 7, ListOps::end}, 8}),
            "( ( ( [SM ( ( ( [MIN 9 ) 1 ) ] ) ) 7 ) ] )");
  EXPECT_EQ(listops_source({{ListOps::med, 1, 2, 3, ListOps::end}, 2}), "( ( ( ( [MED 1 ) 2 ) 3 ) ] )");
}

TEST(ListOps, LengthsAreInTheBounds) {
  std::size_t kept = 0;
  for (std::uint32_t index = 0; index < 20000; ++index)
    if (const auto one = draw_listops(1, index)) {
      ++kept;
      EXPECT_GT(one->tokens.size(), 500u);
      EXPECT_LT(one->tokens.size(), 2000u);
      EXPECT_LT(one->value, 10u);
    }
  EXPECT_GT(kept, 200u);
}

// What a choice of length cannot bend: the leaves' digits are drawn after the shape, and so are the operators.
TEST(ListOps, DigitsAndOperatorsAreEven) {
  std::vector<double> digits(10), operators(4);
  for (std::uint32_t index = 0; index < 10000; ++index)
    if (const auto one = draw_listops(2, index)) {
      for (const char token : one->tokens) {
        if (token < 10) ++digits[static_cast<std::size_t>(token)];
        if (token >= ListOps::min && token < ListOps::end) ++operators[static_cast<std::size_t>(token - ListOps::min)];
      }
    }
  expect_even(digits, "digits");
  expect_even(operators, "operators");
}

TEST(ListOps, ThreadsDoNotChangeTheRows) {
  std::vector<std::vector<std::pair<std::string, unsigned>>> runs;
  for (const std::size_t threads : {1, 3, 8}) {
    const auto pool = make_thread_pool(threads);
    auto& rows = runs.emplace_back();
    generate_listops(3, 100, *pool, [&](std::size_t i, const std::string& source, unsigned value) {
      EXPECT_EQ(i, rows.size());
      rows.emplace_back(source, value);
    });
    EXPECT_EQ(rows.size(), 100u);
  }
  EXPECT_EQ(runs[0], runs[1]);
  EXPECT_EQ(runs[0], runs[2]);
  EXPECT_EQ(std::set(runs[0].begin(), runs[0].end()).size(), 100u);
}

TEST(Draws, EveryNumberIsAsLikely) {
  Draws draws(7, 1, Generator::listops);
  for (const std::uint32_t count : {2u, 9u, 360u}) {
    std::vector<double> counts(count);
    for (int i = 0; i < 40000; ++i) ++counts[draws.below(count)];
    expect_even(counts, std::to_string(count));
  }
  std::vector<double> tenths(10);
  for (int i = 0; i < 40000; ++i) ++tenths[static_cast<std::size_t>(10 * draws.uniform())];
  expect_even(tenths, "uniform");
}

TEST(Draws, SamplesSeedsAndGeneratorsDiffer) {
  std::set<double> first;
  for (std::uint64_t seed = 0; seed < 10; ++seed)
    for (std::uint32_t sample = 0; sample < 10; ++sample)
      for (const Generator generator : {Generator::listops, Generator::pathfinder})
        first.insert(Draws(seed, sample, generator).uniform());
  EXPECT_EQ(first.size(), 200u);
}

}  // namespace
}  // namespace rtf::data
