#include "stream/weights.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "core/array_bytes.h"
#include "core/bfloat16.h"
#include "expect_refusal.h"
#include "random_model.h"
#include "rtf/instruction_set.h"
#include "rtf/safetensors.h"
#include "rtf/stream.h"
#include "temporary_folder.h"

namespace rtf {
namespace {

using testing::expect_refusal;
using testing::RandomModels;
using testing::Rows;

// Every bfloat16 there is, in order.
std::vector<double> all_bfloat16() {
  std::vector<double> all;
  for (std::uint32_t bits = 0; bits < 0x7f80; ++bits) all.push_back(from_bfloat16(static_cast<std::uint16_t>(bits)));
  return all;
}

TEST(Bfloat16, RoundsToTheNearest) {
  const std::vector<double> all = all_bfloat16();
  RandomModels random(1);
  const auto expect = [&](double value, std::size_t place) {
    EXPECT_EQ(rounded_to_bfloat16(value), all[place]) << value;
    EXPECT_EQ(rounded_to_bfloat16(-value), -all[place]) << value;
    EXPECT_EQ(bfloat16_bits(value), place);
  };
  for (std::size_t i = 0; i + 1 < all.size(); ++i) {
    expect(all[i], i);
    const double middle = all[i] + (all[i + 1] - all[i]) / 2;  // exact in double
    expect(middle, i % 2 == 0 ? i : i + 1);
    expect(std::nextafter(middle, 0), i);
    expect(std::nextafter(middle, 1e300), i + 1);
    expect(all[i] + random.uniform(0.51, 0.99) * (all[i + 1] - all[i]), i + 1);
  }
  EXPECT_EQ(rounded_to_bfloat16(1e300), std::numeric_limits<double>::infinity());
  EXPECT_TRUE(std::isnan(from_bfloat16(bfloat16_bits(std::nan("")))));
}

// visit(layer before, layer after) for the matrices and the embedding.
template <class Visit>
void each_matrix(const ModelFile& before, const ModelFile& after, Visit&& visit) {
  visit(before.encoder, after.encoder);
  for (std::size_t i = 0; i < before.blocks.size(); ++i) visit(before.blocks[i].output, after.blocks[i].output);
  for (std::size_t i = 0; i < before.decoder.size(); ++i) visit(before.decoder[i], after.decoder[i]);
}

TEST(RoundWeights, IsTheNearestThatTheTypeHolds) {
  RandomModels random(2);
  for (int round = 0; round < 60; ++round) {
    const ModelFile before = random.model(random.architecture(), DataType::f32);
    ModelFile bf16 = before, int8 = before;
    round_weights(bf16, DataType::bf16);
    round_weights(int8, DataType::int8);
    each_matrix(before, bf16, [](const Linear& x, const Linear& y) {
      for (std::size_t i = 0; i < x.weight.size(); ++i) {
        EXPECT_LE(std::abs(y.weight[i] - x.weight[i]), std::ldexp(std::abs(x.weight[i]), -8));
        EXPECT_EQ(y.weight[i], from_bfloat16(bfloat16_bits(y.weight[i])));
      }
      EXPECT_EQ(y.bias, x.bias);
    });
    each_matrix(before, int8, [](const Linear& x, const Linear& y) {
      EXPECT_EQ(y.bias, x.bias);
      if (x.weight.empty()) return;
      const std::size_t columns = x.weight.size() / y.scale.size();
      for (std::size_t r = 0; r < y.scale.size(); ++r) {
        double largest = 0;
        for (std::size_t i = r * columns; i < (r + 1) * columns; ++i) {
          const double whole = y.weight[i] / y.scale[r];
          EXPECT_EQ(whole, std::nearbyint(whole));
          EXPECT_LE(std::abs(whole), 127);
          EXPECT_LE(std::abs(y.weight[i] - x.weight[i]), 0.5 * y.scale[r] * (1 + 1e-6));
          largest = std::max(largest, std::abs(x.weight[i]));
        }
        EXPECT_NEAR(y.scale[r] * 127, largest, 1e-7 * largest);
      }
    });
  }
}

TEST(RoundWeights, KeepsZerosAndTheSmallest) {
  ModelFile file;
  file.architecture.channels = 3;
  file.architecture.outputs = 1;
  const double tiny = std::numeric_limits<float>::denorm_min();
  file.encoder = {{0, 1e-37, tiny}, {0, 0, 0}};
  file.architecture.norm = Architecture::Norm::none;
  file.decoder = {{{0, 0, 0}, {1}}};
  round_weights(file, DataType::int8);
  EXPECT_EQ(file.encoder.weight[0], 0);
  EXPECT_NEAR(file.encoder.weight[1], 1e-37, std::numeric_limits<float>::min() / 2);
  EXPECT_EQ(file.encoder.weight[2], 0);
  EXPECT_EQ(file.decoder[0].weight, std::vector<double>(3, 0.0));
}

Rows draw_input(RandomModels& random, const Architecture& a, std::size_t length) {
  Rows x(length);
  for (auto& sample : x) {
    if (a.vocabulary > 0) {
      sample = {static_cast<double>(random.integer(0, a.vocabulary - 1))};
    } else {
      sample = random.normals(a.features);
      testing::round_to(DataType::f32, sample);
    }
  }
  return x;
}

// (length, outputs), in blocks of `block` samples.
template <class T>
std::vector<T> streamed(const stream::Model<T>& model, const Rows& x, std::size_t block) {
  stream::Streams<T> streams(model, 1);
  const std::size_t one = streams.join(), inputs = model.inputs(), outputs = model.outputs();
  std::vector<T> samples, out(x.size() * outputs);
  std::vector<std::int64_t> tokens;
  for (const auto& sample : x) {
    tokens.push_back(static_cast<std::int64_t>(sample[0]));
    for (double value : sample) samples.push_back(static_cast<T>(value));
  }
  for (std::size_t t = 0; t < x.size(); t += block) {
    const std::size_t count = std::min(block, x.size() - t);
    const auto to = channels_last(out.data() + t * outputs, 1, count, outputs);
    if (model.architecture().vocabulary > 0) {
      streams.process({&one, 1}, channels_last<const std::int64_t>(tokens.data() + t, 1, count, 1), to);
    } else {
      streams.process({&one, 1}, channels_last<const T>(samples.data() + t * inputs, 1, count, inputs), to);
    }
  }
  return out;
}

std::vector<double> flat(const Rows& rows) {
  std::vector<double> all;
  for (const auto& row : rows) all.insert(all.end(), row.begin(), row.end());
  return all;
}

// The reference multiplies by the rounded weights in double; the runtime keeps them narrow.
TEST(NarrowWeights, StreamAsTheirRoundedValues) {
  const InstructionSet best = instruction_set();
  RandomModels random(3);
  test::TemporaryFolder folder;
  for (int round = 0; round < 80; ++round) {
    Architecture a = random.architecture();
    if (a.decoder == Architecture::Decoder::pair) a.decoder = Architecture::Decoder::pool;
    ModelFile file = random.model(a, DataType::f32, round % 10 == 0 ? 256 : 40);
    round_weights(file, round % 2 == 0 ? DataType::bf16 : DataType::int8);
    const Rows x = draw_input(random, a, random.integer(1, 100));
    const std::vector<double> wanted = flat(testing::answers(file, x));
    SCOPED_TRACE(::testing::Message() << "round " << round << ", " << a.channels << " channels");
    const std::string path = folder.file("m.safetensors");
    write_model(path, file);
    const ModelFile back = read_model(path);
    EXPECT_EQ(back.weights, file.weights);
    for (const InstructionSet set : instruction_sets()) {
      set_instruction_set(set);
      const stream::Model<float> model(file);
      const auto out = streamed(model, x, 1);
      EXPECT_LT(testing::relative_error(out, wanted), 1e-4) << name(set);
      EXPECT_EQ(streamed(model, x, random.integer(2, 40)), out);
      EXPECT_EQ(streamed(stream::Model<float>(back), x, 1), out);
    }
    set_instruction_set(best);
    // In double they are as wide as the arithmetic.
    EXPECT_LT(testing::relative_error(streamed(stream::Model<double>(file), x, 7), wanted), 1e-9);
  }
}

TEST(NarrowWeights, AreReadAsFewerBytes) {
  RandomModels random(4);
  Architecture a;
  a.channels = 64;
  a.layers = 2;
  a.vocabulary = 100;
  a.outputs = 64;
  a.length = 8;
  const ModelFile f32 = random.model(a, DataType::f32);
  ModelFile bf16 = f32, int8 = f32;
  round_weights(bf16, DataType::bf16);
  round_weights(int8, DataType::int8);
  const std::size_t weights = 2 * 128 * 64 + 100 * 64 + 64 * 64, rows = 2 * 128 + 112 + 64;
  const std::size_t all = stream::Model<float>(f32).weight_bytes();
  EXPECT_EQ(all - stream::Model<float>(bf16).weight_bytes(), 2 * weights);
  EXPECT_EQ(all - stream::Model<float>(int8).weight_bytes(), 3 * weights - 4 * rows);
}

TEST(NarrowWeights, TakeOverRunningStreams) {
  RandomModels random(5);
  Architecture a;
  a.channels = 20;
  a.layers = 2;
  a.outputs = 3;
  a.length = 50;
  a.decoder = Architecture::Decoder::position;
  const ModelFile f32 = random.model(a, DataType::f32);
  ModelFile int8 = f32;
  round_weights(int8, DataType::int8);
  stream::Streams<float> streams(stream::Model<float>(f32), 1);
  const std::size_t one = streams.join();
  const std::vector<float> in(10, 0.5f);
  std::vector<float> out(30);
  const auto process = [&] {
    streams.process({&one, 1}, channels_last<const float>(in.data(), 1, 10, 1), channels_last(out.data(), 1, 10, 3));
  };
  process();
  streams.swap(stream::Model<float>(int8), 5);
  process();
  const std::vector<double> wanted = flat(testing::answers(int8, Rows(20, {0.5})));
  for (std::size_t i = 5 * 3; i < 30; ++i)
    EXPECT_NEAR(out[i], wanted[30 + i], 0.2);  // weights off by 1 % of the largest
}

TEST(NarrowWeights, AreRefusedWhereTheyLie) {
  RandomModels random(6);
  Architecture a;
  a.channels = 4;
  a.outputs = 2;
  a.norm = Architecture::Norm::none;
  const ModelFile f32 = random.model(a, DataType::f32);
  ModelFile int8 = f32;
  round_weights(int8, DataType::int8);
  expect_refusal("weights are rounded to bf16 or int8", [&] {
    ModelFile file = f32;
    round_weights(file, DataType::f64);
  });
  expect_refusal("only a model of f32", [&] { round_weights(int8, DataType::bf16); });
  expect_refusal("only a model of f32", [&] {
    ModelFile file = random.model(a, DataType::f64);
    round_weights(file, DataType::bf16);
  });
  const auto refused = [&](const char* why, auto&& change) {
    ModelFile file = int8;
    change(file);
    expect_refusal(why, [&] { validate(file, "test"); });
  };
  refused("in a model of f32", [](ModelFile& file) { file.precision = DataType::f64; });
  refused("in a model of f32", [](ModelFile& file) { file.weights = DataType::f32; });
  refused("encoder has 3 scales; 4 are needed", [](ModelFile& file) { file.encoder.scale.pop_back(); });
  refused("decoder has 2 scales; 0 are needed", [](ModelFile& file) {
    file.weights.reset();
    file.encoder.scale.clear();
  });
  refused("has the scale 0 in row 1", [](ModelFile& file) { file.encoder.scale[1] = 0; });
  refused("128 times its scale; at most 127",
          [](ModelFile& file) { file.encoder.weight[2] = 128 * file.encoder.scale[2]; });
  expect_refusal("decoder.weight holds 3.4e+38, too large for bfloat16", [&] {
    ModelFile file = f32;
    file.decoder[0].weight[0] = 3.4e38;
    file.weights = DataType::bf16;
    stream::Model<float> model(file);
  });
}

TEST(NarrowTensors, KeepTheirBits) {
  test::TemporaryFolder folder;
  const std::string path = folder.file("x.safetensors");
  TensorFile file;
  file.tensors["half"] = {{3}, {1, -0.5, from_bfloat16(1)}, DataType::bf16};
  file.tensors["whole"] = {{2, 2}, {-128, 127, 0, -1}, DataType::int8};
  write_safetensors(path, file);
  const TensorFile back = read_safetensors(path);
  for (const auto& [name, array] : file.tensors) {
    EXPECT_EQ(back.tensors.at(name).values, array.values);
    EXPECT_EQ(back.tensors.at(name).type, array.type);
  }
  for (const double value : {0.5, 128.0, -129.0, std::nan("")})
    expect_refusal("whole numbers from -128 to 127", [&] {
      write_safetensors(path, {{{"x", {{1}, {value}, DataType::int8}}}, {}});
    });
  expect_refusal("npy files hold float32 and float64 alone", [&] {
    write_npy(folder.file("x.npy"), {{1}, {1}, DataType::bf16});
  });
}

}  // namespace
}  // namespace rtf
