// Matrices and embeddings in narrow types.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "rtf/model_file.h"

namespace rtf {

inline bool is_narrow(DataType type) { return type == DataType::bf16 || type == DataType::int8; }

// The multiples of the scales that int8 weights are.
std::vector<double> whole_weights(const Linear& layer);

// Throws unless there are `rows` scales, none too small for its row; `where` names the matrix.
void check_scales(const Linear& layer, std::size_t rows, const char* operation, const std::string& where);

}  // namespace rtf
