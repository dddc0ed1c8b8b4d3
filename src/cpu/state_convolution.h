// Filtering with state by FFT, in double. A state x0 = (v_{-1}, ..., v_{-n}) is what the input prefix A(w) (v_{-n},
// ..., v_{-1}) leaves behind, so the signal with that prefix in front is filtered from rest: y is the tail of its
// convolution with the kernel, and the final state the last values of its convolution with 1/A.
#pragma once

#include <cstddef>
#include <optional>
#include <span>

#include "rtf/convolution.h"
#include "rtf/executor.h"
#include "rtf/signal.h"
#include "rtf/transfer_function.h"

namespace rtf::cpu {

class StateConvolution {
 public:
  // For `batch` sequences of up to `length` samples. Without `prefix` the initial state is zero.
  StateConvolution(const TransferFunction& tf, std::size_t batch, std::size_t length, bool prefix, bool final_state);

  std::size_t workspace_bytes(const Executor& executor) const;

  // Samples [first, first + length) of every sequence, or what there is of them. States are (batch, channels, order)
  // and may be one array; a sequence that has no sample there keeps its state.
  template <class T>
  void run(Signal<const T> u, Signal<T> y, Offsets offsets, std::size_t first, const double* initial_state,
           double* final_state, std::span<std::byte> workspace, Executor& executor) const;

 private:
  std::size_t batch_, length_, channels_, order_, prefix_;  // prefix_: samples in front, the order or 0
  bool final_state_;
  ConvolutionPlan<double> plan_, prefix_plan_;
  std::optional<KernelSpectrum<double>> kernel_, inverse_;  // the response and 1/A, length + prefix samples of each
  std::optional<KernelSpectrum<double>> denominator_;       // 1, a_1, ..., a_{n-1}
};

}  // namespace rtf::cpu
