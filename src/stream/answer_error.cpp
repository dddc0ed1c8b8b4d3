#include "stream/answer_error.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/arguments.h"
#include "rtf/random.h"
#include "rtf/stream.h"

namespace rtf {
namespace {

template <class T>
std::vector<T> runtime_answers(const ModelFile& file, const ModelInput& x) {
  const stream::Model<T> model(file);
  const Architecture& a = file.architecture;
  const bool pair = a.decoder == Architecture::Decoder::pair, pool = a.decoder == Architecture::Decoder::pool;
  const std::size_t answers = pair ? x.batch / 2 : x.batch, positions = pair || pool ? 1 : x.length;
  std::vector<T> out(answers * positions * a.outputs);
  const auto to = channels_last(out.data(), answers, positions, a.outputs);
  stream::Sequences<T> sequences(model, x.length);
  if (a.vocabulary > 0) {
    sequences.process(channels_last(x.tokens.data(), x.batch, x.length, 1), to);
  } else {
    const std::vector<T> samples(x.numbers.begin(), x.numbers.end());
    sequences.process(channels_last(samples.data(), x.batch, x.length, a.features), to);
  }
  return out;
}

}  // namespace

ModelInput random_input(const Architecture& a) {
  constexpr std::size_t longest = 1 << 14;  // seconds of work
  ModelInput x;
  if (a.decoder == Architecture::Decoder::pair) x.batch = 2;
  x.length = std::max(std::min(a.length, longest), a.last);
  const Random random(1);
  if (a.vocabulary > 0) {
    x.tokens.resize(x.batch * x.length);
    for (std::size_t i = 0; i < x.tokens.size(); ++i)
      x.tokens[i] = static_cast<std::int64_t>(random.uniform(i) * static_cast<double>(a.vocabulary));
  } else {
    x.numbers.resize(x.batch * x.length * a.features);
    for (std::size_t i = 0; i < x.numbers.size(); ++i) x.numbers[i] = static_cast<float>(random.normal(i));
  }
  return x;
}

double answer_error(const ModelFile& file, const ModelInput& input, std::span<const double> wanted) {
  const auto compare = [&](const auto& got) {
    // Decoder::last answers at every position; the trainer's at the last ones.
    const Architecture& a = file.architecture;
    const bool last = a.decoder == Architecture::Decoder::last;
    check_count("answer_error", "the list of answers", wanted.size(),
                last ? input.batch * a.last * a.outputs : got.size());
    const std::size_t before = got.size() - wanted.size();
    double difference = 0, largest = 0;
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      const double off = std::abs(got[before + i] - wanted[i]);
      difference = std::isfinite(off) ? std::max(difference, off) : std::numeric_limits<double>::infinity();
      largest = std::max(largest, std::abs(wanted[i]));
    }
    if (!std::isfinite(difference)) return difference;
    return largest > 0 ? difference / largest : difference;
  };
  return file.precision == DataType::f32 ? compare(runtime_answers<float>(file, input))
                                         : compare(runtime_answers<double>(file, input));
}

}  // namespace rtf
