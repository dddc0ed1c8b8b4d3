// Coefficients as SciPy's users write them.
#pragma once

#include "torch/dispatch.h"

namespace rtf::ops {

// H = h0 + (b_1 w + ...) / (1 + a_1 w + ...) in float64: a (denominators, order), b (channels, order), h0 (channels).
struct Rational {
  Tensor a, b, h0;
};

// Whether any of them is for each channel. Else they are one filter for everything.
bool has_channels(const Tensor& a, const Tensor& b, const OptionalTensor& h0);

// Without h0 a and b are (a_0, a_1, ...) and (b_0, b_1, ...), of any lengths; with it they start at a_1 and b_1. Either
// may be for all channels, (coefficients), or for each, (channels, coefficients). There are as many as said, or else as
// the one with most has.
Rational rational(const char* operation, const Tensor& a, const Tensor& b, const OptionalTensor& h0,
                  const std::optional<c10::SymInt>& channels = std::nullopt);

// Throws unless a and b are (coefficients) or (rows, coefficients), with as many rows as serve the channels.
void check_monic(const char* operation, const Tensor& a, const Tensor& b, const c10::SymInt& channels);

void check_monic_gradients(const Tensor& da, const Tensor& db, const Tensor& dh0, const Tensor& a, const Tensor& b);

// Throws unless all numbers are finite, where that is known without waiting for a device.
void check_finite(const char* operation, const char* name, const Tensor& values);

// A row of (denominators, ...) for every channel of its group, or the only row for all.
Tensor for_channels(const Tensor& rows, const c10::SymInt& channels);

}  // namespace rtf::ops
