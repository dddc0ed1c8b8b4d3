#include "stream/layer_form.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "core/float32.h"
#include "rtf/conversion.h"
#include "rtf/error.h"
#include "rtf/stability.h"

namespace rtf {
namespace {

// convert(channel) for all channels; nothing when one of them has no such form.
template <class Form, class Convert>
std::optional<std::vector<Form>> convert_channels(const TransferFunction& tf, Executor& executor, Convert&& convert) {
  std::vector<std::optional<Form>> found(tf.channels);
  parallel_for(executor, tf.channels, [&](std::size_t c, std::size_t) {
    try {
      found[c] = convert(select_channel(tf, c));
    } catch (const Error&) {  // poles too close for the form, or beyond a double
    }
  });
  std::vector<Form> all;
  for (auto& one : found) {
    if (!one) return std::nullopt;
    all.push_back(std::move(*one));
  }
  return all;
}

}  // namespace

bool round_to_float32(Realization& realization) {
  bool finite = true;
  const auto narrow = [&](double& value) {
    value = rounded_to_float32(value);
    finite = finite && std::isfinite(value);
  };
  if (auto* tf = std::get_if<TransferFunction>(&realization)) {
    for (auto* values : {&tf->a, &tf->b, &tf->h0}) std::for_each(values->begin(), values->end(), narrow);
  } else if (auto* sos = std::get_if<std::vector<SecondOrderSections>>(&realization)) {
    for (auto& channel : *sos)
      for (auto& section : channel.sections) std::for_each(section.begin(), section.end(), narrow);
  } else {
    for (Modal& channel : std::get<std::vector<Modal>>(realization)) {
      narrow(channel.h0);
      for (auto* values : {&channel.poles, &channel.residues})
        for (auto& value : *values) {
          double re = value.real(), im = value.imag();
          narrow(re);
          narrow(im);
          value = {re, im};
        }
    }
  }
  return finite;
}

bool poles_inside(const Realization& realization) {
  if (const auto* tf = std::get_if<TransferFunction>(&realization)) {
    for (std::size_t g = 0; g < tf->groups; ++g)
      if (!is_stable(std::span(tf->a).subspan(g * tf->order, tf->order))) return false;
    return true;
  }
  if (const auto* sos = std::get_if<std::vector<SecondOrderSections>>(&realization)) {
    for (const auto& channel : *sos)
      for (const auto& section : channel.sections)
        if (!is_stable(std::span(section).subspan(4, 2))) return false;
    return true;
  }
  for (const Modal& channel : std::get<std::vector<Modal>>(realization))
    for (const auto& pole : channel.poles)
      if (std::abs(pole) >= 1) return false;
  return true;
}

std::vector<SecondOrderSections> alike(std::vector<SecondOrderSections> channels) {
  std::size_t most = 1;
  for (const auto& channel : channels) most = std::max(most, channel.sections.size());
  for (auto& channel : channels) {
    for (auto& section : channel.sections)
      for (std::size_t i : {0, 1, 2, 5, 4, 3}) section[i] /= section[3];
    channel.sections.resize(most, {1, 0, 0, 1, 0, 0});
  }
  return channels;
}

std::optional<Realization> in_form(const TransferFunction& tf, const std::string& form, Executor& executor) {
  if (form == "companion") return tf;
  ConversionOptions options;
  options.report_length = 64;  // what counts is measured with the layer's own arithmetic
  if (form == "sos") {
    auto all = convert_channels<SecondOrderSections>(
        tf, executor, [&](const TransferFunction& one) { return to_sections(one, options).value; });
    if (!all) return std::nullopt;
    return alike(*std::move(all));
  }
  auto all =
      convert_channels<Modal>(tf, executor, [&](const TransferFunction& one) { return to_modal(one, options).value; });
  if (!all) return std::nullopt;
  std::size_t most = 0;
  for (const auto& channel : *all) most = std::max(most, channel.poles.size());
  for (auto& channel : *all) {
    channel.poles.resize(most);
    channel.residues.resize(most);
  }
  return *std::move(all);
}

}  // namespace rtf
