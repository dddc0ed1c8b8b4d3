#include "train/sample_order.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <set>

#include "train/tasks/objectives.h"

namespace rtf::train {
namespace {

// Samples of random lengths, and nothing else.
class Lengths : public Classification {
 public:
  explicit Lengths(std::vector<int64_t> lengths) : lengths_(std::move(lengths)) {}
  void shape(nn::SequenceModelOptions&) const override {}
  std::vector<Split> splits() const override { return {Split::train, Split::val}; }
  int64_t size(Split) const override { return static_cast<int64_t>(lengths_.size()); }
  int64_t length(Split, int64_t index) const override { return lengths_[static_cast<std::size_t>(index)]; }
  Batch batch(Split, int64_t, std::span<const int64_t>) const override { return {}; }
  std::string selection() const override { return "loss"; }
  bool higher_is_better() const override { return false; }

 private:
  std::vector<int64_t> lengths_;
};

Lengths task_of(std::size_t size) {
  std::vector<int64_t> lengths(size);
  for (std::size_t i = 0; i < size; ++i) lengths[i] = 1 + static_cast<int64_t>(i * 7919 % 1009);
  return Lengths(lengths);
}

std::vector<int64_t> sorted(std::vector<int64_t> values) {
  std::sort(values.begin(), values.end());
  return values;
}

// Positions that padding adds, over all whole batches.
int64_t padding(const Task& task, const std::vector<int64_t>& order, int64_t batch) {
  int64_t sum = 0;
  for (std::size_t first = 0; first + static_cast<std::size_t>(batch) <= order.size();
       first += static_cast<std::size_t>(batch)) {
    int64_t longest = 0, all = 0;
    for (int64_t i = 0; i < batch; ++i) {
      const int64_t length = task.length(Split::train, order[first + static_cast<std::size_t>(i)]);
      longest = std::max(longest, length);
      all += length;
    }
    sum += longest * batch - all;
  }
  return sum;
}

TEST(SampleOrder, BucketsHoldSamplesOfLikeLength) {
  for (const std::size_t size : {1000u, 1003u, 37u}) {
    const Lengths task = task_of(size);
    Config config;
    config.train.batch = 8;
    config.train.seed = 3;
    const std::vector<int64_t> plain = training_order(task, config, 2);
    config.data.bucket = 10;
    const std::vector<int64_t> order = training_order(task, config, 2);
    std::vector<int64_t> all(size);
    std::iota(all.begin(), all.end(), 0);
    EXPECT_EQ(sorted(order), all);
    EXPECT_EQ(order, training_order(task, config, 2));
    EXPECT_NE(order, training_order(task, config, 3));
    // The samples of so many batches stay together, and what fills no batch stays last.
    const std::size_t group = 80, whole = size / 8 * 8;
    for (std::size_t first = 0; first < size; first += group) {
      const auto part = [&](const std::vector<int64_t>& of) {
        return std::vector<int64_t>(of.begin() + static_cast<std::ptrdiff_t>(first),
                                    of.begin() + static_cast<std::ptrdiff_t>(std::min(first + group, size)));
      };
      EXPECT_EQ(sorted(part(order)), sorted(part(plain)));
    }
    EXPECT_TRUE(std::equal(order.begin() + static_cast<std::ptrdiff_t>(whole), order.end(),
                           plain.begin() + static_cast<std::ptrdiff_t>(whole)));
    // No two batches of a group overlap in length, so there is hardly any padding; and they are not in order.
    EXPECT_LT(padding(task, order, 8) * 3, padding(task, plain, 8));
    if (size >= 1000) {
      int rising = 0;
      for (std::size_t i = 8; i < group; i += 8) {
        rising += task.length(Split::train, order[i]) > task.length(Split::train, order[i - 8]);
      }
      EXPECT_LT(rising, 9);
    }
  }
}

TEST(SampleOrder, EvaluationTakesTheSameSamplesSorted) {
  const Lengths task = task_of(103);
  const std::vector<int64_t> order = evaluation_order(task, Split::val, 10);
  std::vector<int64_t> expected(100);
  std::iota(expected.begin(), expected.end(), 0);
  EXPECT_EQ(sorted(order), expected);
  for (std::size_t i = 1; i < order.size(); ++i) {
    EXPECT_LE(task.length(Split::val, order[i - 1]), task.length(Split::val, order[i]));
  }
}

}  // namespace
}  // namespace rtf::train
