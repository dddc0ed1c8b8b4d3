// digits MODEL.safetensors IMAGES LABELS FOLDER: handwritten digits that come in pixel by pixel, as from a sensor, and
// a decision after each of them. IMAGES and LABELS are MNIST's idx files, unpacked. In FOLDER, which is there already:
// answers.npy (images, pixels, classes) of the first images, and accuracy.npy (pixels) of all of them.
#include <rtf/npy.h>
#include <rtf/stream.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <exception>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

using rtf::stream::Model;
using rtf::stream::Streams;
using Clock = std::chrono::steady_clock;

constexpr std::size_t batch = 50;  // images that advance together
constexpr std::size_t shown = 6;   // images whose running decision is shown

// An idx file of bytes: four bytes say what it holds, then its sizes, big-endian, then the values.
std::vector<unsigned char> read_idx(const std::string& path, std::vector<std::size_t>& sizes) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw std::runtime_error("cannot read " + path);
  const std::vector<unsigned char> bytes{std::istreambuf_iterator<char>(file), {}};
  const std::size_t rank = bytes.size() < 4 ? 0 : bytes[3], head = 4 + 4 * rank;
  if (rank == 0 || bytes.size() < head || bytes[0] != 0 || bytes[1] != 0 || bytes[2] != 8)
    throw std::runtime_error(path + " is no idx file of bytes");
  std::size_t count = 1;
  for (std::size_t i = 4; i < head; i += 4) {
    sizes.push_back(std::size_t{bytes[i]} << 24 | std::size_t{bytes[i + 1]} << 16 | std::size_t{bytes[i + 2]} << 8 |
                    bytes[i + 3]);
    count = sizes.back() > 0 && count > bytes.size() / sizes.back() ? bytes.size() : count * sizes.back();
  }
  if (count == 0 || bytes.size() - head != count) throw std::runtime_error(path + " does not hold what its head says");
  return {bytes.begin() + static_cast<std::ptrdiff_t>(head), bytes.end()};
}

struct Digits {
  std::size_t count = 0, columns = 0, pixels = 0;
  std::vector<float> values;  // (count, pixels), grey values in [0, 1] as the model was trained on
  std::vector<unsigned char> labels;
};

Digits read_digits(const std::string& images, const std::string& labels, std::size_t classes) {
  Digits digits;
  std::vector<std::size_t> sizes, label_sizes;
  const auto bytes = read_idx(images, sizes);
  digits.labels = read_idx(labels, label_sizes);
  if (sizes.size() != 3 || label_sizes.size() != 1 || sizes[0] != label_sizes[0])
    throw std::runtime_error(images + " and " + labels + " are no images with a label each");
  for (const unsigned char label : digits.labels)
    if (label >= classes) throw std::runtime_error(labels + " holds a label that the model does not know");
  digits.count = sizes[0];
  digits.columns = sizes[2];
  digits.pixels = sizes[1] * sizes[2];
  for (const unsigned char byte : bytes) digits.values.push_back(static_cast<float>(byte) / 255);
  return digits;
}

std::size_t decision(std::span<const float> answer) {
  return static_cast<std::size_t>(std::max_element(answer.begin(), answer.end()) - answer.begin());
}

// Every image in a stream of its own, `batch` of them side by side. Returns the decision after each pixel, (count,
// pixels), and the answers of the first images, (shown, pixels, classes).
std::vector<std::size_t> classify(const Model<float>& model, const Digits& digits, std::vector<float>& answers) {
  Streams<float> streams(model, batch);
  const std::size_t classes = model.outputs();
  std::vector<std::size_t> decisions(digits.count * digits.pixels), active;
  std::vector<float> in(batch), out(batch * classes);
  for (std::size_t first = 0; first < digits.count; first += batch) {
    active.clear();
    while (active.size() < std::min(batch, digits.count - first)) active.push_back(streams.join());
    for (std::size_t t = 0; t < digits.pixels; ++t) {
      for (std::size_t i = 0; i < active.size(); ++i) in[i] = digits.values[(first + i) * digits.pixels + t];
      streams.step(active, std::span<const float>(in).first(active.size()),
                   std::span(out).first(active.size() * classes));
      for (std::size_t i = 0; i < active.size(); ++i) {
        const auto answer = std::span<const float>(out).subspan(i * classes, classes);
        decisions[(first + i) * digits.pixels + t] = decision(answer);
        if (first + i < shown)
          std::copy(answer.begin(), answer.end(),
                    answers.begin() + static_cast<std::ptrdiff_t>(((first + i) * digits.pixels + t) * classes));
      }
    }
    for (const std::size_t stream : active) streams.leave(stream);
  }
  return decisions;
}

void print_latency(const Model<float>& model, const Digits& digits) {
  Streams<float> streams(model, 1);
  const std::size_t one = streams.join();
  std::vector<float> out(model.outputs());
  std::vector<double> seconds(20000);
  const auto begin = Clock::now();
  auto last = begin;
  for (std::size_t i = 0; i < seconds.size(); ++i) {
    streams.step({&one, 1}, std::span<const float>(&digits.values[i % digits.values.size()], 1), out);
    const auto now = Clock::now();
    seconds[i] = std::chrono::duration<double>(now - last).count();
    last = now;
  }
  const double total = std::chrono::duration<double>(last - begin).count();
  std::sort(seconds.begin(), seconds.end());
  std::printf(
      "one sensor: %.0f pixels a second; a step takes %.2f us, 99.9 %% of them at most %.2f us, worst %.2f us\n",
      static_cast<double>(seconds.size()) / total, 1e6 * seconds[seconds.size() / 2],
      1e6 * seconds[seconds.size() * 999 / 1000], 1e6 * seconds.back());
}

void run(const std::string& model_path, const std::string& images, const std::string& labels,
         const std::string& folder) {
  const auto model = Model<float>::load(model_path);
  const rtf::Architecture& architecture = model.architecture();
  if (architecture.vocabulary != 0 || model.inputs() != 1 || architecture.decoder != rtf::Architecture::Decoder::pool)
    throw std::runtime_error(model_path + " is no model that classifies sequences of single numbers");
  const std::size_t classes = model.outputs();
  const Digits digits = read_digits(images, labels, classes);
  const std::size_t n = digits.pixels, kept = std::min(shown, digits.count);

  std::vector<float> answers(kept * n * classes);
  const auto begin = Clock::now();
  const auto decisions = classify(model, digits, answers);
  const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();

  std::vector<std::size_t> right(n, 0);
  for (std::size_t i = 0; i < digits.count; ++i)
    for (std::size_t t = 0; t < n; ++t) right[t] += decisions[i * n + t] == digits.labels[i];
  std::printf("right after the last pixel: %zu of %zu, accuracy %.4f\n", right[n - 1], digits.count,
              static_cast<double>(right[n - 1]) / static_cast<double>(digits.count));
  std::printf("%zu sensors side by side: %.0f pixels a second\n", batch,
              static_cast<double>(digits.count * n) / seconds);
  print_latency(model, digits);

  // After every fourth row, and when the decision was the last one for good.
  std::printf("\n%-10s", "rows seen");
  for (std::size_t t = 4 * digits.columns; t <= n; t += 4 * digits.columns) std::printf("%6zu", t / digits.columns);
  std::printf("  settled after pixel\n");
  for (std::size_t i = 0; i < kept; ++i) {
    std::printf("a %-8u", digits.labels[i]);
    for (std::size_t t = 4 * digits.columns; t <= n; t += 4 * digits.columns)
      std::printf("%6zu", decisions[i * n + t - 1]);
    std::size_t settled = n;
    while (settled > 1 && decisions[i * n + settled - 2] == decisions[i * n + n - 1]) --settled;
    std::printf("  %zu of %zu\n", settled, n);
  }
  std::printf("%-10s", "right, %");
  for (std::size_t t = 4 * digits.columns; t <= n; t += 4 * digits.columns)
    std::printf("%6.1f", 100 * static_cast<double>(right[t - 1]) / static_cast<double>(digits.count));
  std::printf("\n");

  std::vector<double> accuracy;
  for (const std::size_t count : right)
    accuracy.push_back(static_cast<double>(count) / static_cast<double>(digits.count));
  rtf::write_npy(folder + "/accuracy.npy", rtf::Array{{n}, accuracy});
  rtf::write_npy(folder + "/answers.npy", rtf::Array{{kept, n, classes}, {answers.begin(), answers.end()}});
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 5) {
    std::fprintf(stderr, "usage: digits MODEL.safetensors IMAGES LABELS FOLDER\n");
    return 2;
  }
  try {
    run(argv[1], argv[2], argv[3], argv[4]);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "digits: %s\n", error.what());
    return 2;
  }
}
