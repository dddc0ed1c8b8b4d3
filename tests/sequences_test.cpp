// Whole sequences of the runtime, rtf/stream.h, against direct sums over kernels in double.
#include <gtest/gtest.h>

#include <type_traits>

#include "expect_refusal.h"
#include "random_model.h"
#include "rtf/stream.h"

namespace rtf::stream {
namespace {

using testing::expect_refusal;
using testing::RandomModels;
using testing::Rows;
using Decoder = Architecture::Decoder;

template <class T>
constexpr DataType precision_of = std::is_same_v<T, float> ? DataType::f32 : DataType::f64;
// Relative to the largest value.
template <class T>
constexpr double tolerance = std::is_same_v<T, float> ? 1e-4 : 1e-9;

// (batch, length, inputs), as float32 holds it.
std::vector<Rows> draw(RandomModels& random, const Architecture& a, std::size_t batch, std::size_t length) {
  std::vector<Rows> all(batch, Rows(length));
  for (Rows& rows : all)
    for (auto& sample : rows) {
      if (a.vocabulary > 0) {
        sample = {static_cast<double>(random.integer(0, a.vocabulary - 1))};
      } else {
        sample = random.normals(a.features);
        testing::round_to(DataType::f32, sample);
      }
    }
  return all;
}

template <class In, class T>
std::vector<T> process(const Model<T>& model, const std::vector<Rows>& x, std::size_t longest, bool planar) {
  const Architecture& a = model.architecture();
  const std::size_t batch = x.size(), length = x[0].size();
  std::vector<In> in;
  for (const Rows& rows : x)
    for (const auto& sample : rows) in.insert(in.end(), sample.begin(), sample.end());
  const std::size_t answers = a.decoder == Decoder::pair ? batch / 2 : batch;
  const std::size_t rows = a.decoder == Decoder::pair || a.decoder == Decoder::pool ? 1 : length;
  std::vector<T> out(answers * rows * a.outputs), planes(out.size());
  Sequences<T> sequences(model, longest);
  const auto to = channels_last(out.data(), answers, rows, a.outputs);
  const auto from = channels_last<const In>(in.data(), batch, length, model.inputs());
  sequences.process(from, to);
  // Nothing is left of the last call, and buffers may have any strides.
  const auto plane = length_last(planes.data(), answers, a.outputs, rows);
  sequences.process(from, planar ? plane : channels_last(planes.data(), answers, rows, a.outputs));
  for (std::size_t i = 0; i < answers; ++i)
    for (std::size_t t = 0; t < rows; ++t)
      for (std::size_t o = 0; o < a.outputs && planar; ++o) EXPECT_EQ(*plane.at(i, t, o), *to.at(i, t, o));
  if (!planar) {
    EXPECT_EQ(planes, out);
  }
  return out;
}

template <class T>
std::vector<T> answers_of(const Model<T>& model, const std::vector<Rows>& x, std::size_t longest, bool planar) {
  return model.architecture().vocabulary > 0 ? process<std::int64_t>(model, x, longest, planar)
                                             : process<T>(model, x, longest, planar);
}

template <class T>
class SequencesTest : public ::testing::Test {};
using Precisions = ::testing::Types<float, double>;
TYPED_TEST_SUITE(SequencesTest, Precisions);

TYPED_TEST(SequencesTest, EqualDirectSums) {
  using T = TypeParam;
  RandomModels random(std::is_same_v<T, float> ? 31 : 32);
  for (int round = 0; round < 150; ++round) {
    Architecture a = random.architecture();
    a.bidirectional = random.chance(0.7);
    const ModelFile file = random.model(a, precision_of<T>, round % 10 == 0 ? 256 : 40);
    const std::size_t length = round % 8 == 0 ? 1 : random.length(150), batch = a.decoder == Decoder::pair ? 4 : 2;
    const auto x = draw(random, a, batch, length);
    SCOPED_TRACE(::testing::Message() << "round " << round << ", " << a.layers << " layers, " << a.channels
                                      << " channels, " << length << " samples, decoder " << name(a.decoder));
    const Model<T> model(file);
    const auto got = answers_of(model, x, length + random.integer(0, 20), random.chance(0.5));
    std::vector<double> wanted;
    for (std::size_t i = 0; i < (a.decoder == Decoder::pair ? batch / 2 : batch); ++i) {
      Rows rows;
      if (a.decoder == Decoder::pair) {
        rows = {testing::pair_answer(file, x[i], x[i + batch / 2])};
      } else {
        rows = testing::answers(file, x[i]);
        if (a.decoder == Decoder::pool) rows = {rows.back()};
      }
      for (const auto& row : rows) wanted.insert(wanted.end(), row.begin(), row.end());
    }
    EXPECT_LT(testing::relative_error(got, wanted), tolerance<T>);
  }
}

// A causal model gives the bits that it gives as a stream.
TYPED_TEST(SequencesTest, CausalModelsAnswerAsStreams) {
  using T = TypeParam;
  RandomModels random(41);
  for (int round = 0; round < 40; ++round) {
    Architecture a = random.architecture();
    a.vocabulary = 0;
    a.decoder = Decoder::position;
    const Model<T> model(random.model(a, precision_of<T>));
    const std::size_t length = random.length(100);
    const auto x = draw(random, a, 1, length);
    std::vector<T> in, out(length * a.outputs);
    for (const auto& sample : x[0]) in.insert(in.end(), sample.begin(), sample.end());
    Streams<T> streams(model, 1);
    const std::size_t one = streams.join();
    streams.process({&one, 1}, channels_last<const T>(in.data(), 1, length, a.features),
                    channels_last(out.data(), 1, length, a.outputs));
    EXPECT_EQ(answers_of(model, x, length, false), out);
  }
}

TEST(Sequences, RefuseBadArguments) {
  RandomModels random(51);
  Architecture a = random.architecture();
  a.vocabulary = 0;
  a.features = 2;
  a.outputs = 3;
  a.bidirectional = true;
  a.decoder = Decoder::position;
  const Model<float> model(random.model(a, DataType::f32));
  expect_refusal("up to 0 samples", [&] { Sequences<float>(model, 0); });
  Sequences<float> sequences(model, 8);
  std::vector<float> in(100), out(100);
  const auto call = [&](std::size_t batch, std::size_t length, std::size_t features, std::size_t rows,
                        std::size_t outputs) {
    sequences.process(channels_last<const float>(in.data(), batch, length, features),
                      channels_last(out.data(), batch, rows, outputs));
  };
  expect_refusal("a length of 9; 1 to 8", [&] { call(1, 9, 2, 9, 3); });
  expect_refusal("a length of 0", [&] { call(1, 0, 2, 0, 3); });
  expect_refusal("[rtf::stream::Sequences] in", [&] { call(1, 4, 1, 4, 3); });
  expect_refusal("[rtf::stream::Sequences] out", [&] { call(1, 4, 2, 3, 3); });
  expect_refusal("[rtf::stream::Sequences] out", [&] { call(1, 4, 2, 4, 2); });
  const std::vector<std::int64_t> tokens(4);
  expect_refusal("not tokens", [&] {
    sequences.process(channels_last<const std::int64_t>(tokens.data(), 1, 4, 1), channels_last(out.data(), 1, 4, 3));
  });
  a.decoder = Decoder::pair;
  Sequences<float> pairs(Model<float>(random.model(a, DataType::f32)), 8);
  expect_refusal("3 sequences; pairs need an even number", [&] {
    pairs.process(channels_last<const float>(in.data(), 3, 4, 2), channels_last(out.data(), 1, 1, 3));
  });
}

}  // namespace
}  // namespace rtf::stream
