// The values everything else works on: H(z) = h0 + (b1 w + ... + bn w^n) / (1 + a1 w + ... + an w^n), w = 1/z.
#pragma once

#include <cstddef>
#include <vector>

namespace rtf {

// `channels` systems of one order; channel c uses denominator c / (channels / groups).
// Order 0 is a plain gain h0.
struct Coefficients {
  std::size_t channels = 0, groups = 0, order = 0;
  std::vector<double> a;   // (groups, order)
  std::vector<double> b;   // (channels, order)
  std::vector<double> h0;  // (channels)

  std::size_t group_of(std::size_t channel) const { return channel / (channels / groups); }
};

// b is the numerator of the recurrence.
struct TransferFunction : Coefficients {};

// b is the numerator that Algorithm 1 trains at truncation length `length`; correct() turns it into a TransferFunction.
struct TrainedTransferFunction : Coefficients {
  std::size_t length = 0;
};

// Throws unless the shapes agree, groups divides channels and every coefficient is finite.
void validate(const Coefficients& coefficients, const char* operation);

// Non-owning coefficients, as an optimiser or a file holds them.
struct CoefficientsView {
  std::size_t channels = 0, groups = 0, order = 0;
  const double *a = nullptr, *b = nullptr, *h0 = nullptr;

  CoefficientsView() = default;
  CoefficientsView(const Coefficients& c)
      : channels(c.channels), groups(c.groups), order(c.order), a(c.a.data()), b(c.b.data()), h0(c.h0.data()) {}

  std::size_t group_of(std::size_t channel) const { return channel / (channels / groups); }
  const double* denominator(std::size_t channel) const { return a + group_of(channel) * order; }
  const double* numerator(std::size_t channel) const { return b + channel * order; }
};

// Coefficients of these sizes, all zero but for h0 = 1.
template <class Value = TransferFunction>
Value make_coefficients(std::size_t channels, std::size_t groups, std::size_t order) {
  Value value;
  value.channels = channels;
  value.groups = groups;
  value.order = order;
  value.a.assign(groups * order, 0.0);
  value.b.assign(channels * order, 0.0);
  value.h0.assign(channels, 1.0);
  return value;
}

}  // namespace rtf
