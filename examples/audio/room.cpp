// room MODEL.safetensors VOICE.wav OUT.wav: a voice through a model file as a sound card would ask for it, 64 samples
// at a time, each block timed.
#include <rtf/stream.h>
#include <rtf/wav.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <ctime>
#include <exception>
#include <numeric>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

constexpr std::size_t block = 64;

void run(const std::string& model_path, const std::string& voice_path, const std::string& output_path) {
  const auto model = rtf::stream::Model<float>::load(model_path);
  if (model.architecture().vocabulary != 0 || model.inputs() != 1 || model.outputs() != 1)
    throw std::runtime_error(model_path + " is no model of one input and one output");
  rtf::stream::Streams<float> streams(model, 1);
  const std::size_t one = streams.join();

  rtf::WavReader voice(voice_path);
  const rtf::WavFormat format = voice.format();
  if (format.channels != 1) throw std::runtime_error(voice_path + " has several channels, expected one");
  // A second of silence behind the voice, in which the room dies away.
  const std::uint64_t length = (voice.length() + format.rate + block - 1) / block * block;
  rtf::WavWriter output(output_path, format, length);

  std::vector<double> samples(block), seconds;
  std::clock_t used = 0;  // of the processor, whatever else runs on it
  std::vector<float> in(block), out(block);
  for (std::uint64_t done = 0; done < length; done += block) {
    const std::size_t count = voice.read(samples);
    std::fill(samples.begin() + static_cast<std::ptrdiff_t>(count), samples.end(), 0.0);
    std::copy(samples.begin(), samples.end(), in.begin());

    const std::clock_t used_before = std::clock();
    const auto begin = std::chrono::steady_clock::now();
    streams.process({&one, 1}, rtf::channels_last<const float>(in.data(), 1, block, 1),
                    rtf::channels_last(out.data(), 1, block, 1));
    seconds.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
    used += std::clock() - used_before;

    std::copy(out.begin(), out.end(), samples.begin());
    output.write(samples);
  }
  output.commit();

  const double audio = static_cast<double>(length) / format.rate, budget = static_cast<double>(block) / format.rate;
  const double total = std::accumulate(seconds.begin(), seconds.end(), 0.0);
  const auto late = std::count_if(seconds.begin(), seconds.end(), [&](double taken) { return taken > budget; });
  std::sort(seconds.begin(), seconds.end());
  std::printf("%s: %.2f s of sound in %zu blocks of %zu samples, on one core\n", output_path.c_str(), audio,
              seconds.size(), block);
  std::printf("real-time factor  %.3f by the processor's time, %.3f by the clock\n",
              static_cast<double>(used) / CLOCKS_PER_SEC / audio, total / audio);
  std::printf("a block           half of them at most %.3f ms, worst %.3f ms; %td over the %.3f ms that there are\n",
              1e3 * seconds[seconds.size() / 2], 1e3 * seconds.back(), late, 1e3 * budget);
  if (output.clipped() > 0)
    std::printf("%llu samples were clipped\n", static_cast<unsigned long long>(output.clipped()));
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) {
    std::fprintf(stderr, "usage: room MODEL.safetensors VOICE.wav OUT.wav\n");
    return 2;
  }
  try {
    run(argv[1], argv[2], argv[3]);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "room: %s\n", error.what());
    return 2;
  }
}
