// Trained numerator <-> plain numerator, without matrix powers.
#pragma once

#include <cstddef>

#include "rtf/kernel.h"
#include "rtf/transfer_function.h"

namespace rtf {

// The system whose recurrence gives exactly Algorithm 1's kernel over the trained length.
// Throws ErrorCode::unstable when rounding would leave it fewer than three digits.
TransferFunction correct(const TrainedTransferFunction& trained);

// The numerator that Algorithm 1 at `length` turns into this system's first `length` samples.
TrainedTransferFunction wrap(const TransferFunction& tf, std::size_t length);

// Gradients of a loss through correct() and wrap(): from the gradient of the result to that of the argument.
CoefficientsGradient correct_vjp(const TrainedTransferFunction& trained, const CoefficientsGradient& gradient);
CoefficientsGradient wrap_vjp(const TransferFunction& tf, std::size_t length, const CoefficientsGradient& gradient);

}  // namespace rtf
