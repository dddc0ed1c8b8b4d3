// Which samples a task gives: the layout and statistics are checked from Python (test_tasks.py).
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include "data/record_file.h"
#include "temporary_folder.h"
#include "train/model_setup.h"
#include "train/task.h"

namespace rtf::train {
namespace {

using test::error_of;
using test::TemporaryFolder;

constexpr at::ScalarType in_double = at::kDouble;

Config small(const std::string& name) {
  Config config;
  config.task.name = name;
  config.task.symbols = 10;
  config.task.memory = 6;
  config.task.noise = 3;
  config.task.length = 48;
  config.task.lag = 7;
  config.task.window = 5;
  config.train.seed = 3;
  return config;
}

Batch draw(const Config& config, Split split, int64_t epoch, std::vector<int64_t> indices) {
  return make_task(config, in_double)->batch(split, epoch, indices);
}

class Generated : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Tasks, Generated, testing::Values("copying", "delay", "reconstruct"));

TEST_P(Generated, SampleDependsOnSeedEpochAndIndexAlone) {
  Config config = small(GetParam());
  const Batch one = draw(config, Split::train, 2, {5}), many = draw(config, Split::train, 2, {9, 5, 0});
  EXPECT_TRUE(at::equal(one.input[0], many.input[1]));
  EXPECT_TRUE(at::equal(one.target[0], many.target[1]));
  EXPECT_FALSE(at::equal(one.input, draw(config, Split::train, 3, {5}).input));
  EXPECT_FALSE(at::equal(one.input, draw(config, Split::val, 2, {5}).input));
  EXPECT_TRUE(at::equal(draw(config, Split::val, 2, {5}).input, draw(config, Split::val, 3, {5}).input));
  ++config.train.seed;
  EXPECT_FALSE(at::equal(one.input, draw(config, Split::train, 2, {5}).input));
}

TEST_P(Generated, ThreadsDoNotChangeABit) {
  const Config config = small(GetParam());
  const std::vector<int64_t> indices = {0, 1, 2, 3, 4, 5, 6, 7, 8};
  const int threads = at::get_num_threads();
  at::set_num_threads(1);
  const Batch one = draw(config, Split::train, 0, indices);
  at::set_num_threads(3);
  const Batch three = draw(config, Split::train, 0, indices);
  at::set_num_threads(threads);
  EXPECT_TRUE(at::equal(one.input, three.input));
  EXPECT_TRUE(at::equal(one.target, three.target));
}

TEST_P(Generated, PerfectAnswersScorePerfectly) {
  const Config config = small(GetParam());
  const auto task = make_task(config, in_double);
  nn::SequenceModelOptions model;
  task->shape(model);
  const Batch batch = draw(config, Split::val, 0, {0, 1});
  const bool classes = task->metrics()[0] == "accuracy";
  const at::Tensor output = classes ? 100 * at::one_hot(batch.target, model.outputs).to(at::kDouble) : batch.target;
  Tally tally;
  task->measure(output, batch, tally);
  const Score score = task->score(tally);
  EXPECT_LT(score.loss, 1e-12);
  EXPECT_EQ(score.metrics.at(0), classes ? 1.0 : 0.0);
}

TEST(Tasks, ScoresOfUnequalBatchesAddUpBySamples) {
  const Config config = small("delay");
  const auto task = make_task(config, in_double);
  const Batch all = draw(config, Split::val, 0, {0, 1, 2}), first = draw(config, Split::val, 0, {0}),
              rest = draw(config, Split::val, 0, {1, 2});
  Tally once, twice;
  task->measure(at::zeros_like(all.target), all, once);
  task->measure(at::zeros_like(first.target), first, twice);
  task->measure(at::zeros_like(rest.target), rest, twice);
  EXPECT_NEAR(task->score(once).metrics[0], task->score(twice).metrics[0], 1e-14);
  EXPECT_NEAR(task->score(once).metrics[0], std::sqrt(all.target.square().mean().item<double>()), 1e-14);
}

TEST(Tasks, ShapeFollowsTheTaskAndRefusesShortModels) {
  nn::SequenceModelOptions model;
  make_task(small("copying"), in_double)->shape(model);
  EXPECT_EQ(model.vocabulary, 10);
  EXPECT_EQ(model.last, 6);
  EXPECT_EQ(model.layer.length, 15);
  model.layer.length = 14;
  EXPECT_NE(error_of([&] { make_task(small("copying"), in_double)->shape(model); }).find("model.length is 14"),
            std::string::npos);
  model.layer.length = 20;  // longer is no mistake
  make_task(small("copying"), in_double)->shape(model);
  EXPECT_EQ(model.layer.length, 20);
}

TEST(Tasks, MissingDataNameTheKey) {
  const auto message = [](auto change) {
    Config config = small("smnist");
    change(config);
    return error_of([&] { make_task(config, in_double); });
  };
  const auto expect = [](const std::string& text, const std::string& part) {
    EXPECT_NE(text.find(part), std::string::npos) << text;
  };
  expect(message([](Config&) {}), "data.path is empty");
  expect(message([](Config& c) { c.data.path = "/nonexistent"; }), "'/nonexistent'");
}

// Idx files of 4 x 5 images; image i has the pixels i, i + 1, ... and the label i mod 10.
class SmallMnist : public testing::Test {
 protected:
  static std::string number(uint32_t value) {
    return {static_cast<char>(value >> 24), static_cast<char>(value >> 16), static_cast<char>(value >> 8),
            static_cast<char>(value)};
  }
  static std::string images(uint32_t count) {
    std::string bytes = number(0x803) + number(count) + number(4) + number(5);
    for (uint32_t i = 0; i < count; ++i)
      for (uint32_t p = 0; p < 20; ++p) bytes += static_cast<char>(i + p);
    return bytes;
  }
  static std::string labels(uint32_t count) {
    std::string bytes = number(0x801) + number(count);
    for (uint32_t i = 0; i < count; ++i) bytes += static_cast<char>(i % 10);
    return bytes;
  }
  void write(const std::string& name, const std::string& bytes, bool zipped = false) {
    std::filesystem::remove(folder_.file(name));
    std::filesystem::remove(folder_.file(name + ".gz"));
    if (!zipped) return test::write_bytes(folder_.file(name), bytes);
    gzFile file = gzopen(folder_.file(name + ".gz").c_str(), "wb");
    gzwrite(file, bytes.data(), static_cast<unsigned>(bytes.size()));
    gzclose(file);
  }
  void SetUp() override {
    write("train-images-idx3-ubyte", images(24));
    write("train-labels-idx1-ubyte", labels(24), true);
    write("t10k-images-idx3-ubyte", images(6), true);
    write("t10k-labels-idx1-ubyte", labels(6));
    config_.task.name = "smnist";
    config_.data.path = folder_.file("");
  }
  std::string refusal() {
    return error_of([&] { make_task(config_, in_double); });
  }

  TemporaryFolder folder_;
  Config config_;
};

TEST_F(SmallMnist, SplitsAndScaling) {
  const auto task = make_task(config_, in_double);
  EXPECT_EQ(task->size(Split::train), 22);
  EXPECT_EQ(task->size(Split::val), 2);
  EXPECT_EQ(task->size(Split::test), 6);
  const Batch batch = draw(config_, Split::val, 0, {1});  // image 23
  ASSERT_EQ(batch.input.sizes(), at::IntArrayRef({1, 20, 1}));
  EXPECT_TRUE(at::allclose(batch.input.flatten(), at::arange(23, 43, in_double) / 255, 1e-15, 0));
  EXPECT_EQ(batch.target.item<int64_t>(), 3);
}

TEST_F(SmallMnist, PermutationIsOneForAllSamplesSplitsAndSeeds) {
  const at::Tensor plain = draw(config_, Split::train, 0, {0}).input.flatten();
  config_.task.permuted = true;
  const at::Tensor order = draw(config_, Split::train, 0, {0}).input.flatten();
  EXPECT_FALSE(at::equal(order, plain));
  EXPECT_TRUE(at::equal(std::get<0>(order.sort()), plain));
  ++config_.train.seed;
  EXPECT_TRUE(at::allclose(draw(config_, Split::test, 1, {4}).input.flatten(), order + 4.0 / 255, 0, 1e-15));
}

TEST_F(SmallMnist, DamagedFilesAreRefused) {
  const auto expect = [&](const std::string& part) {
    const std::string message = refusal();
    EXPECT_NE(message.find(part), std::string::npos) << message;
    EXPECT_EQ(message.find('\n'), std::string::npos) << message;
  };
  const std::string good = images(24), name = "train-images-idx3-ubyte";
  write(name, good.substr(0, good.size() - 1));
  expect("truncated: its header (24, 4, 5) promises 480 bytes, it has 479");
  write(name, good.substr(0, 10));
  expect("truncated: the header");
  write(name, "");
  expect("truncated: the header");
  write(name, good + "x");
  expect("more than the 480 bytes");
  write(name, labels(24));
  expect("begins with 0x00000801, expected 0x00000803");
  write(name, number(0x803) + number(~0u) + number(~0u) + number(~0u));
  expect("its header gives the sizes");
  write(name, number(0x803) + number(~0u) + number(4) + number(5));
  expect("truncated");
  write(name, images(23));
  expect("holds 23 images");
  write(name, good);
  write("t10k-labels-idx1-ubyte", number(0x801) + number(6) + std::string(6, 10));
  expect("the label 10");
  std::filesystem::remove(folder_.file("t10k-labels-idx1-ubyte"));
  expect("neither t10k-labels-idx1-ubyte nor t10k-labels-idx1-ubyte.gz");
}

TEST_F(SmallMnist, DamagedGzipIsRefused) {
  const std::string path = folder_.file("t10k-images-idx3-ubyte.gz");
  const std::string good = test::read_bytes(path);
  test::write_bytes(path, good.substr(0, good.size() - 9));
  EXPECT_NE(refusal().find("truncated"), std::string::npos) << refusal();
  test::write_bytes(path, good.substr(0, good.size() - 3));  // all values are there, the checksum is not
  EXPECT_NE(refusal().find("truncated"), std::string::npos) << refusal();
  std::string flipped = good;
  flipped[flipped.size() - 6] = static_cast<char>(flipped[flipped.size() - 6] ^ 1);  // in the checksum
  test::write_bytes(path, flipped);
  EXPECT_NE(refusal().find("damaged"), std::string::npos) << refusal();
}

// The configs of the Long Range Arena on data that have the right sizes, but few samples.
int64_t parameters(const std::string& name, const std::string& data) {
  const Config config = load_config(std::string(RTF_EXPERIMENTS) + "/lra/" + name + ".yaml", {"data.path=" + data});
  const auto task = make_task(config, at::kFloat);
  int64_t count = 0;
  for (const auto& parameter : make_model(config, *task, at::kCPU)->parameters()) count += parameter.numel();
  return count;
}

TEST(Arena, ModelsHaveTheParametersOfTheExperiments) {
  const TemporaryFolder folder;
  for (const char* split : {"train", "val", "test"}) {
    test::write_bytes(folder.file(std::string("basic_") + split + ".tsv"),
                      "Source\tTarget\n( [MIN [MAX [MED [SM 0 1 2 3 4 5 6 7 8 9 ] )\t3\n");
  }
  EXPECT_EQ(parameters("listops", folder.file("")), 815'162);
  test::write_bytes(folder.file("train.bin"), std::string(10 * 1025, '\1'));
  test::write_bytes(folder.file("test.bin"), std::string(1025, '\1'));
  EXPECT_EQ(parameters("image", folder.file("")), 3'564'298);
  for (const auto& [name, side, count] :
       {std::tuple("pathfinder", 32, 1'190'402), std::tuple("pathx", 128, 13'380'098)}) {
    data::RecordInfo info;
    info.rows = info.columns = static_cast<std::size_t>(side);
    info.classes = 2;
    info.counts = {1, 1, 1};
    data::RecordWriter writer(folder.file(std::string(name) + ".records"), info);
    const std::vector<std::uint8_t> pixels(info.rows * info.columns);
    for (int i = 0; i < 3; ++i) writer.add_image(pixels, 1);
    writer.commit();
    EXPECT_EQ(parameters(name, folder.file("")), count);
  }
  // Of another size.
  const std::string line = error_of([&] { parameters("pathx", folder.file("pathfinder.records")); });
  EXPECT_NE(line.find("pathfinder.records: not images of 128 x 128"), std::string::npos) << line;
}

}  // namespace
}  // namespace rtf::train
