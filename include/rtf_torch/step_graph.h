// A model's step as one CUDA graph: what a step costs in launches is paid once.
#pragma once

#include <memory>

#include "rtf_torch/sequence_model.h"

namespace rtf::nn {

// For a causal model on a CUDA device, in evaluation mode, and a batch of a fixed size. The model's weights are the ones it
// has now: who changes them makes a new graph. Part of librtf_torch_cuda.
class StepGraph {
 public:
  StepGraph(SequenceModel model, int64_t batch);
  ~StepGraph();

  // What SequenceModel::step would return, at the next sample of each stream. The tensor is the same at every call, and
  // so are those of state(): copy them to keep them.
  at::Tensor step(const at::Tensor& x);

  // Carried from step to step. Filled in place, it takes the streams elsewhere: zeros start them anew.
  const ModelState& state() const;

 private:
  struct Captured;
  std::unique_ptr<Captured> captured_;
};

}  // namespace rtf::nn
