// write_models FOLDER [COUNT]: model files for the tests of the C functions, which cannot write any. Named ones for
// c_api_test.c; and random ones with inputs, what the runtime answers through C++, and what plain double arithmetic
// does: random_<i>.safetensors and answers_<i>.safetensors.
#include <cstdio>
#include <cstdlib>
#include <string>

#include "random_model.h"
#include "rtf/safetensors.h"
#include "rtf/stream.h"

namespace rtf::testing {
namespace {

constexpr std::size_t length = 150;

Architecture numbers_architecture() {
  Architecture a;
  a.features = 2;
  a.channels = 20;
  a.layers = 2;
  a.decoder = Architecture::Decoder::position;
  a.outputs = 3;
  a.length = 100;
  return a;
}

void write_named(const std::string& folder) {
  RandomModels random(71);
  const auto write = [&](const char* name, const ModelFile& file) {
    write_model(folder + "/" + name + ".safetensors", file);
  };
  Architecture a = numbers_architecture();
  ModelFile numbers = random.model(a, DataType::f32);
  write("numbers", numbers);
  for (double& value : numbers.decoder[0].weight) value *= 2;  // the same recurrences, other answers
  write("louder", numbers);
  write("double", random.model(a, DataType::f64));
  a.decoder = Architecture::Decoder::pool;
  write("pool", random.model(a, DataType::f32));
  a.decoder = Architecture::Decoder::pair;
  write("pair", random.model(a, DataType::f32));
  a.vocabulary = 7;
  a.decoder = Architecture::Decoder::last;
  write("tokens", random.model(a, DataType::f32));
  a = numbers_architecture();
  a.bidirectional = true;
  write("both_directions", random.model(a, DataType::f32));
}

Array to_array(const Rows& rows) {
  Array array{{rows.size(), rows.empty() ? 0 : rows[0].size()}, {}, DataType::f64};
  for (const auto& row : rows) array.values.insert(array.values.end(), row.begin(), row.end());
  return array;
}

template <class T>
Rows stepped(const ModelFile& file, const Rows& x) {
  stream::Streams<T> streams{stream::Model<T>(file), 1};
  const std::size_t one[] = {streams.join()};
  Rows answers;
  for (const auto& sample : x) {
    std::vector<T> out(file.architecture.outputs);
    if (file.architecture.vocabulary > 0) {
      const std::int64_t token[] = {static_cast<std::int64_t>(sample[0])};
      streams.step(one, token, out);
    } else {
      streams.step(one, std::vector<T>(sample.begin(), sample.end()), out);
    }
    answers.emplace_back(out.begin(), out.end());
  }
  return answers;
}

void write_random(const std::string& folder, std::size_t number) {
  RandomModels random(1000 + number);
  Architecture a = random.architecture();
  a.bidirectional = number % 5 == 4;
  const DataType precision = number % 2 == 0 ? DataType::f32 : DataType::f64;
  const ModelFile file = random.model(a, precision, number % 10 == 0 ? 256 : 40);
  const auto draw = [&] {
    Rows x(length);
    for (auto& sample : x) {
      sample = a.vocabulary > 0 ? std::vector{static_cast<double>(random.integer(0, a.vocabulary - 1))}
                                : random.normals(a.features);
      round_to(precision, sample);
    }
    return x;
  };
  TensorFile answers_file;
  auto& tensors = answers_file.tensors;
  const Rows x = draw();
  tensors["in"] = to_array(x);
  if (a.decoder == Architecture::Decoder::pair) {
    const Rows second = draw();
    tensors["second"] = to_array(second);
    tensors["plain"] = to_array({pair_answer(file, x, second)});
  } else {
    tensors["plain"] = to_array(answers(file, x));
    if (!a.bidirectional)
      tensors["runtime"] = to_array(precision == DataType::f32 ? stepped<float>(file, x) : stepped<double>(file, x));
  }
  const std::string end = std::to_string(number) + ".safetensors";
  write_model(folder + "/random_" + end, file);
  write_safetensors(folder + "/answers_" + end, answers_file);
}

}  // namespace
}  // namespace rtf::testing

int main(int argc, char** argv) try {
  if (argc < 2 || argc > 3) {
    std::fputs("usage: write_models FOLDER [COUNT]\n", stderr);
    return 2;
  }
  rtf::testing::write_named(argv[1]);
  const auto count = argc == 3 ? std::strtoul(argv[2], nullptr, 10) : 0;
  for (std::size_t i = 0; i < count; ++i) rtf::testing::write_random(argv[1], i);
} catch (const std::exception& error) {
  std::fprintf(stderr, "write_models: %s\n", error.what());
  return 2;
}
