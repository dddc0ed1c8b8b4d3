// Kernels and correction of a MIMO system: the (output, input) pairs are channels that share one denominator.
#include <utility>

#include "core/arguments.h"
#include "rtf/correction.h"
#include "rtf/kernel.h"
#include "rtf/mimo.h"

namespace rtf {
namespace {

template <class Value>
Value pairs(const MimoCoefficients& mimo, const char* operation) {
  validate(mimo, operation);
  Value value;
  value.channels = mimo.outputs * mimo.inputs;
  value.groups = 1;
  value.order = mimo.order;
  value.a = mimo.a;
  value.b = mimo.b;
  value.h0 = mimo.h0;
  return value;
}

TransferFunction pairs(const MimoTransferFunction& tf, const char* operation) {
  return pairs<TransferFunction>(tf, operation);
}

TrainedTransferFunction pairs(const TrainedMimoTransferFunction& trained, const char* operation) {
  auto value = pairs<TrainedTransferFunction>(trained, operation);
  value.length = trained.length;
  return value;
}

template <class Value>
Value from_pairs(Coefficients pairs, const MimoCoefficients& sizes) {
  Value value;
  value.inputs = sizes.inputs;
  value.outputs = sizes.outputs;
  value.order = sizes.order;
  value.a = std::move(pairs.a);
  value.b = std::move(pairs.b);
  value.h0 = std::move(pairs.h0);
  return value;
}

}  // namespace

std::vector<double> wrapped_kernel(const TrainedMimoTransferFunction& trained) {
  return wrapped_kernel(pairs(trained, "wrapped_kernel"));
}

CoefficientsGradient wrapped_kernel_vjp(const TrainedMimoTransferFunction& trained,
                                        std::span<const double> kernel_gradient) {
  return wrapped_kernel_vjp(pairs(trained, "wrapped_kernel_vjp"), kernel_gradient);
}

std::vector<double> exact_kernel(const MimoTransferFunction& tf, std::size_t length, KernelMethod method) {
  return exact_kernel(pairs(tf, "exact_kernel"), length, method);
}

CoefficientsGradient exact_kernel_vjp(const MimoTransferFunction& tf, std::size_t length,
                                      std::span<const double> kernel_gradient) {
  return exact_kernel_vjp(pairs(tf, "exact_kernel_vjp"), length, kernel_gradient);
}

MimoTransferFunction correct(const TrainedMimoTransferFunction& trained) {
  return from_pairs<MimoTransferFunction>(correct(pairs(trained, "correct")), trained);
}

TrainedMimoTransferFunction wrap(const MimoTransferFunction& tf, std::size_t length) {
  auto trained = from_pairs<TrainedMimoTransferFunction>(wrap(pairs(tf, "wrap"), length), tf);
  trained.length = length;
  return trained;
}

CoefficientsGradient correct_vjp(const TrainedMimoTransferFunction& trained, const CoefficientsGradient& gradient) {
  return correct_vjp(pairs(trained, "correct_vjp"), gradient);
}

CoefficientsGradient wrap_vjp(const MimoTransferFunction& tf, std::size_t length,
                              const CoefficientsGradient& gradient) {
  return wrap_vjp(pairs(tf, "wrap_vjp"), length, gradient);
}

}  // namespace rtf
