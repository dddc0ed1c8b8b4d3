// Complex tensors as the core reads them, and the checks of the operators that sum over pairs of poles.
#pragma once

#include <ATen/ATen.h>

#include <complex>
#include <span>

namespace rtf::ops {

// What describes a system, as the sums over its poles read it: complex128, contiguous.
inline at::Tensor wide(const at::Tensor& complex) { return complex.to(at::kComplexDouble).resolve_conj().contiguous(); }

// A contiguous complex tensor of T.
template <class T = double>
std::span<const std::complex<T>> complex_values(const at::Tensor& contiguous) {
  return {static_cast<const std::complex<T>*>(contiguous.const_data_ptr()),
          static_cast<std::size_t>(contiguous.numel())};
}
template <class T = double>
std::span<std::complex<T>> complex_results(const at::Tensor& contiguous) {
  return {static_cast<std::complex<T>*>(contiguous.data_ptr()), static_cast<std::size_t>(contiguous.numel())};
}

// c and log_z of vandermonde: complex, (rows, pairs).
inline void check_pairs(const char* operation, const at::Tensor& c, const at::Tensor& log_z) {
  TORCH_CHECK_VALUE(
      c.is_complex() && log_z.is_complex() && c.dim() == 2 && c.sym_sizes() == log_z.sym_sizes() && c.sym_size(1) >= 1,
      "[rtf::", operation, "] c and log_z are ", c.scalar_type(), " ", c.sizes(), " and ", log_z.scalar_type(), " ",
      log_z.sizes(), "; two complex tensors (rows, pairs) are needed");
}

// The gradient of a kernel: (rows, length), at least one sample.
inline void check_kernel_gradient(const char* operation, const at::Tensor& dk, const at::Tensor& c) {
  TORCH_CHECK_VALUE(dk.dim() == 2 && dk.size(0) == c.size(0) && dk.size(1) >= 1, "[rtf::", operation, "] dk has shape ",
                    dk.sizes(), "; (", c.size(0), ", length) is needed");
}

// v, poles and points of cauchy: (rows, sums, pairs) and (rows, pairs) complex, (points) real.
inline void check_cauchy(const char* operation, const at::Tensor& v, const at::Tensor& poles,
                         const at::Tensor& points) {
  TORCH_CHECK_VALUE(v.is_complex() && poles.is_complex() && points.is_floating_point() && v.dim() == 3 &&
                        poles.dim() == 2 && points.dim() == 1 && v.sym_size(0) == poles.sym_size(0) &&
                        v.sym_size(2) == poles.sym_size(1) && poles.sym_size(1) >= 1 && points.sym_size(0) >= 1,
                    "[rtf::", operation, "] v, poles and points are ", v.scalar_type(), " ", v.sizes(), ", ",
                    poles.scalar_type(), " ", poles.sizes(), " and ", points.scalar_type(), " ", points.sizes(),
                    "; complex (rows, sums, pairs), complex (rows, pairs) and real (points) are needed");
}

}  // namespace rtf::ops
