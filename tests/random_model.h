// Random model files of every architecture, and what they compute, written out plainly in double.
#pragma once

#include <algorithm>
#include <cmath>
#include <complex>
#include <numbers>
#include <utility>
#include <vector>

#include "core/float32.h"
#include "random_filter.h"
#include "rtf/conversion.h"
#include "rtf/model_file.h"
#include "rtf/stability.h"

namespace rtf::testing {

// As a file of this precision holds them.
inline void round_to(DataType precision, std::vector<double>& values) {
  if (precision == DataType::f32)
    for (double& value : values) value = rounded_to_float32(value);
}
inline double rounded_to(DataType precision, double value) {
  return precision == DataType::f32 ? rounded_to_float32(value) : value;
}

enum class Form { companion, sos, modal };

class RandomModels : public RandomFilters {
 public:
  using RandomFilters::RandomFilters;

  Linear linear(std::size_t outputs, std::size_t inputs) {
    Linear layer{normals(outputs * inputs), normals(outputs)};
    for (double& value : layer.weight) value /= std::sqrt(static_cast<double>(inputs));
    return layer;
  }
  Linear norm(std::size_t channels) {
    Linear layer{normals(channels), normals(channels)};
    for (double& value : layer.weight) value = 1 + 0.2 * value;
    return layer;
  }

  // Distinct poles up to `radius`, pairs beside each other, a kernel of the order of 1.
  Modal modal(std::size_t order, double radius, DataType precision) {
    Modal value;
    const auto number = [&](double x) { return rounded_to(precision, x); };
    const double scale = 1 / std::sqrt(static_cast<double>(order) + 1);
    while (value.poles.size() < order) {
      const std::complex<double> residue(number(scale * normal()), number(scale * normal()));
      if (value.poles.size() + 2 <= order && chance(0.8)) {
        const double modulus = uniform(0.3, 1) * radius, angle = uniform(0.05, 3.1);
        const std::complex<double> pole(number(modulus * std::cos(angle)), number(modulus * std::sin(angle)));
        value.poles.insert(value.poles.end(), {pole, std::conj(pole)});
        value.residues.insert(value.residues.end(), {residue, std::conj(residue)});
      } else {
        value.poles.push_back(number(uniform(-1, 1) * radius));
        value.residues.push_back(residue.real());
      }
    }
    value.h0 = number(normal());
    return value;
  }
  // Near-allpass sections: any number of them in a row keeps a signal's size.
  SecondOrderSections sections(std::size_t count, double radius) {
    SecondOrderSections value;
    for (std::size_t i = 0; i < count; ++i) {
      const double r = uniform(0.3, 1) * radius, angle = uniform(0.05, 3.1);
      const double a1 = -2 * r * std::cos(angle), a2 = r * r, off = 0.1 / static_cast<double>(count);
      value.sections.push_back({a2 + off * normal(), a1 + off * normal(), 1 + off * normal(), 1, a1, a2});
    }
    return value;
  }

  LayerRealization layer(std::size_t channels, std::size_t order, Form form, double radius, DataType precision) {
    LayerRealization result;
    result.precision = precision;
    if (form == Form::companion) {
      TransferFunction tf;
      std::vector<std::size_t> divisors;
      for (std::size_t g = 1; g <= channels; ++g)
        if (channels % g == 0) divisors.push_back(g);
      tf = draw(channels, divisors[integer(0, divisors.size() - 1)], order);
      // What float32 cannot hold is run in double, as realize() decides it.
      if (order > 0 && condition(tf, 256) > 1e2) result.precision = precision = DataType::f64;
      for (auto* values : {&tf.a, &tf.b, &tf.h0}) round_to(precision, *values);
      result.realization = std::move(tf);
    } else if (form == Form::sos) {
      std::vector<SecondOrderSections> all;
      for (std::size_t c = 0; c < channels; ++c)
        all.push_back(sections(std::max<std::size_t>(1, (order + 1) / 2), radius));
      for (auto& channel : all)
        for (auto& section : channel.sections)
          for (double& value : section) value = rounded_to(precision, value);
      result.realization = std::move(all);
    } else {
      std::vector<Modal> all;
      for (std::size_t c = 0; c < channels; ++c) all.push_back(modal(order, radius, precision));
      result.realization = std::move(all);
    }
    return result;
  }

  Architecture architecture() {
    Architecture a;
    a.vocabulary = chance(0.4) ? integer(1, 12) : 0;
    a.features = integer(1, 4);
    a.channels = chance(0.2) ? integer(17, 80) : integer(1, 16);
    a.layers = integer(0, 3);
    a.norm = static_cast<Architecture::Norm>(integer(0, 2));
    a.prenorm = chance(0.6);
    a.residual = chance(0.8);
    a.activation = static_cast<Architecture::Activation>(integer(0, 1));
    a.glu = chance(0.6);
    a.decoder = static_cast<Architecture::Decoder>(integer(0, 3));
    a.outputs = integer(1, 20);
    a.last = integer(1, 5);
    a.length = integer(1, 300);
    return a;
  }

  ModelFile model(const Architecture& a, DataType precision, std::size_t most_order = 40) {
    ModelFile file;
    file.architecture = a;
    file.precision = precision;
    if (a.vocabulary > 0) {
      file.encoder.weight = normals(a.vocabulary * a.channels);
    } else {
      file.encoder = linear(a.channels, a.features);
    }
    for (std::size_t i = 0; i < a.layers; ++i) {
      ModelBlock& block = file.blocks.emplace_back();
      if (a.has_norms()) block.norm = norm(a.channels);
      const std::size_t order = chance(0.1) ? 0 : chance(0.2) ? 1 : integer(1, most_order);
      const double radius = chance(1.0 / 3) ? std::pow(uniform(0.1, 0.9), 1.0 / static_cast<double>(a.length)) : 0.9;
      const auto draw_layer = [&] {
        return layer(a.channels, order, static_cast<Form>(integer(0, 2)), std::min(radius, 0.9999), precision);
      };
      block.layer = draw_layer();
      if (a.bidirectional) block.backward = draw_layer();
      if (a.glu) block.output = linear(2 * a.channels, a.channels);
    }
    if (a.has_last_norm()) file.norm = norm(a.channels);
    if (a.decoder == Architecture::Decoder::pair) file.decoder.push_back(linear(a.channels, 4 * a.channels));
    file.decoder.push_back(linear(a.outputs, a.channels));
    round_to(precision, file);
    return file;
  }

 private:
  static void round_to(DataType precision, std::vector<double>& values) { testing::round_to(precision, values); }
  static void round_to(DataType precision, ModelFile& file) {
    const auto both = [&](Linear& layer) {
      round_to(precision, layer.weight);
      round_to(precision, layer.bias);
    };
    both(file.encoder);
    both(file.norm);
    for (Linear& layer : file.decoder) both(layer);
    for (ModelBlock& block : file.blocks) {
      both(block.norm);
      both(block.output);
    }
  }
};

// --- The model, plainly ---------------------------------------------------------------------------------------------

using Rows = std::vector<std::vector<double>>;  // (length, width)

inline std::vector<double> project(const Linear& layer, const std::vector<double>& x) {
  std::vector<double> y = layer.bias;
  for (std::size_t o = 0; o < y.size(); ++o)
    for (std::size_t i = 0; i < x.size(); ++i) y[o] += layer.weight[o * x.size() + i] * x[i];
  return y;
}

inline std::vector<double> normalize(Architecture::Norm kind, const Linear& norm, std::vector<double> x) {
  double mean = 0, scale = 1;
  if (kind == Architecture::Norm::layer) {
    for (double value : x) mean += value / static_cast<double>(x.size());
    double variance = 0;
    for (double value : x) variance += (value - mean) * (value - mean) / static_cast<double>(x.size());
    scale = 1 / std::sqrt(variance + 1e-5);
  }
  for (std::size_t c = 0; c < x.size(); ++c) x[c] = (x[c] - mean) * scale * norm.weight[c] + norm.bias[c];
  return x;
}

inline double gelu(double x) { return 0.5 * x * std::erfc(-x / std::numbers::sqrt2); }

// Kernels (channels) of `length` samples, each from the numbers of its form in 106 bits.
inline std::vector<std::vector<double>> layer_kernels(const LayerRealization& layer, std::size_t length) {
  std::vector<std::vector<double>> kernels;
  if (const auto* tf = std::get_if<TransferFunction>(&layer.realization)) {
    for (std::size_t c = 0; c < tf->channels; ++c) kernels.push_back(kernel(select_channel(*tf, c), length));
  } else if (const auto* sos = std::get_if<std::vector<SecondOrderSections>>(&layer.realization)) {
    for (const auto& channel : *sos) kernels.push_back(kernel(channel, length));
  } else {
    for (const auto& channel : std::get<std::vector<Modal>>(layer.realization))
      kernels.push_back(kernel(channel, length));
  }
  return kernels;
}

// What comes out of the last block at every position; x holds a token or the features of each.
inline Rows backbone(const ModelFile& file, const Rows& x) {
  const Architecture& a = file.architecture;
  const std::size_t channels = a.channels, length = x.size();
  Rows h;
  for (const auto& sample : x) {
    if (a.vocabulary == 0) {
      h.push_back(project(file.encoder, sample));
    } else {
      const auto row =
          file.encoder.weight.begin() + static_cast<std::ptrdiff_t>(sample[0]) * static_cast<std::ptrdiff_t>(channels);
      h.emplace_back(row, row + static_cast<std::ptrdiff_t>(channels));
    }
  }
  for (const ModelBlock& block : file.blocks) {
    Rows u = h;
    if (a.has_norms() && a.prenorm)
      for (auto& row : u) row = normalize(a.norm, block.norm, row);
    const auto kernels = layer_kernels(block.layer, length);
    const auto ahead = block.backward ? layer_kernels(*block.backward, length) : kernels;
    for (std::size_t t = 0; t < length; ++t) {
      std::vector<double> y(channels, 0.0);
      for (std::size_t s = 0; s <= t; ++s)
        for (std::size_t c = 0; c < channels; ++c) y[c] += kernels[c][t - s] * u[s][c];
      for (std::size_t s = t + 1; s < length && block.backward; ++s)
        for (std::size_t c = 0; c < channels; ++c) y[c] += ahead[c][s - t - 1] * u[s][c];
      if (a.activation == Architecture::Activation::gelu)
        for (double& value : y) value = gelu(value);
      if (a.glu) {
        const auto z = project(block.output, y);
        for (std::size_t c = 0; c < channels; ++c) y[c] = z[c] / (1 + std::exp(-z[channels + c]));
      }
      if (a.residual)
        for (std::size_t c = 0; c < channels; ++c) y[c] += h[t][c];
      h[t] = a.has_norms() && !a.prenorm ? normalize(a.norm, block.norm, y) : y;
    }
  }
  if (a.has_last_norm())
    for (auto& row : h) row = normalize(a.norm, file.norm, row);
  return h;
}

// The mean over the positions up to each.
inline Rows running_mean(Rows h) {
  for (std::size_t t = 1; t < h.size(); ++t)
    for (std::size_t c = 0; c < h[t].size(); ++c)
      h[t][c] = (h[t - 1][c] * static_cast<double>(t) + h[t][c]) / static_cast<double>(t + 1);
  return h;
}

// The answer at every position, of every decoder but pair.
inline Rows answers(const ModelFile& file, const Rows& x) {
  Rows h = backbone(file, x);
  if (file.architecture.decoder == Architecture::Decoder::pool) h = running_mean(std::move(h));
  for (auto& row : h) row = project(file.decoder[0], row);
  return h;
}

inline std::vector<double> pair_answer(const ModelFile& file, const Rows& first, const Rows& second) {
  const auto e1 = running_mean(backbone(file, first)).back(), e2 = running_mean(backbone(file, second)).back();
  std::vector<double> features = e1;
  features.insert(features.end(), e2.begin(), e2.end());
  for (std::size_t c = 0; c < e1.size(); ++c) features.push_back(e1[c] - e2[c]);
  for (std::size_t c = 0; c < e1.size(); ++c) features.push_back(e1[c] * e2[c]);
  auto hidden = project(file.decoder[0], features);
  for (double& value : hidden) value = gelu(value);
  return project(file.decoder[1], hidden);
}

}  // namespace rtf::testing
