// stream MODEL: a sample a line in, an answer a line out.
#include <rtf/error.h>
#include <rtf/stream.h>

#include <cstdint>
#include <cstdio>
#include <iostream>
#include <vector>

namespace {

// Samples up to the end of the input; false for what is none.
template <class Number>
bool run(const rtf::stream::Model<float>& model) {
  rtf::stream::Streams<float> streams(model, 1);  // room for one
  const std::size_t stream = streams.join();
  std::vector<Number> sample(model.inputs());
  std::vector<float> answer(model.outputs());
  std::size_t got = 0;
  while (std::cin >> sample[got]) {
    if (++got < sample.size()) continue;
    got = 0;
    streams.step({&stream, 1}, std::span<const Number>(sample), answer);
    for (std::size_t o = 0; o < answer.size(); ++o)
      std::printf("%.9g%c", answer[o], o + 1 < answer.size() ? ' ' : '\n');
  }
  return std::cin.eof() && got == 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fputs("usage: stream MODEL < samples > answers\n", stderr);
    return 2;
  }
  try {
    const auto model = rtf::stream::Model<float>::load(argv[1]);
    const bool good = model.architecture().vocabulary > 0 ? run<std::int64_t>(model) : run<float>(model);
    if (good && std::fflush(stdout) == 0) return 0;
    std::fputs(good ? "stream: cannot write the answers\n" : "stream: the input ends with what is no sample\n", stderr);
  } catch (const rtf::Error& error) {
    std::fprintf(stderr, "stream: %s\n", error.what());
  }
  return 2;
}
