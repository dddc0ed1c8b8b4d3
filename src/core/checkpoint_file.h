// What a run's checkpoint holds on disk, whole or in parts, before it is tensors of torch.
#pragma once

#include <string>

#include "rtf/safetensors.h"

namespace rtf {

inline constexpr const char* checkpoint_format = "1";  // metadata 'format'

// The file under `path`, or what its parts make together: a checkpoint or an exported model, unchecked.
TensorFile read_model_or_checkpoint(const std::string& path);

bool is_exported_model(const TensorFile& file);

// Refuses what is no checkpoint of this format, or damaged.
void check_checkpoint(const TensorFile& file, const std::string& path);

}  // namespace rtf
