// SciPy's lfilter: vectors with any a_0, and states of the transposed direct form.
#pragma once

#include <cstddef>
#include <span>
#include <type_traits>

#include "rtf/signal.h"
#include "rtf/transfer_function.h"

namespace rtf {

// b (channels, taps of b) over a (groups, taps of a), b_0 and a_0 first, a_0 not zero. The order is that of the longer.
TransferFunction from_ratios(std::span<const double> b, std::span<const double> a, std::size_t channels,
                             std::size_t groups);

// Y = (N U + Z) / A with N = h0 A + B and Z(w) = zi_0 + zi_1 w + ...: zi and zf are what scipy.signal.lfilter calls so,
// (batch, channels, order); empty spans mean zero, or not wanted. With one of them the arithmetic is double whatever T,
// so that a signal may be cut anywhere. y must not overlap u.
template <class T>
void lfilter(const TransferFunction& tf, Signal<const T> u, Signal<std::type_identity_t<T>> y,
             std::span<const double> zi = {}, std::span<double> zf = {});

}  // namespace rtf
