// What a run says when its numbers broke down.
#pragma once

#include <string>

#include "rtf_torch/sequence_model.h"
#include "train/optimizer.h"

namespace rtf::train {

// An error's message without the operation in front, which says nothing to those who gave a config.
std::string without_operation(std::string message);

// "nan" whatever its sign.
std::string number_text(double value);

// What one looks for first: which gradient, where `optimizer` is given, and how near a layer's poles are to the circle.
std::string stop_line(int64_t step, const std::string& why, const Optimizer* optimizer, const nn::SequenceModel& model);

}  // namespace rtf::train
