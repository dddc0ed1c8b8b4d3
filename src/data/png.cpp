#include "data/png.h"

#include <png.h>

#include <algorithm>
#include <cstring>

#include "core/arguments.h"
#include "core/atomic_file.h"

namespace rtf::data {
namespace {

constexpr const char* reading = "read_png";
constexpr const char* writing = "write_png";

png_image new_image() {
  png_image image;
  std::memset(&image, 0, sizeof image);
  image.version = PNG_IMAGE_VERSION;
  return image;
}

// Whether every chunk (length, name, body, checksum) up to the last one is there. libpng takes memory for what a chunk
// says of its length.
bool is_whole(std::string_view bytes) {
  for (std::size_t at = 8; at + 12 <= bytes.size();) {
    std::size_t length = 0;
    for (std::size_t i = 0; i < 4; ++i) length = length << 8 | static_cast<std::uint8_t>(bytes[at + i]);
    if (length > bytes.size() - at - 12) return false;
    if (bytes.substr(at + 4, 4) == "IEND") return true;
    at += 12 + length;
  }
  return false;
}

}  // namespace

std::string encode_png(const Picture& picture) {
  check_count(writing, "a picture", picture.pixels.size(), picture.rows * picture.columns * picture.channels);
  png_image image = new_image();
  image.width = static_cast<png_uint_32>(picture.columns);
  image.height = static_cast<png_uint_32>(picture.rows);
  image.format = picture.channels == 1 ? PNG_FORMAT_GRAY : PNG_FORMAT_RGB;
  png_alloc_size_t size = PNG_IMAGE_PNG_SIZE_MAX(image);
  std::string bytes(size, '\0');
  if (!png_image_write_to_memory(&image, bytes.data(), &size, 0, picture.pixels.data(), 0, nullptr))
    fail(ErrorCode::argument, writing, "no picture of {} x {}: {}", picture.rows, picture.columns, image.message);
  bytes.resize(size);
  return bytes;
}

void write_png(const std::string& path, const Picture& picture) {
  StagedFile(path, encode_png(picture), writing).commit();
}

Picture decode_png(std::string_view bytes, const std::string& path) {
  if (bytes.empty()) fail(ErrorCode::format, reading, "{} is empty; a PNG picture was expected", path);
  png_image image = new_image();
  const auto refuse = [&](const std::string& why) {
    png_image_free(&image);
    fail(ErrorCode::format, reading, "{} is no grey PNG picture that can be read: {}", path, why);
  };
  if (bytes.starts_with("\x89PNG\r\n\x1a\n") && !is_whole(bytes)) refuse("it is truncated");
  if (!png_image_begin_read_from_memory(&image, bytes.data(), bytes.size())) refuse(image.message);
  if (image.format & (PNG_FORMAT_FLAG_COLOR | PNG_FORMAT_FLAG_ALPHA | PNG_FORMAT_FLAG_COLORMAP))
    refuse("it has colours");
  if (image.format & PNG_FORMAT_FLAG_LINEAR) refuse("it has 16 bits a pixel");
  // A few bytes can claim gigabytes: deflate makes at most 1,032 of one, and a pixel has a bit.
  const std::size_t most = std::min(std::size_t{1} << 26, bytes.size() * 1032 * 8);
  if (std::size_t{image.width} * image.height > most)
    refuse(fmt::format("it is to have {} x {} pixels, in {} bytes", image.height, image.width, bytes.size()));
  image.format = PNG_FORMAT_GRAY;
  Picture picture{image.height, image.width, 1, std::vector<std::uint8_t>(std::size_t{image.width} * image.height)};
  if (!png_image_finish_read(&image, nullptr, picture.pixels.data(), 0, nullptr)) refuse(image.message);
  return picture;
}

Picture read_png(const std::string& path) { return decode_png(read_file(path, reading), path); }

}  // namespace rtf::data
