#include "rtf/stream.h"

#include <gtest/gtest.h>

#include <array>
#include <limits>
#include <type_traits>

#include "expect_refusal.h"
#include "random_model.h"
#include "rtf/instruction_set.h"

namespace rtf::stream {
namespace {

using testing::expect_refusal;
using testing::RandomModels;
using testing::Rows;

template <class T>
constexpr DataType precision_of = std::is_same_v<T, float> ? DataType::f32 : DataType::f64;

// Relative to the largest value.
template <class T>
constexpr double tolerance = std::is_same_v<T, float> ? 1e-4 : 1e-9;

template <class T>
Rows draw_input(RandomModels& random, const Architecture& a, std::size_t length) {
  Rows x(length);
  for (auto& sample : x) {
    if (a.vocabulary > 0) {
      sample = {static_cast<double>(random.integer(0, a.vocabulary - 1))};
    } else {
      sample = random.normals(a.features);
      testing::round_to(precision_of<T>, sample);
    }
  }
  return x;
}

enum class Call { step, process, prefill };
enum class Buffers { interleaved, planar };

// `count` samples of one stream from `first` on; the answers of step and process are added to `out`.
template <class T>
void feed(Streams<T>& streams, const Architecture& a, std::size_t stream, const Rows& x, std::size_t first,
          std::size_t count, Call call, Buffers buffers, std::vector<std::vector<T>>& out) {
  const std::size_t inputs = a.vocabulary > 0 ? 1 : a.features;
  const std::size_t outputs = a.decoder == Architecture::Decoder::pair ? 0 : a.outputs;
  const auto view = [&]<class V>(V* data, std::size_t length, std::size_t channels) {
    return buffers == Buffers::planar ? length_last(data, 1, channels, length)
                                      : channels_last(data, 1, length, channels);
  };
  const auto all = [&]<class V>(V) {
    std::vector<V> in(count * inputs);
    const auto signal = view(in.data(), count, inputs);
    for (std::size_t t = 0; t < count; ++t)
      for (std::size_t c = 0; c < inputs; ++c) *signal.at(0, t, c) = static_cast<V>(x[first + t][c]);
    std::vector<T> answers(count * outputs);
    const auto to = view(answers.data(), count, outputs);
    const std::span<const std::size_t> one(&stream, 1);
    if (call == Call::prefill) return streams.prefill(one, Signal<const V>(signal));
    if (call == Call::step) {
      for (std::size_t t = 0; t < count; ++t) {
        std::vector<V> sample(inputs);
        for (std::size_t c = 0; c < inputs; ++c) sample[c] = *signal.at(0, t, c);
        std::vector<T> answer(outputs);
        streams.step(one, std::span<const V>(sample), std::span<T>(answer));
        out.push_back(answer);
      }
      return;
    }
    streams.process(one, Signal<const V>(signal), to);
    for (std::size_t t = 0; t < count; ++t) {
      auto& answer = out.emplace_back();
      for (std::size_t o = 0; o < outputs; ++o) answer.push_back(*to.at(0, t, o));
    }
  };
  a.vocabulary > 0 ? all(std::int64_t{}) : all(T{});
}

template <class T>
std::vector<std::vector<T>> stepped(const Model<T>& model, const Rows& x) {
  Streams<T> streams(model, 1);
  std::vector<std::vector<T>> out;
  feed(streams, model.architecture(), streams.join(), x, 0, x.size(), Call::step, Buffers::interleaved, out);
  return out;
}

double error_of(const auto& got, const Rows& wanted) {
  std::vector<double> all_got, all_wanted;
  for (std::size_t t = 0; t < wanted.size(); ++t) {
    all_got.insert(all_got.end(), got[t].begin(), got[t].end());
    all_wanted.insert(all_wanted.end(), wanted[t].begin(), wanted[t].end());
  }
  return testing::relative_error(all_got, all_wanted);
}

template <class T>
class StreamTest : public ::testing::Test {};
using Precisions = ::testing::Types<float, double>;
TYPED_TEST_SUITE(StreamTest, Precisions);

TYPED_TEST(StreamTest, EqualsConvolution) {
  using T = TypeParam;
  RandomModels random(std::is_same_v<T, float> ? 11 : 12);
  for (int round = 0; round < 150; ++round) {
    const Architecture a = random.architecture();
    const ModelFile file = random.model(a, precision_of<T>, round % 10 == 0 ? 256 : 40);
    const std::size_t length = round % 15 == 0 && a.channels <= 16 ? 2000 : random.length(200);
    const Rows x = draw_input<T>(random, a, length);
    const Model<T> model(file);
    SCOPED_TRACE(::testing::Message() << "round " << round << ", " << a.layers << " layers, " << a.channels
                                      << " channels, " << length << " samples, decoder " << name(a.decoder));
    if (a.decoder == Architecture::Decoder::pair) {
      const Rows other = draw_input<T>(random, a, random.length(200));
      Streams<T> streams(model, 2);
      const std::size_t first = streams.join(), second = streams.join();
      std::vector<std::vector<T>> none;
      feed(streams, a, first, x, 0, x.size(), Call::process, Buffers::interleaved, none);
      feed(streams, a, second, other, 0, other.size(), Call::prefill, Buffers::planar, none);
      std::vector<T> answer(a.outputs);
      streams.answer_pair(first, second, answer);
      EXPECT_LT(testing::relative_error(answer, testing::pair_answer(file, x, other)), tolerance<T>);
      continue;
    }
    const Rows wanted = testing::answers(file, x);
    EXPECT_LT(error_of(stepped(model, x), wanted), tolerance<T>);
  }
}

// Any cut into step, process and prefill, with a save and restore or a fork between, gives the same bits.
TYPED_TEST(StreamTest, CutsAndSavesChangeNothing) {
  using T = TypeParam;
  RandomModels random(21);
  for (int round = 0; round < 100; ++round) {
    Architecture a = random.architecture();
    if (a.decoder == Architecture::Decoder::pair) a.decoder = Architecture::Decoder::pool;
    const Model<T> model(random.model(a, precision_of<T>));
    const Rows x = draw_input<T>(random, a, random.integer(1, 150));
    const auto wanted = stepped(model, x);
    Streams<T> streams(model, 3), elsewhere(model, 2);
    elsewhere.join();
    std::size_t stream = streams.join();
    std::vector<std::vector<T>> out;
    for (std::size_t t = 0; t < x.size();) {
      const std::size_t count = random.integer(0, std::min<std::size_t>(40, x.size() - t));
      const auto call = static_cast<Call>(random.integer(0, 2));
      feed(streams, a, stream, x, t, count, call, static_cast<Buffers>(random.integer(0, 1)), out);
      t += count;
      out.resize(t);  // prefill has no answers
      if (call == Call::prefill)
        for (std::size_t i = t - count; i < t; ++i) out[i] = wanted[i];
      if (call == Call::prefill && count > 0 && a.decoder == Architecture::Decoder::pool) {
        std::vector<T> answer(a.outputs);
        streams.answer(stream, answer);
        EXPECT_EQ(answer, wanted[t - 1]);
      }
      if (random.chance(0.3)) {
        const std::size_t other = streams.fork(stream);
        streams.leave(stream);
        stream = other;
      }
      if (random.chance(0.3)) {
        std::vector<std::byte> bytes(model.state_bytes()), again(model.state_bytes());
        streams.save(stream, bytes);
        streams.reset(stream);
        const std::size_t there = elsewhere.join();
        elsewhere.restore(there, bytes);
        elsewhere.save(there, again);
        EXPECT_EQ(bytes, again);
        elsewhere.leave(there);
        streams.restore(stream, again);
      }
    }
    ASSERT_EQ(out.size(), wanted.size());
    EXPECT_EQ(out, wanted) << "round " << round;
  }
}

// Streams that join and leave a batch at any time answer as if they were alone.
TYPED_TEST(StreamTest, StreamsAreIndependent) {
  using T = TypeParam;
  RandomModels random(31);
  for (int round = 0; round < 40; ++round) {
    Architecture a = random.architecture();
    a.vocabulary = 0;
    a.decoder = Architecture::Decoder::position;
    const Model<T> model(random.model(a, precision_of<T>));
    const std::size_t capacity = random.integer(1, 20);
    Streams<T> streams(model, capacity);
    struct Run {
      Rows x;
      std::vector<std::vector<T>> out;
      std::size_t stream;
    };
    std::vector<Run> runs, done;
    for (int time = 0; time < 60; ++time) {
      while (streams.size() < capacity && random.chance(0.4))
        runs.push_back({draw_input<T>(random, a, random.integer(1, 30)), {}, streams.join()});
      std::vector<Run*> chosen;
      for (Run& run : runs)
        if (random.chance(0.8)) chosen.push_back(&run);
      std::vector<std::size_t> names;
      std::vector<T> in, out(chosen.size() * a.outputs);
      for (const Run* run : chosen) {
        names.push_back(run->stream);
        for (double value : run->x[run->out.size()]) in.push_back(static_cast<T>(value));
      }
      streams.step(names, std::span<const T>(in), std::span<T>(out));
      for (std::size_t i = 0; i < chosen.size(); ++i)
        chosen[i]->out.emplace_back(out.begin() + static_cast<std::ptrdiff_t>(i * a.outputs),
                                    out.begin() + static_cast<std::ptrdiff_t>((i + 1) * a.outputs));
      for (std::size_t i = runs.size(); i-- > 0;) {
        if (runs[i].out.size() < runs[i].x.size()) continue;
        streams.leave(runs[i].stream);
        done.push_back(std::move(runs[i]));
        runs.erase(runs.begin() + static_cast<std::ptrdiff_t>(i));
      }
    }
    for (const Run& run : done) EXPECT_EQ(run.out, stepped(model, run.x));
  }
}

// Blocks of several streams at once, in buffers of any strides, with others joining and leaving between the calls.
TYPED_TEST(StreamTest, BlocksOfSeveralStreamsAreThoseOfEach) {
  using T = TypeParam;
  RandomModels random(32);
  for (int round = 0; round < 30; ++round) {
    Architecture a = random.architecture();
    a.vocabulary = 0;
    a.decoder = random.chance(0.5) ? Architecture::Decoder::position : Architecture::Decoder::pool;
    const Model<T> model(random.model(a, precision_of<T>));
    const std::size_t count = random.integer(1, 6);
    Streams<T> streams(model, count + 1);
    std::vector<std::size_t> names;
    std::vector<Rows> inputs;
    std::vector<std::vector<std::vector<T>>> out(count);
    for (std::size_t s = 0; s < count; ++s) {
      names.push_back(streams.join());
      inputs.push_back(draw_input<T>(random, a, 60));
    }
    for (std::size_t t = 0; t < 60;) {
      const std::size_t length = std::min<std::size_t>(random.integer(1, 25), 60 - t);
      std::vector<T> in(count * length * a.features), answers(count * length * a.outputs);
      const bool planar = random.chance(0.5);
      const auto from = planar ? length_last(in.data(), count, a.features, length)
                               : channels_last(in.data(), count, length, a.features);
      const auto to = random.chance(0.5) ? length_last(answers.data(), count, a.outputs, length)
                                         : channels_last(answers.data(), count, length, a.outputs);
      for (std::size_t s = 0; s < count; ++s)
        for (std::size_t i = 0; i < length; ++i)
          for (std::size_t c = 0; c < a.features; ++c) *from.at(s, i, c) = static_cast<T>(inputs[s][t + i][c]);
      const std::size_t other = streams.join();  // comes and goes
      streams.process(names, Signal<const T>(from), to);
      streams.leave(other);
      for (std::size_t s = 0; s < count; ++s)
        for (std::size_t i = 0; i < length; ++i) {
          auto& answer = out[s].emplace_back();
          for (std::size_t o = 0; o < a.outputs; ++o) answer.push_back(*to.at(s, i, o));
        }
      t += length;
    }
    for (std::size_t s = 0; s < count; ++s) EXPECT_EQ(out[s], stepped(model, inputs[s])) << "round " << round;
  }
}

// Both models of a swap run on their own from the state at the swap; answers between them are mixed linearly.
TYPED_TEST(StreamTest, SwapsFadeFromOneModelToTheOther) {
  using T = TypeParam;
  RandomModels random(61);
  for (int round = 0; round < 30; ++round) {
    Architecture a = random.architecture();
    a.decoder = random.chance(0.5) ? Architecture::Decoder::pool : Architecture::Decoder::position;
    const ModelFile old_file = random.model(a, precision_of<T>);
    ModelFile new_file = old_file;  // other weights around the same recurrences, and louder ones
    new_file.decoder[0] = random.linear(a.outputs, a.channels);
    for (ModelBlock& block : new_file.blocks)
      if (auto* tf = std::get_if<TransferFunction>(&block.layer.realization))
        for (double& value : tf->b) value *= 2;
    Model<T> old_model(old_file), new_model(new_file);
    const std::size_t length = 60, at = random.integer(1, 20), fade = random.integer(0, 30);
    const Rows x = draw_input<T>(random, a, length);
    std::vector<std::vector<T>> of_old, of_new, out;
    Streams<T> streams(old_model, 2), old_streams(old_model, 1), new_streams(new_model, 1);
    const std::size_t one = streams.join();
    const auto some = Buffers::interleaved;
    feed(streams, a, one, x, 0, at, Call::process, some, out);
    feed(old_streams, a, old_streams.join(), x, 0, length, Call::step, some, of_old);
    streams.swap(new_model, fade);
    // The new model alone, from the state at the swap.
    std::vector<std::byte> bytes(new_model.state_bytes());
    streams.save(one, bytes);
    new_streams.restore(new_streams.join(), bytes);
    of_new.resize(at);
    feed(new_streams, a, 0, x, at, length - at, Call::step, some, of_new);
    if (fade > 0) expect_refusal("1 stream still fades", [&] { streams.swap(old_model, 1); });
    const std::size_t other = streams.fork(one);
    auto forked = out;
    feed(streams, a, one, x, at, length - at, Call::process, some, out);
    feed(streams, a, other, x, at, length - at, Call::step, some, forked);
    EXPECT_EQ(out, forked);
    for (std::size_t t = 0; t < length; ++t) {
      const std::size_t since = t - std::min(t, at), left = t < at ? fade + 1 : fade - std::min(since, fade);
      for (std::size_t o = 0; o < a.outputs; ++o) {
        if (t < at) {
          EXPECT_EQ(out[t][o], of_old[t][o]);
        } else if (left == 0) {
          EXPECT_EQ(out[t][o], of_new[t][o]);
        } else {
          const double weight = static_cast<double>(left) / static_cast<double>(fade + 1);
          const double wanted = of_new[t][o] + weight * (of_old[t][o] - of_new[t][o]);
          const double size = std::abs(of_new[t][o]) + std::abs(of_old[t][o]);
          EXPECT_NEAR(out[t][o], wanted, 4 * std::numeric_limits<T>::epsilon() * size);
        }
      }
    }
    Architecture wider = a;
    ++wider.channels;
    expect_refusal("different architectures", [&] { streams.swap(Model<T>(random.model(wider, precision_of<T>)), 0); });
  }
}

// The longest fade that can be asked for does not wrap around: it has hardly begun.
TYPED_TEST(StreamTest, TheLongestFadeIsThatOfTheOldModel) {
  using T = TypeParam;
  RandomModels random(43);
  Architecture a = random.architecture();
  a.vocabulary = 0;
  a.decoder = Architecture::Decoder::position;
  const ModelFile file = random.model(a, precision_of<T>);
  ModelFile louder = file;
  for (double& value : louder.decoder[0].weight) value *= 2;
  const Model<T> model(file);
  const Rows x = draw_input<T>(random, a, 5);
  std::vector<std::vector<T>> out, wanted;
  Streams<T> streams(model, 1), old_streams(model, 1);
  feed(streams, a, streams.join(), x, 0, 1, Call::step, Buffers::interleaved, out);
  feed(old_streams, a, old_streams.join(), x, 0, 5, Call::step, Buffers::interleaved, wanted);
  streams.swap(Model<T>(louder), std::numeric_limits<std::size_t>::max());
  feed(streams, a, 0, x, 1, 4, Call::step, Buffers::interleaved, out);
  for (std::size_t t = 0; t < 5; ++t)
    for (std::size_t o = 0; o < a.outputs; ++o)
      EXPECT_NEAR(out[t][o], wanted[t][o], 8 * std::numeric_limits<T>::epsilon() * (1 + std::abs(wanted[t][o])));
}

// A sample that is not finite stays in the state until reset.
TYPED_TEST(StreamTest, KnowsWhetherItsStateIsFinite) {
  using T = TypeParam;
  const auto layer = [] {
    auto tf = make_coefficients(1, 1, 2);
    tf.a = {-0.5, 0};
    tf.b = {1, 1};
    return LayerRealization{tf, precision_of<T>};
  };
  Streams<T> streams(Model<T>(filter_model(layer(), 1, 1, precision_of<T>)), 1);
  const std::size_t one = streams.join();
  EXPECT_TRUE(streams.finite(one));
  for (const T bad : {std::numeric_limits<T>::quiet_NaN(), std::numeric_limits<T>::infinity()}) {
    T out = 0;
    streams.step({&one, 1}, std::span<const T>(&bad, 1), {&out, 1});
    EXPECT_FALSE(streams.finite(one));
    streams.reset(one);
    EXPECT_TRUE(streams.finite(one));
  }
}

// An identity is not multiplied by: with all that can stand around it, and after a sample that is not finite.
TYPED_TEST(StreamTest, MatricesThatChangeNothing) {
  using T = TypeParam;
  RandomModels random(43);
  for (const std::size_t channels : {1u, 3u, 16u, 17u, 40u})
    for (const auto norm : {Architecture::Norm::none, Architecture::Norm::batch, Architecture::Norm::layer})
      for (const auto decoder : {Architecture::Decoder::position, Architecture::Decoder::pool}) {
        Architecture a;
        a.channels = a.features = a.outputs = channels;
        a.layers = 2;
        a.norm = norm;
        a.decoder = decoder;
        a.length = 30;
        ModelFile file = random.model(a, precision_of<T>, 8);
        for (Linear* matrix : {&file.encoder, &file.decoder[0]}) {
          matrix->weight.assign(channels * channels, 0.0);
          for (std::size_t c = 0; c < channels; ++c) matrix->weight[c * (channels + 1)] = 1;
          matrix->bias.assign(channels, 0.0);
        }
        const Rows x = draw_input<T>(random, a, 30), wanted = testing::answers(file, x);
        const Model<T> model(file);
        EXPECT_LT(error_of(stepped(model, x), wanted), tolerance<T>) << channels << " channels";

        Streams<T> streams(model, 1);
        const std::size_t one = streams.join();
        std::vector<T> bad(channels), out(channels);
        bad[0] = std::numeric_limits<T>::quiet_NaN();
        streams.step({&one, 1}, std::span<const T>(bad), out);
        streams.reset(one);
        std::vector<std::vector<T>> after;
        feed(streams, a, one, x, 0, 30, Call::process, Buffers::interleaved, after);
        EXPECT_LT(error_of(after, wanted), tolerance<T>) << channels << " channels, after a reset";
      }
}

// Every instruction set gives the same answers but for rounding, and takes the others' states.
TYPED_TEST(StreamTest, InstructionSetsAgree) {
  using T = TypeParam;
  RandomModels random(41);
  const InstructionSet best = instruction_set();
  for (int round = 0; round < 20; ++round) {
    Architecture a = random.architecture();
    a.decoder = Architecture::Decoder::position;
    const ModelFile file = random.model(a, precision_of<T>);
    const Rows x = draw_input<T>(random, a, 40);
    const Rows wanted = testing::answers(file, x);
    std::vector<std::byte> bytes;
    for (const InstructionSet set : instruction_sets()) {
      set_instruction_set(set);
      const Model<T> model(file);
      EXPECT_LT(error_of(stepped(model, x), wanted), tolerance<T>) << name(set);
      Streams<T> streams(model, 1);
      const std::size_t stream = streams.join();
      std::vector<std::vector<T>> out(20);
      if (!bytes.empty()) {
        streams.restore(stream, bytes);
        feed(streams, a, stream, x, 20, 20, Call::process, Buffers::interleaved, out);
        for (std::size_t t = 0; t < 20; ++t) out[t].assign(wanted[t].begin(), wanted[t].end());
        EXPECT_LT(error_of(out, wanted), tolerance<T>) << name(set);
      }
      streams.reset(stream);
      feed(streams, a, stream, x, 0, 20, Call::prefill, Buffers::interleaved, out);
      bytes.resize(model.state_bytes());
      streams.save(stream, bytes);
    }
  }
  set_instruction_set(best);
}

ModelFile small_model(std::size_t vocabulary, Architecture::Decoder decoder) {
  RandomModels random(51);
  Architecture a;
  a.vocabulary = vocabulary;
  a.features = 2;
  a.channels = 4;
  a.layers = 1;
  a.outputs = 3;
  a.decoder = decoder;
  a.length = 10;
  return random.model(a, DataType::f32);
}

TEST(Streams, RefuseBadArguments) {
  const Model<float> model(small_model(0, Architecture::Decoder::position));
  Streams<float> streams(model, 2);
  std::array<float, 6> in{}, out{};
  const std::size_t one = streams.join();
  const std::array<std::size_t, 2> twice{one, one}, absent{one, 1}, beyond{one, 2};
  const auto step = [&](std::span<const std::size_t> which, std::size_t inputs, std::size_t outputs) {
    return [&, which, inputs, outputs] {
      streams.step(which, std::span<const float>(in).first(inputs), std::span<float>(out).first(outputs));
    };
  };
  expect_refusal("[rtf::stream::step] stream 0 is named twice", step(twice, 4, 6));
  expect_refusal("stream 1 has not joined", step(absent, 4, 6));
  expect_refusal("stream 2; there are streams 0 to 1", step(beyond, 4, 6));
  expect_refusal("in has 3 values; 2 are needed", step({&one, 1}, 3, 3));
  expect_refusal("out has 2 values; 3 are needed", step({&one, 1}, 2, 2));
  const std::int64_t token = 0;
  expect_refusal("takes 2 numbers a sample, not tokens", [&] {
    streams.step({&one, 1}, std::span(&token, 1), std::span<float>(out).first(3));
  });
  expect_refusal("out has shape (1, 2, 3); (1, 1, 3) is needed", [&] {
    streams.process({&one, 1}, channels_last<const float>(in.data(), 1, 1, 2), channels_last(out.data(), 1, 2, 3));
  });
  expect_refusal("the decoder is position; pool is needed", [&] {
    step({&one, 1}, 2, 3)();
    streams.answer(one, std::span<float>(out).first(3));
  });
  streams.join();
  expect_refusal("all 2 streams are taken", [&] { streams.join(); });
  expect_refusal("all 2 streams are taken", [&] { streams.fork(one); });
  streams.leave(one);
  expect_refusal("has not joined", [&] { streams.leave(one); });
  expect_refusal("has not joined", [&] { streams.reset(one); });
  expect_refusal("a capacity of 0", [&] { Streams<float>(model, 0); });

  ModelFile both = small_model(0, Architecture::Decoder::position);
  both.architecture.bidirectional = true;
  both.blocks[0].backward = both.blocks[0].layer;
  expect_refusal("bidirectional", [&] { Streams<float>(Model<float>(both), 1); });
  RandomModels random(5);
  expect_refusal("precision f64", [&] { Model<float>{random.model(model.architecture(), DataType::f64)}; });
}

TEST(Streams, RefuseBadTokensAndChangeNothing) {
  const Model<double> model(small_model(5, Architecture::Decoder::pool));
  Streams<double> streams(model, 1);
  const std::size_t one = streams.join();
  std::vector<std::byte> before(model.state_bytes()), after(model.state_bytes());
  streams.save(one, before);
  for (const std::int64_t bad : {std::int64_t{5}, std::int64_t{-1}}) {
    const std::array<std::int64_t, 3> tokens{1, bad, 2};
    expect_refusal("is outside the vocabulary of 5", [&] {
      streams.prefill({&one, 1}, channels_last(tokens.data(), 1, 3, 1));
    });
  }
  streams.save(one, after);
  EXPECT_EQ(before, after);
  std::array<double, 3> out;
  expect_refusal("stream 0 has seen no sample", [&] { streams.answer(one, out); });
}

TEST(Streams, RefuseBadStates) {
  const Model<float> model(small_model(0, Architecture::Decoder::pool));
  Streams<float> streams(model, 1);
  const std::size_t one = streams.join();
  const std::array<float, 8> in{1, 2, 3, 4, 5, 6, 7, 8};
  streams.prefill({&one, 1}, channels_last(in.data(), 1, 4, 2));
  std::vector<std::byte> good(model.state_bytes()), again(model.state_bytes());
  streams.save(one, good);
  const auto expect = [&](std::vector<std::byte> bytes, const std::string& part) {
    expect_refusal(part, [&] { streams.restore(one, bytes); });
    streams.save(one, again);
    EXPECT_EQ(again, good);
  };
  expect({}, "a state of 0 bytes");
  expect({good.begin(), good.end() - 1}, "checksum");
  for (std::size_t i = 0; i < good.size(); ++i) {
    auto bad = good;
    bad[i] ^= std::byte{4};
    expect(bad, i < 8 ? "not a saved stream" : i < 12 ? "version" : "checksum");
  }
  RandomModels random(6);
  const Model<float> other(random.model(model.architecture(), DataType::f32));
  Streams<float> others(other, 1);
  others.join();
  std::vector<std::byte> foreign(other.state_bytes());
  others.save(0, foreign);
  expect(foreign, "a state of another model");
  const Model<double> wide(small_model(0, Architecture::Decoder::pool));
  Streams<double> wides(wide, 1);
  wides.join();
  std::vector<std::byte> wider(wide.state_bytes());
  wides.save(0, wider);
  expect(wider, "8 bytes a number; here it has 4");
}

}  // namespace
}  // namespace rtf::stream
