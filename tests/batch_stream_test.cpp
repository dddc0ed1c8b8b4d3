#include "train/batch_stream.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <stdexcept>

#include "rtf/error.h"

namespace rtf::train {
namespace {

constexpr Ahead two{.batches = 2, .pinned = false};

Batch numbered(int64_t index) {
  return {.input = at::full({1, 1, 1}, index, at::kLong), .target = at::zeros({1}), .lengths = {}, .continues = false};
}

int64_t number(const Batch& batch) { return batch.input.item<int64_t>(); }

// Until the thread has called `make` that often: one more than may wait, since it holds the last.
void wait_for(const std::atomic<int>& calls, int count) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (calls < count && std::chrono::steady_clock::now() < end) std::this_thread::yield();
  ASSERT_EQ(calls, count);
}

TEST(BatchStream, GivesBatchesInOrder) {
  for (const Ahead ahead : {Ahead{}, two}) {
    BatchStream stream(numbered, 20, ahead);
    for (int64_t i = 0; i < 20; ++i) EXPECT_EQ(number(stream.take(i)), i);
  }
}

TEST(BatchStream, MakesNoMoreThanItMay) {
  std::atomic<int> calls = 0;
  BatchStream stream(
      [&](int64_t index) {
        ++calls;
        return numbered(index);
      },
      100, two);
  EXPECT_EQ(calls, 0);  // nothing before the first is asked for
  stream.take(0);
  wait_for(calls, 4);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_EQ(calls, 4);
}

TEST(BatchStream, StartsAgainAtAnotherBatch) {
  BatchStream stream(numbered, 100, two);
  for (const int64_t index : {0, 1, 50, 51, 3, 3, 4, 99, 0}) EXPECT_EQ(number(stream.take(index)), index);
}

TEST(BatchStream, ThrowsWhatMakingABatchThrew) {
  BatchStream stream(
      [](int64_t index) {
        if (index == 3) throw std::runtime_error("no batch 3");
        return numbered(index);
      },
      10, two);
  for (int64_t i = 0; i < 3; ++i) EXPECT_EQ(number(stream.take(i)), i);  // those before it are not lost
  EXPECT_THROW(stream.take(3), std::runtime_error);
  EXPECT_THROW(stream.take(3), std::runtime_error);
  for (int64_t i = 4; i < 10; ++i) EXPECT_EQ(number(stream.take(i)), i);
  EXPECT_EQ(number(stream.take(0)), 0);
}

TEST(BatchStream, EndsWhileFull) {
  std::atomic<int> calls = 0;
  {
    BatchStream stream(
        [&](int64_t index) {
          ++calls;
          return numbered(index);
        },
        100, two);
    stream.take(0);
    wait_for(calls, 4);
  }
  EXPECT_EQ(calls, 4);
}

TEST(BatchStream, RefusesBatchesThatThereAreNot) {
  for (const Ahead ahead : {Ahead{}, two}) {
    BatchStream stream(numbered, 2, ahead);
    EXPECT_THROW(stream.take(2), Error);
    EXPECT_THROW(stream.take(-1), Error);
    EXPECT_EQ(number(stream.take(1)), 1);
  }
}

}  // namespace
}  // namespace rtf::train
