// What is lost between a trained model and its file, all in all.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "rtf/model_file.h"

namespace rtf {

// (batch, length) tokens, or (batch, length, features) numbers.
struct ModelInput {
  std::size_t batch = 1, length = 0;
  std::vector<std::int64_t> tokens;
  std::vector<double> numbers;
};

// Random tokens, or numbers that float32 holds: of the length it was trained at, or as long as takes seconds.
ModelInput random_input(const Architecture& architecture);

// The largest difference between the answers of the file, as rtf::stream runs it, and those of the model in float64,
// `wanted`, over the largest of these; infinite where one is not finite.
double answer_error(const ModelFile& file, const ModelInput& input, std::span<const double> wanted);

}  // namespace rtf
