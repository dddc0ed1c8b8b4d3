#include "rtf/safetensors.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <cstring>

#include "rtf/error.h"
#include "temporary_folder.h"

namespace rtf {
namespace {

using test::error_of;
using test::read_bytes;
using test::TemporaryFolder;
using test::write_bytes;

// A file with this header text and `bytes` zero bytes of values.
std::string file_with(const std::string& header, std::size_t bytes) {
  const std::uint64_t length = header.size();
  std::string text(8, '\0');
  std::memcpy(text.data(), &length, 8);
  return text + header + std::string(bytes, '\0');
}

std::string tensor(const std::string& dtype, const std::string& shape, const std::string& offsets) {
  return R"({"dtype":")" + dtype + R"(","shape":)" + shape + R"(,"data_offsets":)" + offsets + "}";
}

TEST(Safetensors, RoundTripsTensorsAndMetadata) {
  TemporaryFolder folder;
  TensorFile file;
  file.tensors["weights"] = {{2, 2}, {0.1, -0.0, 1e-310, 4}, DataType::f64};
  file.tensors["half"] = {{3}, {0.5, 1, 2}, DataType::f32};
  file.tensors["scalar"] = {{}, {7}, DataType::f64};
  file.tensors["nothing"] = {{4, 0}, {}, DataType::f32};
  file.metadata = {{"length", "4096"}, {"note", "a \"quoted\" \n line"}};
  write_safetensors(folder.file("x.safetensors"), file);
  const TensorFile back = read_safetensors(folder.file("x.safetensors"));
  EXPECT_EQ(back.metadata, file.metadata);
  ASSERT_EQ(back.tensors.size(), file.tensors.size());
  for (const auto& [name, array] : file.tensors) {
    EXPECT_EQ(back.tensors.at(name).shape, array.shape) << name;
    EXPECT_EQ(back.tensors.at(name).values, array.values) << name;
    EXPECT_EQ(back.tensors.at(name).type, array.type) << name;
  }
  EXPECT_TRUE(std::signbit(back.tensors.at("weights").values[1]));
}

TEST(Safetensors, AcceptsAPaddedHeaderAndAnyOrderOfValues) {
  TemporaryFolder folder;
  const std::string path = folder.file("x.safetensors");
  write_bytes(path, file_with(R"({"a":)" + tensor("F32", "[1]", "[8,12]") + R"(,"b":)" + tensor("F64", "[1]", "[0,8]") +
                                  "}     ",
                              12));
  EXPECT_EQ(read_safetensors(path).tensors.size(), 2u);
  write_bytes(path, file_with("{}", 0));
  EXPECT_TRUE(read_safetensors(path).tensors.empty());
}

TEST(Safetensors, RefusesWhatItCannotRead) {
  TemporaryFolder folder;
  const std::string path = folder.file("x.safetensors");
  const auto expect = [&](const std::string& bytes, const std::string& part) {
    write_bytes(path, bytes);
    const std::string text = error_of([&] { read_safetensors(path); });
    EXPECT_NE(text.find(part), std::string::npos) << text;
    EXPECT_EQ(text.rfind("[rtf::read_safetensors] " + path, 0), 0u) << text;
    EXPECT_EQ(text.find('\n'), std::string::npos) << text;
  };
  const auto one = [&](const std::string& entry, std::size_t bytes) {
    return file_with(R"({"a":)" + entry + "}", bytes);
  };
  expect("", "truncated");
  expect("1234567", "truncated");
  expect(std::string("\xff\xff\xff\xff\xff\xff\xff\xff{}", 10), "claims 18446744073709551615 bytes");
  expect(std::string("\x03\0\0\0\0\0\0\0{}", 10), "claims 3 bytes");
  expect(file_with("[1]", 0), "expected an object");
  expect(file_with("{", 0), "not valid JSON");
  expect(file_with("\xff\xfe", 0), "not valid JSON");
  expect(file_with(std::string(100000, '['), 0), "nested");
  expect(file_with(R"({"a":1})", 0), "'a' is 1");
  expect(file_with(R"({"__metadata__":{"length":4}})", 0), "'length' is 4");
  expect(file_with(R"({"__metadata__":[]})", 0), "__metadata__");
  expect(one(R"({"dtype":"F32","shape":[1]})", 4), "no 'data_offsets'");
  expect(one(tensor("I64", "[1]", "[0,8]"), 8), "\"I64\"");
  expect(one(tensor("F32", "[-1]", "[0,4]"), 4), "-1");
  expect(one(tensor("F32", "[1.5]", "[0,4]"), 4), "1.5");
  expect(one(tensor("F32", "7", "[0,4]"), 4), "list of sizes");
  expect(one(tensor("F32", "[4294967296,4294967296]", "[0,4]"), 4), "too large");
  expect(one(tensor("F32", "[2]", "[0,4]"), 4), "needs 8 bytes");
  expect(one(tensor("F32", "[1]", "[4,0]"), 4), "outside");
  expect(one(tensor("F32", "[2]", "[0,8]"), 4), "outside");
  expect(one(tensor("F32", "[1]", "[0,4]"), 6), "trailing");
  expect(one(tensor("F32", "[1]", "[4,8]"), 8), "hole");
  const std::string first = tensor("F32", "[2]", "[0,8]");
  expect(file_with(R"({"a":)" + first + R"(,"b":)" + tensor("F32", "[2]", "[4,12]") + "}", 12), "overlap");
  expect(file_with(R"({"a":)" + first + R"(,"a":)" + first + "}", 8), "twice");
  // Nothing that a terminal would obey.
  expect(file_with(R"({"\u001b[2J\n":1})", 0), "'?[2J?' is 1");
  expect(file_with(R"({"__metadata__":{"\u0007":4}})", 0), "metadata '?' is 4");
  expect(file_with(R"({"\n":1,"\n":1})", 0), "key '?' appears twice");
  expect(file_with(R"({"\r":)" + tensor("F32", "[1]", "[4,8]") + "}", 8), "tensor '?' begins");
}

TEST(Safetensors, SurvivesDamage) {
  TemporaryFolder folder;
  const std::string path = folder.file("x.safetensors");
  TensorFile file;
  file.tensors["a"] = {{2, 2}, {1, 2, 3, 4}, DataType::f64};
  file.tensors["b"] = {{3}, {1, 2, 3}, DataType::f32};
  file.metadata["length"] = "16";
  write_safetensors(path, file);
  test::expect_survives_damage(read_bytes(path), path, [](const std::string& p) { read_safetensors(p); });
}

}  // namespace
}  // namespace rtf
