// The tasks that make_task() knows.
#pragma once

#include "train/task.h"

namespace rtf::train {

std::unique_ptr<Task> make_copying(const Config& config);
std::unique_ptr<Task> make_delay(const Config& config, at::ScalarType type);
std::unique_ptr<Task> make_reconstruct(const Config& config, at::ScalarType type);
std::unique_ptr<Task> make_smnist(const Config& config, at::ScalarType type);
// Those of the Long Range Arena: listops, text, retrieval, image, pathfinder, pathx.
std::unique_ptr<Task> make_arena(const Config& config, at::ScalarType type);

// The task's own length where the config gives none; a shorter one is an error.
void set_length(nn::SequenceModelOptions& model, int64_t length);

}  // namespace rtf::train
