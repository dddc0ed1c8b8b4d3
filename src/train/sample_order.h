// Which samples follow one another.
#pragma once

#include "train/task.h"

namespace rtf::train {

// The order of an epoch: shuffled by train.seed and the epoch, or as they come for streams. With data.bucket the
// samples of so many batches are sorted by length, and these batches then come in a random order.
std::vector<int64_t> training_order(const Task& task, const Config& config, int64_t epoch);

// All samples of a split that fill whole batches, short ones together: which of them are scored does not depend on it.
std::vector<int64_t> evaluation_order(const Task& task, Split split, int64_t batch);

}  // namespace rtf::train
