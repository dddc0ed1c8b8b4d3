// Sums over pairs of conjugate poles at points of the imaginary axis, on the GPU; include/rtf/cauchy.h says which.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "cuda/elements.h"

namespace rtf::cuda {

// Complex numbers are (re, im); what describes the system is float64, whatever the results are.
struct CauchyArguments {
  std::int64_t rows = 0, sums = 0, pairs = 0, points = 0;
  Type type = Type::float32;          // of y and its gradient: float32 or float64
  const double* v = nullptr;          // (rows, sums, pairs, 2)
  const double* poles = nullptr;      // (rows, pairs, 2)
  const double* points_at = nullptr;  // (points)
  cudaStream_t stream = nullptr;
};

// y (rows, sums, points, 2)
void cauchy(const CauchyArguments& arguments, void* y);

// The gradients in parts to be added up: to v (shares, rows, sums, pairs, 2), to the poles (shares, groups, rows,
// pairs, 2), both float64. Their number does not grow with that of the points.
struct CauchyParts {
  std::int64_t shares, groups;
};
CauchyParts cauchy_parts(const CauchyArguments& arguments);
void cauchy_backward(const CauchyArguments& arguments, const void* dy, double* v_parts, double* pole_parts);

}  // namespace rtf::cuda
