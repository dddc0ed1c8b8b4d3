// Initialisations of a trainable transfer function.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "rtf/transfer_function.h"

namespace rtf {

enum class Init {
  zero,            // a = b = 0: the impulse
  xavier,          // a, b ~ U(+-1/sqrt(order)); may be unstable
  montel,          // a, b ~ U(+-1/order), so sum |a| <= 1
  uniform_montel,  // a, b ~ U(0, 1), then a divided by its l1 norm
};

enum class InitialGain {
  paper,    // h0 = 1
  release,  // h0 ~ N(0, 1)
};

// The same seed gives the same numbers on every machine (Philox, keyed by seed and index).
TrainedTransferFunction initialize(Init init, InitialGain gain, std::size_t channels, std::size_t groups,
                                   std::size_t order, std::size_t length, std::uint64_t seed);

// The filter with these taps (channels, taps): a = 0, order taps - 1.
TransferFunction from_fir(std::span<const double> taps, std::size_t channels);

}  // namespace rtf
