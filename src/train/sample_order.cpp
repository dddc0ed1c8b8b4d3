#include "train/sample_order.h"

#include <algorithm>
#include <numeric>

#include "core/shuffle.h"
#include "rtf/random.h"
#include "train/random_streams.h"

namespace rtf::train {
namespace {

using Place = std::vector<int64_t>::iterator;

void sort_by_length(const Task& task, Split split, Place begin, Place end) {
  std::stable_sort(begin, end, [&](int64_t x, int64_t y) { return task.length(split, x) < task.length(split, y); });
}

}  // namespace

std::vector<int64_t> training_order(const Task& task, const Config& config, int64_t epoch) {
  const int64_t size = task.size(Split::train), batch = config.train.batch, bucket = config.data.bucket;
  const auto key = static_cast<uint32_t>(epoch);
  std::vector<int64_t> order = shuffled(size, Random(config.train.seed, key, RandomStream::batch_order));
  if (task.in_order()) std::iota(order.begin(), order.end(), 0);
  if (bucket <= 1) return order;

  // What fills no batch stays at the end: it would be the longest samples in every epoch otherwise.
  const int64_t batches = size / batch;
  const Random random(config.train.seed, key, RandomStream::bucket_order);
  std::vector<int64_t> sorted = order;
  for (int64_t first = 0; first < batches; first += bucket) {
    const int64_t count = std::min(bucket, batches - first);
    const Place begin = order.begin() + first * batch;
    sort_by_length(task, Split::train, begin, begin + count * batch);
    const std::vector<int64_t> places = shuffled(count, random, static_cast<uint64_t>(first));
    for (int64_t i = 0; i < count; ++i) {
      std::copy_n(begin + i * batch, batch, sorted.begin() + (first + places[static_cast<std::size_t>(i)]) * batch);
    }
  }
  return sorted;
}

std::vector<int64_t> evaluation_order(const Task& task, Split split, int64_t batch) {
  std::vector<int64_t> order(static_cast<std::size_t>(task.size(split) / batch * batch));
  std::iota(order.begin(), order.end(), 0);
  sort_by_length(task, split, order.begin(), order.end());
  return order;
}

}  // namespace rtf::train
