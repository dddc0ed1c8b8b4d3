// A trained model as a product ships it.
#pragma once

#include "rtf/export.h"
#include "rtf_torch/sequence_model.h"

namespace rtf::nn {

// export_model() of rtf/export.h. Throws for layers of other kinds and for half gated blocks too, which have no place
// in a model file.
Exported export_model(const SequenceModelImpl& model, const RealizeOptions& options);

// What is lost on the way, all in all: the largest difference between the answers of the file, as rtf::stream runs it,
// and those of the model in float64, over the largest of these. For one random input of the length it was trained at.
double answer_error(const SequenceModelImpl& model, const ModelFile& file);

}  // namespace rtf::nn
