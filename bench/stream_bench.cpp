// A deployed model: 6 layers of 256 channels and order 64 with channel mixing.
#include <benchmark/benchmark.h>

#include <cstring>
#include <vector>

#include "filters.h"
#include "rtf/random.h"
#include "rtf/stream.h"

namespace {

using rtf::Architecture;
using rtf::DataType;

std::vector<double> normals(std::size_t count, std::uint64_t seed, double scale) {
  const rtf::Random random(seed);
  std::vector<double> values(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = static_cast<float>(scale * random.normal(i));
  return values;
}

// Every layer in the form of `index` of rtf::Realization.
rtf::ModelFile example(std::size_t index, DataType precision) {
  constexpr std::size_t channels = 256, order = 64, layers = 6;
  rtf::ModelFile file;
  Architecture& a = file.architecture;
  a.channels = channels;
  a.layers = layers;
  a.outputs = 10;
  a.length = 1024;
  a.decoder = Architecture::Decoder::position;
  file.precision = precision;
  file.encoder = {normals(channels, 1, 1), normals(channels, 2, 1)};
  const rtf::Random random(7);
  for (std::size_t i = 0; i < layers; ++i) {
    rtf::ModelBlock& block = file.blocks.emplace_back();
    block.norm = {std::vector<double>(channels, 1.0), std::vector<double>(channels, 0.0)};
    block.layer.precision = precision;
    if (index == 0) {
      // A denominator for each channel: sum |a| < 1 keeps it stable.
      auto tf = rtf::make_coefficients(channels, channels, order);
      tf.a = normals(channels * order, 10 * i + 3, 0.5 / order);
      tf.b = normals(channels * order, 10 * i + 4, 0.1);
      block.layer.realization = tf;
    } else if (index == 1) {
      rtf::SecondOrderSections one;
      for (std::size_t s = 0; s < order / 2; ++s) one.sections.push_back({0.81, 0.3, 1.01, 1, 0.3, 0.81});
      block.layer.realization = std::vector(channels, one);
    } else {
      rtf::Modal one;
      for (std::size_t p = 0; p < order / 2; ++p) {
        const auto pole = std::polar(0.99, 0.09 * static_cast<double>(p + 1));
        one.poles.insert(one.poles.end(), {pole, std::conj(pole)});
        one.residues.insert(one.residues.end(), {{0.1, 0.1}, {0.1, -0.1}});
      }
      block.layer.realization = std::vector(channels, one);
    }
    block.output = {normals(2 * channels * channels, 10 * i + 5, 1.0 / 16), normals(2 * channels, 10 * i + 6, 1)};
  }
  file.norm = file.blocks[0].norm;
  file.decoder.push_back({normals(10 * channels, 100, 1.0 / 16), normals(10, 101, 1)});
  return file;
}

template <class T>
void step(benchmark::State& state) {
  const rtf::stream::Model<T> model(
      example(static_cast<std::size_t>(state.range(0)), std::is_same_v<T, float> ? DataType::f32 : DataType::f64));
  const auto batch = static_cast<std::size_t>(state.range(1));
  rtf::stream::Streams<T> streams(model, batch);
  std::vector<std::size_t> all;
  for (std::size_t s = 0; s < batch; ++s) all.push_back(streams.join());
  std::vector<T> in(batch, T(0.5)), out(10 * batch);
  for (auto _ : state) {
    streams.step(all, std::span<const T>(in), std::span<T>(out));
    benchmark::ClobberMemory();
  }
  state.SetItemsProcessed(static_cast<std::int64_t>(batch) * state.iterations());
  state.SetBytesProcessed(static_cast<std::int64_t>(model.weight_bytes()) * state.iterations());
}
BENCHMARK(step<float>)->ArgsProduct({{0, 1, 2}, {1, 16}})->ArgNames({"form", "streams"})->Unit(benchmark::kMicrosecond);
BENCHMARK(step<double>)->ArgsProduct({{0, 1, 2}, {1}})->ArgNames({"form", "streams"})->Unit(benchmark::kMicrosecond);

void process(benchmark::State& state) {
  const rtf::stream::Model<float> model(example(static_cast<std::size_t>(state.range(0)), DataType::f32));
  rtf::stream::Streams<float> streams(model, 1);
  const std::size_t one = streams.join(), length = 64;
  std::vector<float> in(length, 0.5f), out(10 * length);
  for (auto _ : state) {
    streams.process({&one, 1}, rtf::channels_last<const float>(in.data(), 1, length, 1),
                    rtf::channels_last(out.data(), 1, length, 10));
    benchmark::ClobberMemory();
  }
  state.SetItemsProcessed(static_cast<std::int64_t>(length) * state.iterations());
}
BENCHMARK(process)->Arg(0)->Arg(1)->Arg(2)->ArgName("form")->Unit(benchmark::kMicrosecond);

// Silence after sound: states decay into numbers too small for full precision.
void silence(benchmark::State& state) {
  const rtf::stream::Model<float> model(example(static_cast<std::size_t>(state.range(0)), DataType::f32));
  rtf::stream::Streams<float> streams(model, 1);
  const std::size_t one = streams.join();
  std::vector<float> in(64, 0.5f), out(10);
  streams.prefill({&one, 1}, rtf::channels_last<const float>(in.data(), 1, 64, 1));
  const float zero = 0;
  for (auto _ : state) streams.step({&one, 1}, std::span(&zero, 1), std::span<float>(out));
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(silence)->Arg(0)->Arg(1)->Arg(2)->ArgName("form")->Unit(benchmark::kMicrosecond);

}  // namespace

BENCHMARK_MAIN();
