// Kernels of diagonal systems on the GPU; include/rtf/vandermonde.h says what they are.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "cuda/elements.h"

namespace rtf::cuda {

// Complex numbers are (re, im); what describes the system is float64, whatever the results are.
struct VandermondeArguments {
  std::int64_t rows = 0, pairs = 0, length = 0;
  Type type = Type::float32;      // of k and its gradient: float32 or float64
  const double* c = nullptr;      // (rows, pairs, 2)
  const double* log_z = nullptr;  // (rows, pairs, 2)
  cudaStream_t stream = nullptr;
};

// k (rows, length)
void vandermonde(const VandermondeArguments& arguments, void* k);

// The gradients in parts to be added up, (shares, rows, pairs, 2), float64. Their number does not grow with the length.
std::int64_t vandermonde_shares(const VandermondeArguments& arguments);
void vandermonde_backward(const VandermondeArguments& arguments, const void* dk, double* c_parts, double* log_z_parts);

}  // namespace rtf::cuda
