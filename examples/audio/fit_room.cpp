// fit_room RESPONSE.wav MODEL.safetensors: a bank of filters that sounds like the measured room, as a model file.
//
// A room's response is like noise that decays: there is no small filter for it. The bank has `poles` poles, evenly
// around a circle whose radius is the room's decay; 128 of them make a channel. Its kernel is then radius^t c[t mod
// poles], and the c nearest to the response in least squares is found sample by sample.
#include <rtf/realize.h>
#include <rtf/stream.h>
#include <rtf/wav.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <exception>
#include <numbers>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

constexpr std::size_t channels = 128, order = 128, poles = channels * order, lag = order / 2;

std::vector<double> read_response(const std::string& path, std::uint32_t& rate) {
  rtf::WavReader reader(path);
  if (reader.format().channels != 1) throw std::runtime_error(path + " has several channels, expected one");
  rate = reader.format().rate;
  std::vector<double> samples(reader.length());
  for (std::size_t at = 0; at < samples.size();) {
    const std::size_t count = reader.read(std::span(samples).subspan(at));
    if (count == 0) throw std::runtime_error(path + " ends early");
    at += count;
  }
  return samples;
}

// By what the amplitude falls in a sample: from the time in which the energy that is still to come falls from -5 to
// -25 dB of the whole.
double decay(const std::vector<double>& response, const std::string& path) {
  std::vector<double> left(response.size() + 1, 0.0);
  for (std::size_t t = response.size(); t-- > 0;) left[t] = left[t + 1] + response[t] * response[t];
  if (!(left[0] > 0)) throw std::runtime_error(path + " is silent");
  std::size_t from = 0, to = 0;
  while (left[from] > left[0] * std::pow(10, -0.5)) ++from;
  while (left[to] > left[0] * std::pow(10, -2.5)) ++to;
  return std::pow(10, -1.0 / static_cast<double>(std::max<std::size_t>(to - from, 1)));
}

// c[s]: the least-squares fit of radius^t c to the samples t = s, s + poles, s + 2 poles, ..
std::vector<double> period(const std::vector<double>& response, double radius) {
  std::vector<double> c(poles, 0.0);
  for (std::size_t s = 0; s < poles; ++s) {
    double product = 0, square = 0;
    for (std::size_t t = s; t < response.size(); t += poles) {
      const double weight = std::pow(radius, static_cast<double>(t));
      product += weight * response[t];
      square += weight * weight;
    }
    if (square > 0) c[s] = product / square;
  }
  return c;
}

// C(w) / (1 - (radius w)^poles) in partial fractions. With x = (radius w)^lag the denominator is 1 - x^256, whose
// factors are 1 - 2 cos(2 pi k / 256) x + x^2 and, for k = 0, 1 - x^2: a channel each. Each takes from the kernel's
// samples at distance `lag` the part that turns by k / 256 a step.
rtf::TransferFunction bank(const std::vector<double>& c, double radius) {
  constexpr std::size_t steps = 2 * channels;
  auto tf = rtf::make_coefficients(channels, channels, order);
  std::vector<double> cosine(steps);
  for (std::size_t i = 0; i < steps; ++i) cosine[i] = std::cos(2 * std::numbers::pi * static_cast<double>(i) / steps);
  const double fall = std::pow(radius, static_cast<double>(lag));
  for (std::size_t k = 0; k < channels; ++k) {
    double* a = tf.a.data() + k * order;
    a[lag - 1] = k == 0 ? 0 : -2 * cosine[k] * fall;
    a[order - 1] = (k == 0 ? -1 : 1) * fall * fall;
    for (std::size_t s = 0; s < lag; ++s) {
      double first = 0, second = 0;  // the channel's kernel at s and at s + lag
      for (std::size_t q = 0; q < steps; ++q) {
        const double value = c[q * lag + s] / channels;
        // k = 0 has both real roots, x = 1 and x = -1, at half the weight of a pair.
        first += value * (k == 0 ? (q % 2 == 0) : cosine[k * q % steps]);
        second += value * (k == 0 ? (q % 2 == 1) : cosine[k * (q + steps - 1) % steps]);
      }
      first *= std::pow(radius, static_cast<double>(s));
      second *= std::pow(radius, static_cast<double>(s + lag));
      // The numerator is the kernel times the denominator, up to order - 1; h0 is a term of its own.
      const double numerator[] = {first, second + a[lag - 1] * first};
      if (s == 0) {
        tf.h0[k] = numerator[0];
        tf.b[k * order + lag - 1] = numerator[1] - tf.h0[k] * a[lag - 1];
        tf.b[k * order + order - 1] = -tf.h0[k] * a[order - 1];
      } else {
        tf.b[k * order + s - 1] = numerator[0];
        tf.b[k * order + s + lag - 1] = numerator[1];
      }
    }
  }
  return tf;
}

// The model's answer to an impulse.
std::vector<float> impulse_response(const std::string& path, std::size_t length) {
  const auto model = rtf::stream::Model<float>::load(path);
  rtf::stream::Streams<float> streams(model, 1);
  const std::size_t one = streams.join();
  std::vector<float> in(length, 0.0f), out(length);
  in[0] = 1;
  streams.process({&one, 1}, rtf::channels_last<const float>(in.data(), 1, length, 1),
                  rtf::channels_last(out.data(), 1, length, 1));
  return out;
}

void run(const std::string& response_path, const std::string& model_path) {
  std::uint32_t rate = 0;
  std::vector<double> response = read_response(response_path, rate);
  const double measured = decay(response, response_path);
  // By no more than 60 dB around the circle: of a room that is silent sooner the channels would be loud and cancel.
  const double radius = std::max(measured, std::pow(10, -3.0 / poles));
  // To an energy of 1/4: a loud voice has 6 dB to spare.
  double energy = 0;
  for (const double value : response) energy += value * value;
  for (double& value : response) value *= 0.5 / std::sqrt(energy);

  rtf::RealizeOptions options;
  options.bound = 1e-4;  // 80 dB below the loudest sample, far below what the fit is off by
  const rtf::Realized layer = rtf::realize(bank(period(response, radius), radius), response.size(), options);
  rtf::write_model(model_path, rtf::filter_model(layer.layer, 1, 1));

  const std::vector<float> kernel = impulse_response(model_path, response.size());
  double error = 0, past = 0;
  for (std::size_t t = 0; t < response.size(); ++t) {
    error += (kernel[t] - response[t]) * (kernel[t] - response[t]);
    if (t >= poles) past += response[t] * response[t];
  }
  std::printf("%s: %.2f s at %u Hz, falls by 60 dB in %.2f s\n", response_path.c_str(),
              static_cast<double>(response.size()) / rate, rate, -3 / std::log10(measured) / rate);
  std::printf("%s: %zu filters of order %zu side by side\n", model_path.c_str(), channels, order);
  for (const rtf::RealizationTrial& trial : layer.trials)
    std::printf("  as %-9s in %s: rounding error %.1e\n", trial.name.c_str(),
                trial.precision == rtf::DataType::f32 ? "float32" : "float64", trial.error);
  std::printf("error of the fit: %.2f %% of the response in l2; without poles, cut off after %.2f s: %.2f %%\n",
              200 * std::sqrt(error), static_cast<double>(poles) / rate, 200 * std::sqrt(past));
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: fit_room RESPONSE.wav MODEL.safetensors\n");
    return 2;
  }
  try {
    run(argv[1], argv[2]);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "fit_room: %s\n", error.what());
    return 2;
  }
}
