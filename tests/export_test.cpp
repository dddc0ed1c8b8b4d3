#include "rtf/export.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "expect_refusal.h"
#include "random_model.h"
#include "rtf/stream.h"

namespace rtf {
namespace {

using testing::expect_refusal;
using testing::RandomModels;

void put(TrainedModel& model, const std::string& name, Linear linear) {
  model.weights[name + ".weight"] = std::move(linear.weight);
  model.weights[name + ".bias"] = std::move(linear.bias);
}

// One block, batch norm ahead of it and after it, identity for an activation.
TrainedModel small_model(RandomModels& random, std::size_t channels, std::size_t order, std::size_t length) {
  TrainedModel model;
  Architecture& a = model.architecture;
  a.channels = channels;
  a.features = 2;
  a.layers = 1;
  a.outputs = 3;
  a.length = length;
  a.activation = Architecture::Activation::identity;
  a.decoder = Architecture::Decoder::position;
  put(model, "encoder", random.linear(channels, a.features));
  put(model, "decoder", random.linear(a.outputs, channels));
  put(model, "blocks.0.output", random.linear(2 * channels, channels));
  for (const char* norm : {"norm", "blocks.0.norm"}) {
    put(model, norm, random.norm(channels));
    std::vector<double> mean = random.normals(channels), variance = random.normals(channels);
    for (double& value : variance) value = 0.5 + value * value;
    model.weights[std::string(norm) + ".running_mean"] = std::move(mean);
    model.weights[std::string(norm) + ".running_var"] = std::move(variance);
  }
  TransferFunction tf;
  tf.channels = channels;
  tf.groups = 1;
  tf.order = order;
  tf.a = random.normals(order);
  double sum = 0;
  for (const double value : tf.a) sum += std::abs(value);
  for (double& value : tf.a) value *= 0.9 / sum;  // poles inside the circle
  tf.b = random.normals(channels * order);
  tf.h0 = random.normals(channels);
  model.layers.push_back(std::move(tf));
  return model;
}

// The whole model written out plainly, with the norms as training left them.
std::vector<double> answers_of(const TrainedModel& model, const std::vector<double>& x, std::size_t length) {
  const Architecture& a = model.architecture;
  const std::size_t channels = a.channels;
  const auto& tf = std::get<TransferFunction>(model.layers[0]);
  const auto at = [&](const std::string& name) -> const std::vector<double>& { return model.weights.at(name); };
  const auto linear = [&](const std::string& name, const double* from, std::size_t inputs) {
    std::vector<double> to = at(name + ".bias");
    for (std::size_t o = 0; o < to.size(); ++o)
      for (std::size_t i = 0; i < inputs; ++i) to[o] += at(name + ".weight")[o * inputs + i] * from[i];
    return to;
  };
  const auto norm = [&](const std::string& name, std::size_t c, double value) {
    const double deviation = std::sqrt(at(name + ".running_var")[c] + 1e-5);
    return (value - at(name + ".running_mean")[c]) / deviation * at(name + ".weight")[c] + at(name + ".bias")[c];
  };
  std::vector<std::vector<double>> v(channels), outputs;  // v = u / A of each channel
  std::vector<double> result;
  for (std::size_t t = 0; t < length; ++t) {
    std::vector<double> h = linear("encoder", x.data() + t * a.features, a.features), y(channels);
    for (std::size_t c = 0; c < channels; ++c) {
      double now = norm("blocks.0.norm", c, h[c]);
      y[c] = tf.h0[c] * now;
      for (std::size_t k = 1; k <= std::min(t, tf.order); ++k) {
        now -= tf.a[k - 1] * v[c][t - k];
        y[c] += tf.b[c * tf.order + k - 1] * v[c][t - k];
      }
      v[c].push_back(now);
    }
    const std::vector<double> z = linear("blocks.0.output", y.data(), channels);
    for (std::size_t c = 0; c < channels; ++c) h[c] = norm("norm", c, h[c] + z[c] / (1 + std::exp(-z[channels + c])));
    const std::vector<double> answer = linear("decoder", h.data(), channels);
    result.insert(result.end(), answer.begin(), answer.end());
  }
  return result;
}

TEST(ExportModel, AnswersAsTheModelWrittenOut) {
  RandomModels random(1);
  for (int round = 0; round < 20; ++round) {
    const std::size_t length = random.length(60), channels = random.integer(1, 20);
    const TrainedModel trained = small_model(random, channels, random.integer(1, 8), length);
    RealizeOptions options;
    options.precision = DataType::f64;
    const Exported exported = export_model(trained, options);
    ASSERT_EQ(exported.layers.size(), 1u);
    const stream::Model<double> model(exported.file);
    stream::Streams<double> streams(model, 1);
    const std::size_t one = streams.join();
    const std::vector<double> x = random.normals(2 * length), wanted = answers_of(trained, x, length);
    std::vector<double> y(3 * length);
    streams.process({&one, 1}, channels_last(x.data(), 1, length, 2), channels_last(y.data(), 1, length, 3));
    for (std::size_t i = 0; i < y.size(); ++i)
      ASSERT_NEAR(y[i], wanted[i], 1e-9 * (1 + std::abs(wanted[i]))) << "round " << round << ", number " << i;
  }
}

TEST(ExportModel, NamesWhatIsWrong) {
  RandomModels random(2);
  const TrainedModel good = small_model(random, 3, 2, 16);
  const auto refused = [&](const std::string& text, auto&& change) {
    TrainedModel bad = good;
    change(bad);
    expect_refusal("[rtf::export_model] " + text, [&] { export_model(bad, {}); });
  };
  refused("the model has no decoder.bias", [](TrainedModel& m) { m.weights.erase("decoder.bias"); });
  refused("the model has no blocks.0.norm.running_var",
          [](TrainedModel& m) { m.weights.erase("blocks.0.norm.running_var"); });
  refused("norm.running_mean has 2 values; 3 are needed",
          [](TrainedModel& m) { m.weights.at("norm.running_mean").pop_back(); });
  refused("the list of layers has 1 values; 2 are needed", [](TrainedModel& m) { m.architecture.layers = 2; });
  refused("decoder.weight has 8 values", [](TrainedModel& m) { m.weights.at("decoder.weight").pop_back(); });
  refused("encoder.bias holds a number that is not finite",
          [](TrainedModel& m) { m.weights.at("encoder.bias")[1] = std::numeric_limits<double>::quiet_NaN(); });
  refused("layer 0: h0[2] is nan", [](TrainedModel& m) {
    std::get<TransferFunction>(m.layers[0]).h0[2] = std::numeric_limits<double>::quiet_NaN();
  });
  refused("layer 0, backward: denominator 0 has a pole", [](TrainedModel& m) {
    m.architecture.bidirectional = true;
    m.layers.push_back(m.layers[0]);
    std::get<TransferFunction>(m.layers[1]).a = {-2.5, 1.0};
  });
  refused("layer 0: denominator 0 has a pole", [](TrainedModel& m) {
    std::get<TransferFunction>(m.layers[0]).a = {-2.5, 1.0};
  });
}

}  // namespace
}  // namespace rtf
