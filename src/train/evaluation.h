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

// How far an evaluation has come, so that one that was stopped can go on, in another process too.
struct PartialEvaluation {
  Tally tally;
  int64_t batches = 0;

  // As one tensor of float64, and back; `device` is where the model is.
  at::Tensor tensor() const;
  static PartialEvaluation from(const at::Tensor& tensor, c10::Device device);
};

// In batches of `batch`; a last incomplete one is dropped. `progress` is called after each of them: when it throws,
// `done` is where the evaluation can go on.
Evaluation evaluate(nn::SequenceModel model, const Task& task, Split split, int64_t batch, Mode mode,
                    PartialEvaluation& done, const std::function<void()>& progress = {});

}  // namespace rtf::train
