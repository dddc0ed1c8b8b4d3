// Convolution with a given kernel: the parallel, state-free form of the layer.
#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "rtf/executor.h"
#include "rtf/signal.h"

namespace rtf {

enum class Direction {
  causal,         // y_t = sum_{j<=t} k[t-j] u_j
  bidirectional,  // ... + sum_{j>t} k_b[j-t-1] u_j; kernels are (2, channels, kernel_length): forward, then backward
};

// Right-angle FFT convolution (modulo z^m = i, m >= length): half the transform of zero padding.
// T is the type of the samples and of the arithmetic. Immutable, so threads may share it.
template <class T>
class ConvolutionPlan {
 public:
  // `batch` counts sequences; `length` is the longest of them, and of the kernel's samples those past it are not used.
  ConvolutionPlan(std::size_t batch, std::size_t length, std::size_t channels, std::size_t kernel_length,
                  Direction direction = Direction::causal);

  std::size_t workspace_bytes(const Executor& executor) const;      // for convolve
  std::size_t vjp_workspace_bytes(const Executor& executor) const;  // for convolve_vjp

  std::size_t batch, length, channels, kernel_length;
  Direction direction;

  struct Impl;
  std::shared_ptr<const Impl> impl;
};

// y may be u. Offsets cut a packed signal (batch 1) into plan.batch sequences, each convolved on its own; lengths end
// the input of each sequence, not its output.
template <class T>
void convolve(const ConvolutionPlan<T>& plan, Signal<const std::type_identity_t<T>> u,
              std::span<const std::type_identity_t<T>> kernel, Signal<std::type_identity_t<T>> y,
              const Sequences& sequences, std::span<std::byte> workspace, Executor& executor);

// A kernel that many signals will meet, transformed once for a plan.
template <class T>
class KernelSpectrum {
 public:
  KernelSpectrum(const ConvolutionPlan<T>& plan, std::span<const std::type_identity_t<T>> kernel);

  struct Impl;
  std::shared_ptr<const Impl> impl;
};

template <class T>
void convolve(const ConvolutionPlan<T>& plan, Signal<const std::type_identity_t<T>> u, const KernelSpectrum<T>& kernel,
              Signal<std::type_identity_t<T>> y, const Sequences& sequences, std::span<std::byte> workspace,
              Executor& executor);

// Gradients to u and to the kernel, overwritten; nothing but the inputs is needed from the forward pass.
template <class T>
void convolve_vjp(const ConvolutionPlan<T>& plan, Signal<const std::type_identity_t<T>> u,
                  std::span<const std::type_identity_t<T>> kernel, Signal<const std::type_identity_t<T>> y_gradient,
                  Signal<std::type_identity_t<T>> u_gradient, std::span<std::type_identity_t<T>> kernel_gradient,
                  const Sequences& sequences, std::span<std::byte> workspace, Executor& executor);

// The same with a plan and a workspace of their own on the default executor.
template <class T>
void convolve(Signal<const std::type_identity_t<T>> u, std::span<const T> kernel, Signal<std::type_identity_t<T>> y,
              Direction direction = Direction::causal, Offsets offsets = {});

}  // namespace rtf
