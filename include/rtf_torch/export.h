// A trained model as a product ships it.
#pragma once

#include <vector>

#include "rtf/model_file.h"
#include "rtf/realize.h"
#include "rtf_torch/sequence_model.h"

namespace rtf::nn {

struct Exported {
  ModelFile file;
  std::vector<Realized> layers;  // what was tried and chosen; of a bidirectional model both directions of each in turn
};

// Batch norm is folded, and every layer becomes the recurrence that realize() chooses. Throws rtf::Error, which names
// the layer, for one that cannot be streamed.
Exported export_model(const SequenceModelImpl& model, const RealizeOptions& options);

// What is lost on the way, all in all: the largest difference between the answers of the file, as rtf::stream runs it,
// and those of the model in float64, over the largest of these. For one random input of the length it was trained at.
double answer_error(const SequenceModelImpl& model, const ModelFile& file);

}  // namespace rtf::nn
