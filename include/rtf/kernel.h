// Kernels (impulse responses), shape (channels, length) row by row, and their gradients.
#pragma once

#include <complex>
#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "rtf/executor.h"
#include "rtf/transfer_function.h"

namespace rtf {

// Gradients with the shapes of the coefficients; shared denominators are summed over their group.
struct CoefficientsGradient {
  std::vector<double> a, b, h0;
};

// --- Algorithm 1: the wrapped kernel of a trained numerator -------------------------------------------------------

// Holds the transforms for one set of sizes; immutable, so threads may share it.
class WrappedKernelPlan {
 public:
  WrappedKernelPlan(std::size_t channels, std::size_t groups, std::size_t order, std::size_t length);

  std::size_t workspace_bytes(const Executor& executor) const;

  std::size_t channels, groups, order, length;

  struct Impl;
  std::shared_ptr<const Impl> impl;
};

// k = iFFT(B^/A^ + h0) at plan.length points, in double inside. Throws if A vanishes at a point of the transform.
template <class T>
void wrapped_kernel(const WrappedKernelPlan& plan, const CoefficientsView& trained, std::span<T> kernel,
                    std::span<std::byte> workspace, Executor& executor);

// From dk = dLoss/dk (channels, plan.length) to da (groups, order), db (channels, order), dh0 (channels); overwrites
// them.
template <class T>
void wrapped_kernel_vjp(const WrappedKernelPlan& plan, const CoefficientsView& trained,
                        std::span<const T> kernel_gradient, std::span<double> a_gradient, std::span<double> b_gradient,
                        std::span<double> h0_gradient, std::span<std::byte> workspace, Executor& executor);

// The same with a workspace of their own on the default executor.
std::vector<double> wrapped_kernel(const TrainedTransferFunction& trained);
CoefficientsGradient wrapped_kernel_vjp(const TrainedTransferFunction& trained,
                                        std::span<const double> kernel_gradient);

// --- The exact response of a plain numerator ----------------------------------------------------------------------

enum class KernelMethod {
  automatic,   // the cheapest of recurrence and newton, the latter only where it holds
  recurrence,  // the companion state, an impulse fed in: O(order * length)
  division,    // long division of B by A, term by term: O(order * length)
  newton,      // B * (1/A mod w^length) with FFT products: O(length log length)
};

std::vector<double> exact_kernel(const TransferFunction& tf, std::size_t length,
                                 KernelMethod method = KernelMethod::automatic);
CoefficientsGradient exact_kernel_vjp(const TransferFunction& tf, std::size_t length,
                                      std::span<const double> kernel_gradient);

// 2 * length-point spectrum of the exact kernel cut to `length` samples, bins 0..length: (channels, length + 1).
// Computed from the remainder of z^length mod A without the kernel itself.
std::vector<std::complex<double>> exact_spectrum(const TransferFunction& tf, std::size_t length);

// A trained file's kernel at any length: Algorithm 1's up to the trained length, the corrected system's past it.
std::vector<double> kernel(const TrainedTransferFunction& trained, std::size_t length);

}  // namespace rtf
