// The model that a config and its task describe.
#pragma once

#include "train/checkpoint.h"
#include "train/task.h"

namespace rtf::train {

// What the config alone says: encoder, decoder and outputs are the task's.
nn::SequenceModelOptions backbone_options(const Config& config);
nn::SequenceModelOptions model_options(const Config& config, const Task& task);

// What of these the task has decided, by the names of the options.
std::map<std::string, std::string> task_settings(const nn::SequenceModelOptions& model);

// Of weights and samples.
at::ScalarType number_type(const TrainConfig& config);

// In that type.
nn::SequenceModel make_model(const Config& config, const Task& task, c10::Device device);

// The evaluated weights of a checkpoint with averages.
void load_averages(const Checkpoint& checkpoint, const nn::SequenceModel& model);

// train.device, train.threads, train.deterministic and train.precision, for the whole process. The device it is.
c10::Device set_up_torch(const TrainConfig& config);

// Its parameters and buffers, live, as model.<name>.
NamedTensors model_tensors(const nn::SequenceModel& model);

}  // namespace rtf::train
