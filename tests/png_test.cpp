// PNG files: back as they were written, refused in one line where they are not what they should be.
#include "data/png.h"

#include <gtest/gtest.h>

#include <random>

#include "expect_refusal.h"
#include "temporary_folder.h"

namespace rtf::data {
namespace {

using rtf::test::TemporaryFolder;
using rtf::testing::expect_refusal;

Picture random_picture(std::mt19937& random, std::size_t channels = 1) {
  Picture picture{1 + random() % 40, 1 + random() % 40, channels, {}};
  picture.pixels.resize(picture.rows * picture.columns * channels);
  for (auto& pixel : picture.pixels) pixel = static_cast<std::uint8_t>(random());
  return picture;
}

TEST(Png, ComesBackAsItWasWritten) {
  const TemporaryFolder folder;
  std::mt19937 random(1);
  for (int round = 0; round < 20; ++round) {
    const Picture picture = random_picture(random);
    write_png(folder.file("p.png"), picture);
    const Picture back = read_png(folder.file("p.png"));
    EXPECT_EQ(back.rows, picture.rows);
    EXPECT_EQ(back.columns, picture.columns);
    EXPECT_EQ(back.pixels, picture.pixels);
  }
  EXPECT_EQ(folder.file_count(), 1u);
}

TEST(Png, RefusesWhatIsNoGreyPicture) {
  const TemporaryFolder folder;
  const std::string path = folder.file("p.png");
  std::mt19937 random(2);
  test::write_bytes(path, "");
  expect_refusal("[rtf::read_png] " + path + " is empty", [&] { read_png(path); });
  test::write_bytes(path, "GIF89a and more bytes than eight");
  expect_refusal(path + " is no grey PNG", [&] { read_png(path); });
  test::write_bytes(path, encode_png(random_picture(random, 3)));
  expect_refusal("it has colours", [&] { read_png(path); });
  expect_refusal("cannot read", [&] { read_png(folder.file("none.png")); });
  expect_refusal("a picture has 3 values; 4 are needed", [&] { encode_png({2, 2, 1, {1, 2, 3}}); });
  const std::string bytes = encode_png(random_picture(random));
  for (std::size_t size = 1; size < bytes.size(); ++size)
    expect_refusal(path + (size < 8 ? "" : " is no grey PNG picture that can be read: it is truncated"),
                   [&] { decode_png(bytes.substr(0, size), path); });
  // Chunks and sizes that say more than the file has.
  std::string lying = bytes;
  lying.insert(33, std::string("\x10\0\0\0zTXt", 8));
  expect_refusal("it is truncated", [&] { decode_png(lying, path); });
  EXPECT_EQ(decode_png(bytes + "more", path).pixels, decode_png(bytes, path).pixels);
  Picture flat{3000, 3000, 1, std::vector<std::uint8_t>(3000 * 3000)};
  EXPECT_EQ(decode_png(encode_png(flat), path).pixels, flat.pixels);
}

TEST(Png, SurvivesDamage) {
  const TemporaryFolder folder;
  std::mt19937 random(3);
  test::expect_survives_damage(
      encode_png(random_picture(random)), folder.file("p.png"), [](const std::string& path) { read_png(path); }, 500);
}

}  // namespace
}  // namespace rtf::data
