// From a run's weights to a model file: what `rtf export` calls. Free of torch.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "rtf/model_file.h"
#include "rtf/realize.h"

namespace rtf::train {

struct ExportReport {
  std::string checkpoint;  // where the weights are from
  int64_t step = 0;
  Architecture architecture;
  std::vector<Realized> layers;  // of a bidirectional model both directions of each in turn
  double answer_error = 0;       // of the file, against the model in float64: see rtf_torch/export.h
};

// `run` is a run's folder, whose `checkpoint` (best, latest or previous) is taken, or a checkpoint itself. What a model
// is made of stands in its checkpoint; the folder around it says where the task's data are. The evaluated weights are
// exported: averages where there are some; matrices and embeddings in `weights`, bf16 or int8, where it is given.
// `output` appears whole or not at all.
ExportReport export_run(const std::string& run, const std::string& checkpoint, const std::string& output,
                        const RealizeOptions& options, std::optional<DataType> weights);

}  // namespace rtf::train
