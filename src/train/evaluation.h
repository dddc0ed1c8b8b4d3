// Scores of a model on a split, by convolution or streamed.
#pragma once

#include <functional>

#include "train/task.h"

namespace rtf::train {

// How the outputs are computed.
enum class Mode {
  convolution,  // as in training
  prefill,      // the first half of each sequence at once, the rest sample by sample
  step,         // sample by sample
};

struct Evaluation {
  Score score;
  int64_t samples = 0;
  double difference = 0;  // largest one of streamed outputs from the convolution's, relative to the largest output
};

// How many sequences of `split` are evaluated at a time; refused when it has fewer.
int64_t evaluation_batch(const TrainConfig& config, const Task& task, Split split);

// In batches of `batch`; a last incomplete one is dropped. `progress` hears how many samples are done.
Evaluation evaluate(nn::SequenceModel model, const Task& task, Split split, int64_t batch,
                    Mode mode = Mode::convolution, const std::function<void(int64_t)>& progress = {});

}  // namespace rtf::train
