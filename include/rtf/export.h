// From the numbers of a trained model, of whatever framework, to a model file.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "rtf/filter_file.h"
#include "rtf/model_file.h"
#include "rtf/realize.h"

namespace rtf {

struct TrainedModel {
  Architecture architecture;
  // By the names of a checkpoint (docs/files.md), without those of the layers: "encoder.weight", "blocks.0.norm.bias",
  // "blocks.0.output.weight", "decoder.bias", ...; batch norms have "running_mean" and "running_var" too.
  std::map<std::string, std::vector<double>> weights;
  // What each layer computes, after its constraint; of a bidirectional model both directions of each in turn.
  std::vector<AnyTransferFunction> layers;
};

struct Exported {
  ModelFile file;
  std::vector<Realized> layers;  // what was tried and chosen, in the order of TrainedModel::layers
};

// Batch norm is folded, and every layer becomes the recurrence that realize() chooses. Throws for a layer that cannot
// be streamed, and names it, and for sizes that do not fit.
Exported export_model(const TrainedModel& model, const RealizeOptions& options);

}  // namespace rtf
