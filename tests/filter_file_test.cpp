#include "rtf/filter_file.h"

#include <gtest/gtest.h>

#include <bit>
#include <cstdint>
#include <random>

#include "rtf/error.h"
#include "rtf/safetensors.h"
#include "temporary_folder.h"

namespace rtf {
namespace {

using test::error_of;
using test::read_bytes;
using test::TemporaryFolder;
using test::write_bytes;

std::vector<std::uint64_t> bits(const std::vector<double>& values) {
  std::vector<std::uint64_t> result;
  for (const double value : values) result.push_back(std::bit_cast<std::uint64_t>(value));
  return result;
}

void expect_same(const Coefficients& x, const Coefficients& y) {
  EXPECT_EQ(x.channels, y.channels);
  EXPECT_EQ(x.groups, y.groups);
  EXPECT_EQ(x.order, y.order);
  EXPECT_EQ(bits(x.a), bits(y.a));
  EXPECT_EQ(bits(x.b), bits(y.b));
  EXPECT_EQ(bits(x.h0), bits(y.h0));
}

// Any finite bit pattern: subnormals, huge values and both zeros.
void randomize(std::vector<double>& values, std::mt19937_64& random) {
  for (double& value : values) {
    do value = random() % 8 == 0 ? -0.0 : std::bit_cast<double>(random());
    while (!std::isfinite(value));
  }
}

TEST(FilterFile, RoundTripsEveryBit) {
  TemporaryFolder folder;
  std::mt19937_64 random(3);
  for (const char* name : {"f.json", "f.safetensors"}) {
    for (int round = 0; round < 50; ++round) {
      const std::size_t groups = 1 + random() % 3, channels = groups * (1 + random() % 3), order = random() % 5;
      auto trained = make_coefficients<TrainedTransferFunction>(channels, groups, order);
      randomize(trained.a, random);
      randomize(trained.b, random);
      randomize(trained.h0, random);
      trained.length = 1 + random() % 10000;
      write_filter(folder.file(name), trained);
      const auto back = read_filter(folder.file(name));
      ASSERT_TRUE(std::holds_alternative<TrainedTransferFunction>(back));
      expect_same(std::get<TrainedTransferFunction>(back), trained);
      EXPECT_EQ(std::get<TrainedTransferFunction>(back).length, trained.length);

      TransferFunction plain{static_cast<const Coefficients&>(trained)};
      write_filter(folder.file(name), plain);
      const auto plain_back = read_filter(folder.file(name));
      ASSERT_TRUE(std::holds_alternative<TransferFunction>(plain_back));
      expect_same(std::get<TransferFunction>(plain_back), plain);
    }
  }
}

TEST(FilterFile, WritesOneRowALine) {
  TemporaryFolder folder;
  auto tf = make_coefficients(2, 1, 2);
  tf.a = {0.5, -0.25};
  tf.b = {1, 2, 3, 4};
  tf.h0 = {0.1, -0.0};
  write_filter(folder.file("f.json"), tf);
  EXPECT_EQ(
      read_bytes(folder.file("f.json")),
      "{\n  \"a\": [\n    [0.5, -0.25]\n  ],\n  \"b\": [\n    [1, 2],\n    [3, 4]\n  ],\n  \"h0\": [0.1, -0.0]\n}\n");
}

TEST(FilterFile, ReadsFlatListsAndOrderZero) {
  TemporaryFolder folder;
  const std::string path = folder.file("f.json");
  const auto read = [&](const std::string& text) {
    write_bytes(path, text);
    return std::get<TransferFunction>(read_filter(path));
  };
  for (const char* h0 : {"3", "[3]"}) {
    const auto tf = read(R"({"a": [0.5, 0.25], "b": [1, 2], "h0": )" + std::string(h0) + "}");
    EXPECT_EQ(tf.channels, 1u);
    EXPECT_EQ(tf.groups, 1u);
    EXPECT_EQ(tf.order, 2u);
    EXPECT_EQ(tf.h0, (std::vector<double>{3}));
  }
  EXPECT_EQ(read(R"({"a": [0.5], "b": [[1], [2]], "h0": [0, 0]})").channels, 2u);
  EXPECT_EQ(read(R"({"a": [], "b": [], "h0": [1, 2, 3]})").channels, 3u);
  EXPECT_EQ(read(R"({"a": [], "b": [[], []], "h0": [1, 2]})").order, 0u);
  EXPECT_EQ(read(R"({"a": [[], []], "b": [], "h0": [1, 2, 3, 4]})").groups, 2u);
  EXPECT_EQ(read(R"({"a": [], "b": [], "h0": 2})").channels, 1u);
}

TEST(FilterFile, ReadsFloat32AndFlatTensorsAndForeignMetadata) {
  TemporaryFolder folder;
  TensorFile file;
  file.tensors["a"] = {{2}, {0.5, 0.25}, DataType::f32};
  file.tensors["b"] = {{2}, {1, 2}, DataType::f64};
  file.tensors["h0"] = {{}, {3}, DataType::f32};
  file.metadata = {{"format", "pt"}, {"length", "64"}};
  write_safetensors(folder.file("f.safetensors"), file);
  const auto tf = std::get<TrainedTransferFunction>(read_filter(folder.file("f.safetensors")));
  EXPECT_EQ(tf.length, 64u);
  EXPECT_EQ(tf.a, (std::vector<double>{0.5, 0.25}));
  EXPECT_EQ(tf.channels, 1u);
}

TEST(FilterFile, RefusesWhatDoesNotFit) {
  TemporaryFolder folder;
  const std::string path = folder.file("f.json");
  const auto expect = [&](const std::string& text, const std::string& part) {
    write_bytes(path, text);
    const std::string message = error_of([&] { read_filter(path); });
    EXPECT_NE(message.find(part), std::string::npos) << message;
    EXPECT_EQ(message.rfind("[rtf::read_filter] " + path, 0), 0u) << message;
    EXPECT_EQ(message.find('\n'), std::string::npos) << message;
  };
  expect("", "not valid JSON");
  expect(R"({"a": [0.5], "b": [1])", "not valid JSON");
  expect("[]", "expected an object");
  expect(R"({"a": [0.5], "b": [1]})", "'h0'");
  expect(R"({"a": [0.5], "b": [1], "h0": 1, "gain": 2})", "'gain'");
  expect(R"({"a": [0.5], "a": [0.6], "b": [1], "h0": 1})", "twice");
  expect(R"({"a": [NaN], "b": [1], "h0": 1})", "not valid JSON");
  expect(R"({"a": [1e999], "b": [1], "h0": 1})", "1e999");
  expect(R"({"a": ["x"], "b": [1], "h0": 1})", "a[0] is \"x\"");
  expect(R"({"a": [0.5, [1]], "b": [1, 2], "h0": 1})", "a[1]");
  expect(R"({"a": [[1, 2], [3]], "b": [[1, 2], [3, 4]], "h0": [1, 1]})", "a[1] has 1 values");
  expect(R"({"a": [0.5], "b": [1, 2], "h0": 1})", "order 1");
  expect(R"({"a": [[1], [2]], "b": [[1], [2], [3]], "h0": [1, 2, 3]})", "divide");
  expect(R"({"a": [1], "b": [[1], [2]], "h0": [1, 2, 3]})", "2 rows");
  expect(R"({"a": [], "b": [], "h0": []})", "h0 is empty");
  for (const char* length : {"0", "-1", "1.5", "1e300", "99999999999999999999", "\"64\"", "null", "true"}) {
    expect(R"({"a": [0.5], "b": [1], "h0": 1, "length": )" + std::string(length) + "}", "length is ");
  }
  expect(std::string(1000000, '['), "nested");
  expect(std::string(R"({"a": [], "b": [], "h0": 1})") + '\0' + "more", "byte 27 is 0");
  // Nothing that a terminal would obey.
  expect(R"({"\u001b[2J\n": 1})", "unknown key '?[2J?'");
  expect(R"({"form": "ba", "channels": [{"\u0007": 1}]})", "unknown key 'channels[0].?'");
  EXPECT_NE(error_of([&] { read_filter(folder.file("none.json")); }).find("No such file"), std::string::npos);
  EXPECT_NE(error_of([&] { read_filter("/tmp"); }).find("folder"), std::string::npos);
}

TEST(FilterFile, RefusesTensorsThatDoNotFit) {
  TemporaryFolder folder;
  const std::string path = folder.file("f.safetensors");
  const auto expect = [&](const std::function<void(TensorFile&)>& change, const std::string& part) {
    TensorFile file;
    file.tensors["a"] = {{1, 1}, {0.5}, DataType::f64};
    file.tensors["b"] = {{1, 1}, {1}, DataType::f64};
    file.tensors["h0"] = {{1}, {1}, DataType::f64};
    change(file);
    write_safetensors(path, file);
    const std::string message = error_of([&] { read_filter(path); });
    EXPECT_NE(message.find(part), std::string::npos) << message;
  };
  expect([](TensorFile& f) { f.tensors.erase("h0"); }, "'h0'");
  expect([](TensorFile& f) { f.tensors["c"] = f.tensors["b"]; }, "'c'");
  expect([](TensorFile& f) { f.tensors["a"].shape = {1, 1, 1}; }, "(1, 1, 1)");
  expect([](TensorFile& f) { f.tensors["a"].shape.assign(1000, 1); }, "(1, 1, 1, 1, 1, 1, 1, 1, ...)");
  expect([](TensorFile& f) { f.tensors["h0"].shape = {1, 1}; }, "(1, 1)");
  expect([](TensorFile& f) { f.tensors["b"].values[0] = 0.0 / 0.0; }, "nan");
  for (const char* length : {"", "0", "-4", "4.5", "4x", " 4", "99999999999999999999"}) {
    expect([&](TensorFile& f) { f.metadata["length"] = length; }, "length is ");
  }
}

// One channel of every form, and systems of several inputs and outputs.
std::vector<AnyFilter> every_form() {
  const PolynomialRatio ba{{1, 2, -0.0}, {2, 0.1}};
  const StateSpace ss{2, 1, 1, {0.5, 1e-300, 0, 0.25}, {1, 2}, {3, 4}, {0.1}}, gain{0, 1, 1, {}, {}, {}, {2}};
  const Modal modal{{{0.5, 0.25}, {0.5, -0.25}, -0.1}, {{1, 2}, {1, -2}, 3}, 0.5};
  const ZeroPoleGain zpk{{}, {0.1, {0, 0.3}, {0, -0.3}}, 2, 0.3};
  const SecondOrderSections sos{{{1, 2, 3, 1, 0.5, 0.25}, {1, 0, 0, 2, 0, 0}}};
  using Systems = std::vector<System>;
  return {Systems{ba},
          Systems{ba, ba, ba},
          Systems{ss},
          Systems{gain},
          Systems{ss, gain},
          Systems{modal},
          Systems{modal, Modal{}},
          Systems{zpk},
          Systems{zpk, ZeroPoleGain{}},
          Systems{sos},
          Systems{sos, sos},
          StateSpace{1, 2, 3, {0.5}, {1, 2}, {3, 4, 5}, {1, 2, 3, 4, 5, 6}},
          StateSpace{0, 2, 1, {}, {}, {}, {1, 2}},
          MimoTransferFunction{2, 1, 2, {0.5, 0.25}, {1, 2, 3, 4}, {5, 6}},
          MimoTransferFunction{2, 2, 0, {}, {}, {1, 2, 3, 4}}};
}

TEST(FilterFile, EveryFormReadsBackAsItWasWritten) {
  TemporaryFolder folder;
  for (const AnyFilter& filter : every_form()) {
    write_any_filter(folder.file("f.json"), filter);
    const std::string text = read_bytes(folder.file("f.json"));
    const AnyFilter back = read_any_filter(folder.file("f.json"));
    ASSERT_EQ(back.index(), filter.index()) << text;
    write_any_filter(folder.file("g.json"), back);
    EXPECT_EQ(read_bytes(folder.file("g.json")), text);
    if (const auto* systems = std::get_if<std::vector<System>>(&filter)) {
      const auto& read = std::get<std::vector<System>>(back);
      ASSERT_EQ(read.size(), systems->size());
      for (std::size_t c = 0; c < read.size(); ++c)
        EXPECT_EQ(bits(kernel(read[c], 20)), bits(kernel((*systems)[c], 20)));
      const auto tf = std::get<TransferFunction>(read_filter(folder.file("f.json")));
      EXPECT_EQ(tf.channels, systems->size());
    } else {
      EXPECT_NE(error_of([&] { read_filter(folder.file("f.json")); }).find("inputs and"), std::string::npos);
    }
    EXPECT_NE(error_of([&] { write_any_filter(folder.file("f.safetensors"), filter); }).find("JSON"),
              std::string::npos);
  }
  EXPECT_EQ(folder.file_count(), 2u);
}

TEST(FilterFile, FormTfIsTheFileWithoutForm) {
  TemporaryFolder folder;
  write_bytes(folder.file("f.json"), R"({"form": "tf", "a": [0.5], "b": [1], "h0": 2, "length": 8})");
  EXPECT_EQ(std::get<TrainedTransferFunction>(read_filter(folder.file("f.json"))).length, 8u);
}

TEST(FilterFile, DamagedFormsAreRefused) {
  TemporaryFolder folder;
  for (const AnyFilter& filter : every_form()) {
    write_any_filter(folder.file("f.json"), filter);
    test::expect_survives_damage(
        read_bytes(folder.file("f.json")), folder.file("f.json"),
        [](const std::string& path) { read_any_filter(path); }, 300);
  }
}

TEST(FilterFile, SurvivesDamage) {
  TemporaryFolder folder;
  auto tf = make_coefficients<TrainedTransferFunction>(2, 1, 2);
  tf.a = {0.5, -0.25};
  tf.b = {1, 2, 3, 4};
  tf.length = 16;
  for (const char* name : {"f.json", "f.safetensors"}) {
    write_filter(folder.file(name), tf);
    test::expect_survives_damage(read_bytes(folder.file(name)), folder.file(name),
                                 [](const std::string& path) { read_filter(path); });
  }
}

}  // namespace
}  // namespace rtf
