// stream MODEL: a sample a line in, an answer a line out.
#include <rtf/error.h>
#include <rtf/stream.h>

#include <cstdint>
#include <cstdio>
#include <iostream>
#include <vector>

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fputs("usage: stream MODEL < samples > answers\n", stderr);
    return 2;
  }
  try {
    const auto model = rtf::stream::Model<float>::load(argv[1]);
    rtf::stream::Streams<float> streams(model, 1);  // room for one
    const std::size_t stream = streams.join();
    std::vector<float> sample(model.inputs()), answer(model.outputs());
    const auto print = [&] {
      for (const float number : answer) std::printf("%.9g ", number);
      std::puts("");
    };
    if (model.architecture().vocabulary > 0) {
      for (std::int64_t token; std::cin >> token;) {
        streams.step({&stream, 1}, {&token, 1}, answer);
        print();
      }
    } else {
      for (std::size_t got = 0; std::cin >> sample[got];) {
        if (++got < sample.size()) continue;
        got = 0;
        streams.step({&stream, 1}, std::span<const float>(sample), answer);
        print();
      }
    }
  } catch (const rtf::Error& error) {
    std::fprintf(stderr, "stream: %s\n", error.what());
    return 2;
  }
}
