#include "rtf/npy.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "rtf/error.h"
#include "temporary_folder.h"

namespace rtf {
namespace {

using test::error_of;
using test::read_bytes;
using test::TemporaryFolder;
using test::write_bytes;

// A file with this dictionary as its header, unpadded, and these bytes as its values.
std::string npy(const std::string& header, const std::string& values, char version = 1) {
  std::string bytes = std::string("\x93NUMPY") + version + '\0';
  for (int i = 0; i < (version == 1 ? 2 : 4); ++i) bytes += static_cast<char>(header.size() >> (8 * i));
  return bytes + header + values;
}

std::string floats(std::initializer_list<float> values) {
  return {reinterpret_cast<const char*>(values.begin()), values.size() * sizeof(float)};
}

TEST(Npy, KeepsEveryBitOfDoubles) {
  TemporaryFolder folder;
  const Array array{
      {2, 3}, {0.1, -0.0, 1e-310, std::numeric_limits<double>::infinity(), 3, std::nextafter(1.0, 2.0)}, DataType::f64};
  write_npy(folder.file("x.npy"), array);
  const Array back = read_npy(folder.file("x.npy"));
  EXPECT_EQ(back.shape, array.shape);
  EXPECT_EQ(back.values, array.values);
  EXPECT_TRUE(std::signbit(back.values[1]));
  EXPECT_EQ(back.type, DataType::f64);
}

TEST(Npy, RoundTripsEveryNumberOfDimensions) {
  TemporaryFolder folder;
  for (const std::vector<std::size_t>& shape :
       std::vector<std::vector<std::size_t>>{{}, {1}, {7}, {3, 0}, {1, 2, 3}, {2, 1, 1, 2}}) {
    std::size_t count = 1;
    for (const std::size_t size : shape) count *= size;
    Array array{shape, std::vector<double>(count), DataType::f32};
    for (std::size_t i = 0; i < count; ++i) array.values[i] = static_cast<float>(std::sin(i + 1.0));
    write_npy(folder.file("x.npy"), array);
    const Array back = read_npy(folder.file("x.npy"));
    EXPECT_EQ(back.shape, shape);
    EXPECT_EQ(back.values, array.values);
    EXPECT_EQ(back.type, DataType::f32);
  }
}

TEST(Npy, AlignsTheValuesTo64Bytes) {
  TemporaryFolder folder;
  for (std::size_t n = 1; n < 2'000'000; n *= 10) {
    write_npy(folder.file("x.npy"), {{n}, std::vector<double>(n), DataType::f32});
    EXPECT_EQ((read_bytes(folder.file("x.npy")).size() - 4 * n) % 64, 0u);
  }
}

TEST(Npy, ReadsAllHeaderVersionsAndSpellings) {
  TemporaryFolder folder;
  const std::string path = folder.file("x.npy"), values = floats({1, 2});
  for (const char version : {1, 2, 3}) {
    write_bytes(path, npy("{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }  \n", values, version));
    EXPECT_EQ(read_npy(path).values, (std::vector<double>{1, 2}));
  }
  write_bytes(path, npy("{\"shape\":(1L,2L),\"fortran_order\":False,\"descr\":\"<f4\"}", values));
  EXPECT_EQ(read_npy(path).shape, (std::vector<std::size_t>{1, 2}));
}

TEST(Npy, TransposesFortranOrder) {
  TemporaryFolder folder;
  write_bytes(folder.file("x.npy"),
              npy("{'descr': '<f4', 'fortran_order': True, 'shape': (2, 3)}", floats({11, 21, 12, 22, 13, 23})));
  EXPECT_EQ(read_npy(folder.file("x.npy")).values, (std::vector<double>{11, 12, 13, 21, 22, 23}));
}

TEST(Npy, RefusesWhatItCannotRead) {
  TemporaryFolder folder;
  const std::string path = folder.file("x.npy"), two = floats({1, 2});
  const auto message = [&](const std::string& bytes) {
    write_bytes(path, bytes);
    return error_of([&] { read_npy(path); });
  };
  const auto header = [](const std::string& descr, const std::string& shape) {
    return "{'descr': '" + descr + "', 'fortran_order': False, 'shape': " + shape + "}";
  };
  const auto expect = [&](const std::string& bytes, const std::string& part) {
    const std::string text = message(bytes);
    EXPECT_NE(text.find(part), std::string::npos) << text;
    EXPECT_EQ(text.rfind("[rtf::read_npy] " + path, 0), 0u) << text;
  };
  expect("", "not an npy file");
  expect(npy(header("<f4", "(2,)"), two, 9), "version 9");
  expect(npy(header(">f4", "(2,)"), two), "'>f4'");
  expect(npy(header("<i8", "(1,)"), two), "'<i8'");
  expect(npy(header("<f4", "(3,)"), two), "truncated");
  expect(npy(header("<f4", "(1,)"), two), "trailing");
  expect(npy(header("<f4", "(-2,)"), two), "shape");
  expect(npy(header("<f4", "(99999999999999999999,)"), two), "too large");
  expect(npy(header("<f4", "(4294967296, 4294967296)"), two), "too large");
  expect(npy(header("<f4", "(4294967296, 4294967296, 0)"), ""), "too large");
  expect(npy(header("<f8", "(4611686018427387904,)"), two), "too large");
  expect(npy("{'descr': '<f4', 'shape': (2,)}", two), "fortran_order");
  expect(npy("{'descr': [('x', '<f4')], 'fortran_order': False, 'shape': (2,)}", two), "fields");
  expect(std::string("\x93NUMPY\x02\x00\xff\xff\xff\xff", 12) + two, "4294967295 bytes");
  expect(npy(header("<f4", "(2,)") + '\0' + "more", two), "text after");
  // Nothing that a terminal would obey, and nothing without end.
  expect(npy("{'\x1b[2J\n': 1}", two), "unexpected key '?[2J?'");
  expect(npy("{'" + std::string(5000, 'k') + "': 1}", two), "key '" + std::string(40, 'k') + "...'");
  expect(npy(header("\xff\r", "(2,)"), two), "data type '?\?'");
  // A Fortran array of very many dimensions would take time for each of them with every value.
  std::string ones;
  for (int i = 0; i < 65; ++i) ones += "1, ";
  expect(npy(header("<f4", "(2, " + ones + ")"), two), "more than 64 dimensions");
  expect(npy(header("<f4", "(2, " + ones.substr(0, 3 * 63) + "2)"), two), "more than 64 dimensions");
  expect(npy(header("<f4", "(3, " + ones.substr(0, 3 * 63) + ")"), two),
         "truncated: shape (3, 1, 1, 1, 1, 1, 1, 1, ...)");
}

TEST(Npy, WritesNothingThatIsWrong) {
  TemporaryFolder folder;
  EXPECT_NE(error_of([&] {
              write_npy(folder.file("x.npy"), {{3}, {1, 2}, DataType::f64});
            }).find("(3)"),
            std::string::npos);
  EXPECT_NE(error_of([&] {
              write_npy(folder.file("x.npy"), {{1}, {1e300}, DataType::f32});
            }).find("1e+300"),
            std::string::npos);
  EXPECT_NE(error_of([&] {
              write_npy(folder.file("no/x.npy"), {{1}, {1}, DataType::f64});
            }).find("cannot write"),
            std::string::npos);
  EXPECT_NE(error_of([&] { write_npy("/dev/full", {{1}, {1}, DataType::f64}); }).find("/dev/full"), std::string::npos);
  EXPECT_NE(error_of([&] {
              write_npy(folder.file("x.npy"), {std::vector<std::size_t>(65, 1), {1}, DataType::f64});
            }).find("65 dimensions"),
            std::string::npos);
  EXPECT_EQ(folder.file_count(), 0u);
}

TEST(Npy, RefusesAFileWithHolesThatNoMemoryHolds) {
  TemporaryFolder folder;
  const std::string path = folder.file("x.npy");
  write_bytes(path, npy("{'descr': '<f4', 'fortran_order': False, 'shape': (2,)}", floats({1, 2})));
  std::error_code error;
  std::filesystem::resize_file(path, std::uintmax_t{1} << 43, error);
  if (error) GTEST_SKIP() << "this file system has no files so large";
  EXPECT_NE(error_of([&] { read_npy(path); }).find("has 8796 GB, this machine has"), std::string::npos);
}

TEST(Npy, ReplacesAFileWholeAndKeepsItsLinkAndMode) {
  TemporaryFolder folder;
  const std::string path = folder.file("x.npy"), link = folder.file("link.npy");
  write_npy(path, {{1}, {1}, DataType::f64});
  std::filesystem::permissions(path, std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
  std::filesystem::create_symlink(path, link);
  write_npy(link, {{1}, {2}, DataType::f64});
  EXPECT_TRUE(std::filesystem::is_symlink(link));
  EXPECT_EQ(read_npy(path).values[0], 2);
  EXPECT_EQ(std::filesystem::status(path).permissions(),
            std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
  EXPECT_EQ(folder.file_count(), 2u);
}

TEST(Npy, SurvivesDamage) {
  TemporaryFolder folder;
  const std::string path = folder.file("x.npy");
  write_npy(path, {{2, 3}, {1, 2, 3, 4, 5, 6}, DataType::f64});
  test::expect_survives_damage(read_bytes(path), path, [](const std::string& p) { read_npy(p); });
}

}  // namespace
}  // namespace rtf
