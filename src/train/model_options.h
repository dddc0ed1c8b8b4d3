// The model that a config and its task describe.
#pragma once

#include "train/optimizer.h"
#include "train/task.h"

namespace rtf::train {

nn::SequenceModelOptions model_options(const Config& config, const Task& task);

// The type that train.precision names, on the CPU.
at::TensorOptions tensor_options(const Config& config);

// In that type.
nn::SequenceModel make_model(const Config& config, const Task& task);

// Its parameters and buffers, live, as model.<name>.
NamedTensors model_tensors(const nn::SequenceModel& model);

}  // namespace rtf::train
