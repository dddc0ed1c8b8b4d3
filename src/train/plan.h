// The sizes of a run, checked against each other before the first step.
#pragma once

#include "train/task.h"

namespace rtf::train {

struct Plan {
  int64_t batches = 0;  // an epoch; the last incomplete one is dropped
  int64_t steps = 0;    // of the optimiser, in the whole run
  int64_t chunk = 0;    // samples between two steps of truncated back-propagation; 0: no state is carried
  int64_t chunks = 1;   // a batch
};

// Fills in what the config leaves to the run: optimizer.total.
Plan make_plan(Config& config, const Task& task);

}  // namespace rtf::train
