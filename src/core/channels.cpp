// One channel out of several, and several out of single ones.
#include <algorithm>

#include "core/arguments.h"
#include "rtf/conversion.h"

namespace rtf {

TransferFunction select_channel(const TransferFunction& tf, std::size_t channel) {
  // Sizes, and below the numbers of this channel: to look at all of them for each one would be quadratic.
  constexpr const char* operation = "select_channel";
  if (channel >= tf.channels) fail(ErrorCode::argument, operation, "channel {} of {}", channel, tf.channels);
  if (tf.groups < 1 || tf.channels % tf.groups != 0)
    fail(ErrorCode::argument, operation, "{} groups do not divide {} channels", tf.groups, tf.channels);
  check_count(operation, "a", tf.a.size(), tf.groups * tf.order);
  check_count(operation, "b", tf.b.size(), tf.channels * tf.order);
  check_count(operation, "h0", tf.h0.size(), tf.channels);
  const CoefficientsView view(tf);
  auto one = make_coefficients(1, 1, tf.order);
  one.a.assign(view.denominator(channel), view.denominator(channel) + tf.order);
  one.b.assign(view.numerator(channel), view.numerator(channel) + tf.order);
  one.h0 = {tf.h0[channel]};
  rtf::validate(one, operation);
  return one;
}

TransferFunction join_channels(std::span<const TransferFunction> channels) {
  if (channels.empty()) fail(ErrorCode::argument, "join_channels", "no channels; at least one is needed");
  const std::size_t count = channels.size();
  std::size_t order = 0;
  for (const TransferFunction& one : channels) {
    validate(System(one), "join_channels");
    order = std::max(order, one.order);
  }
  const auto shares = [&](std::size_t groups) {
    const std::size_t width = count / groups;
    for (std::size_t c = 0; c < count; ++c)
      if (channels[c].a != channels[c / width * width].a) return false;
    return true;
  };
  std::size_t groups = 1;
  while (count % groups != 0 || !shares(groups)) ++groups;
  auto tf = make_coefficients(count, groups, order);
  for (std::size_t c = 0; c < count; ++c) {
    const TransferFunction& one = channels[c];
    std::copy(one.a.begin(), one.a.end(), tf.a.begin() + static_cast<std::ptrdiff_t>(tf.group_of(c) * order));
    std::copy(one.b.begin(), one.b.end(), tf.b.begin() + static_cast<std::ptrdiff_t>(c * order));
    tf.h0[c] = one.h0[0];
  }
  return tf;
}

std::vector<System> split_channels(const TransferFunction& tf) {
  std::vector<System> channels;
  for (std::size_t c = 0; c < tf.channels; ++c) channels.push_back(select_channel(tf, c));
  return channels;
}

bool is_ratio(const System& channel) {
  return std::holds_alternative<TransferFunction>(channel) || std::holds_alternative<PolynomialRatio>(channel);
}

bool has_factors(const System& channel) {
  return std::holds_alternative<ZeroPoleGain>(channel) || std::holds_alternative<SecondOrderSections>(channel);
}

}  // namespace rtf
