#include <gtest/gtest.h>

#include <cmath>

#include "expect_refusal.h"
#include "random_model.h"
#include "rtf/stream.h"

namespace rtf {
namespace {

using testing::expect_refusal;
using testing::Form;
using testing::RandomModels;

// Sums written out: channel c hears u_0 or u_c, and answer o is the sum of all channels or channel o.
TEST(FilterModel, IsItsFilters) {
  RandomModels random(1);
  for (int round = 0; round < 60; ++round) {
    const std::size_t channels = random.integer(1, 20), order = random.integer(0, 24), length = random.length(200);
    const Form form = Form(round % 3);
    const LayerRealization layer = random.layer(channels, order, form, 0.95, DataType::f64);
    const std::size_t inputs = random.chance(0.5) ? 1 : channels, outputs = random.chance(0.5) ? 1 : channels;
    const auto kernels = testing::layer_kernels(layer, length);
    const std::vector<double> u = random.normals(length * inputs);

    const stream::Model<double> model(filter_model(layer, inputs, outputs, DataType::f64));
    ASSERT_EQ(model.inputs(), inputs);
    ASSERT_EQ(model.outputs(), outputs);
    stream::Streams<double> streams(model, 1);
    const std::size_t one = streams.join();
    std::vector<double> y(length * outputs);
    streams.process({&one, 1}, channels_last<const double>(u.data(), 1, length, inputs),
                    channels_last(y.data(), 1, length, outputs));
    for (std::size_t t = 0; t < length; ++t)
      for (std::size_t o = 0; o < outputs; ++o) {
        double sum = 0, size = 0;
        for (std::size_t c = 0; c < channels; ++c) {
          if (outputs != 1 && c != o) continue;
          for (std::size_t s = 0; s <= t; ++s) {
            const double term = kernels[c][t - s] * u[s * inputs + (inputs == 1 ? 0 : c)];
            sum += term;
            size += std::abs(term);
          }
        }
        // Poles to 0.95: a rounding error lives for some 20 samples and grows by the form's own condition.
        ASSERT_NEAR(y[t * outputs + o], sum, 1e-10 * (1 + size)) << "round " << round << ", sample " << t;
      }
  }
}

TEST(FilterModel, RefusesOtherNumbersOfInputsAndOutputs) {
  RandomModels random(2);
  const LayerRealization layer = random.layer(3, 2, Form::companion, 0.9, DataType::f32);
  expect_refusal("[rtf::filter_model] inputs is 2, expected 1 or 3", [&] { filter_model(layer, 2, 1); });
  expect_refusal("[rtf::filter_model] inputs is 0, expected 1 or 3", [&] { filter_model(layer, 0, 1); });
  expect_refusal("[rtf::filter_model] outputs is 4, expected 1 or 3", [&] { filter_model(layer, 1, 4); });
}

}  // namespace
}  // namespace rtf
