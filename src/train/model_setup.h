// The model that a config and its task describe.
#pragma once

#include "train/checkpoint.h"
#include "train/task.h"

namespace rtf::train {

nn::SequenceModelOptions model_options(const Config& config, const Task& task);

// The type that train.precision names, on the CPU.
at::TensorOptions tensor_options(const Config& config);

// In that type.
nn::SequenceModel make_model(const Config& config, const Task& task);

// The evaluated weights of a checkpoint with averages.
void load_averages(const Checkpoint& checkpoint, const nn::SequenceModel& model);

// train.threads and train.deterministic, for the whole process.
void set_up_torch(const TrainConfig& config);

// Its parameters and buffers, live, as model.<name>.
NamedTensors model_tensors(const nn::SequenceModel& model);

}  // namespace rtf::train
