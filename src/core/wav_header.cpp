#include "core/wav_header.h"

#include <cstring>
#include <optional>
#include <string_view>

#include "core/arguments.h"
#include "core/printable.h"

namespace rtf {
namespace {

constexpr std::uint32_t open_length = 0xffffffff;  // a length that stands elsewhere (RF64), or that a stream left open
constexpr std::uint16_t pcm_tag = 1, float_tag = 3, extensible_tag = 0xfffe;
constexpr std::string_view guid_tail("\x00\x00\x00\x00\x10\x00\x80\x00\x00\xaa\x00\x38\x9b\x71", 14);
constexpr std::uint32_t highest_rate = 1'000'000'000;
constexpr int most_chunks = 10000;

template <class T>
T number(std::string_view bytes, std::size_t offset) {
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof(T));
  return value;
}

template <class T>
void put(std::string& bytes, T value) {
  bytes.append(reinterpret_cast<const char*>(&value), sizeof(T));
}

template <class... Args>
[[noreturn]] void refuse(ErrorCode code, const std::string& path, fmt::format_string<Args...> format, Args&&... args) {
  throw Error(code, "read_wav", path + ": " + fmt::format(format, std::forward<Args>(args)...));
}

const char* encoding_name(std::uint16_t tag) {
  switch (tag) {
    case pcm_tag:
      return "PCM";
    case 2:
      return "ADPCM";
    case float_tag:
      return "float";
    case 6:
      return "A-law";
    case 7:
      return "mu-law";
    case 0x11:
      return "IMA ADPCM";
    case 0x55:
      return "MP3";
    default:
      return "unknown";
  }
}

WavFormat parse_format(std::string_view chunk, std::uint32_t chunk_bytes, const std::string& path) {
  if (chunk_bytes < 16)
    refuse(ErrorCode::format, path, "the format chunk has {} bytes, expected 16 or more", chunk_bytes);
  auto tag = number<std::uint16_t>(chunk, 0);
  const auto channels = number<std::uint16_t>(chunk, 2), align = number<std::uint16_t>(chunk, 12);
  const auto bits = number<std::uint16_t>(chunk, 14);
  WavFormat format;
  format.channels = channels;
  format.rate = number<std::uint32_t>(chunk, 4);
  if (tag == extensible_tag) {
    if (chunk_bytes < 40)
      refuse(ErrorCode::format, path, "the extensible format chunk has {} bytes, expected 40", chunk_bytes);
    const auto valid = number<std::uint16_t>(chunk, 18);
    if (valid > bits) refuse(ErrorCode::format, path, "{} valid bits in samples of {} bits", valid, bits);
    format.speakers = number<std::uint32_t>(chunk, 20);
    tag = number<std::uint16_t>(chunk, 24);
    if (chunk.substr(26, 14) != guid_tail)
      refuse(ErrorCode::unsupported, path, "its extensible format is neither PCM nor float");
  }
  if (tag == pcm_tag && bits == 16)
    format.samples = SampleFormat::pcm16;
  else if (tag == pcm_tag && bits == 24)
    format.samples = SampleFormat::pcm24;
  else if (tag == pcm_tag && bits == 32)
    format.samples = SampleFormat::pcm32;
  else if (tag == float_tag && bits == 32)
    format.samples = SampleFormat::f32;
  else if (tag == float_tag && bits == 64)
    format.samples = SampleFormat::f64;
  else
    refuse(ErrorCode::unsupported, path,
           "format {} ({}) with {} bits a sample; expected PCM of 16, 24 or 32 bits or float of 32 or 64", tag,
           encoding_name(tag), bits);
  if (channels == 0) refuse(ErrorCode::format, path, "0 channels; expected at least 1");
  if (format.rate == 0 || format.rate > highest_rate)
    refuse(ErrorCode::format, path, "a rate of {} Hz; expected 1 to {}", format.rate, highest_rate);
  if (align != channels * bits / 8)
    refuse(ErrorCode::format, path, "frames of {} bytes; {} channels of {} bits make {}", align, channels, bits,
           channels * bits / 8);
  return format;
}

}  // namespace

std::size_t bytes_of(SampleFormat format) {
  switch (format) {
    case SampleFormat::pcm16:
      return 2;
    case SampleFormat::pcm24:
      return 3;
    case SampleFormat::pcm32:
    case SampleFormat::f32:
      return 4;
    case SampleFormat::f64:
      break;
  }
  return 8;
}

WavData find_wav_data(const ReadAt& read, std::uint64_t file_bytes, const std::string& path) {
  const auto load = [&](std::uint64_t offset, std::size_t count) {
    std::string bytes(count, '\0');
    bytes.resize(read(offset, bytes.data(), count));
    return bytes;
  };
  const std::string start = load(0, 12);
  if (start.starts_with("RIFX")) refuse(ErrorCode::unsupported, path, "a big-endian wav file (RIFX); expected RIFF");
  if (start.size() < 12 || (!start.starts_with("RIFF") && !start.starts_with("RF64")) || !start.ends_with("WAVE"))
    refuse(ErrorCode::format, path, "not a wav file (it does not begin with RIFF....WAVE)");
  const bool rf64 = start.starts_with("RF64");
  // 0 and 2^32 - 1: a stream, whose writer could not come back to fill it in.
  const auto claimed = number<std::uint32_t>(start, 4);
  if (!rf64 && claimed != 0 && claimed != open_length && std::uint64_t{claimed} + 8 > file_bytes)
    refuse(ErrorCode::format, path, "truncated: it says that it has {} bytes, the file has {}",
           std::uint64_t{claimed} + 8, file_bytes);

  std::optional<WavFormat> format;
  std::optional<std::uint64_t> long_bytes;
  bool found = false;
  WavData data;
  std::uint64_t offset = 12;
  for (int chunks = 0; !(format && found); ++chunks) {
    const std::string head = load(offset, 8);
    if (head.size() < 8)
      refuse(ErrorCode::format, path, "truncated: it ends before its {} chunk", !format ? "format (fmt)" : "data");
    if (chunks == most_chunks) refuse(ErrorCode::format, path, "no samples among its first {} chunks", chunks);
    const std::string id = head.substr(0, 4);
    std::uint64_t bytes = number<std::uint32_t>(head, 4);
    const std::uint64_t left = file_bytes - std::min(file_bytes, offset + 8);
    if (id == "data") {
      if (found) refuse(ErrorCode::format, path, "two data chunks");
      if (rf64 && bytes == open_length && !long_bytes)
        refuse(ErrorCode::format, path, "an RF64 file without the ds64 chunk that holds its length");
      if (bytes == open_length) bytes = rf64 ? *long_bytes : left;
    }
    if (bytes > left)
      refuse(ErrorCode::format, path, "truncated: its chunk '{}' claims {} bytes, {} are left", printable(id), bytes,
             left);
    if (id == "data") {
      data.offset = offset + 8;
      data.bytes = bytes;
      data.open = file_bytes == endless && bytes == left;
      found = true;
    } else if (id == "ds64") {
      if (bytes < 28) refuse(ErrorCode::format, path, "its ds64 chunk has {} bytes, expected 28", bytes);
      std::string chunk = load(offset + 8, 28);
      chunk.resize(28, '\0');  // the file may be cut while it is read
      long_bytes = number<std::uint64_t>(chunk, 8);
    } else if (id == "fmt ") {
      if (format) refuse(ErrorCode::format, path, "two format chunks");
      std::string chunk = load(offset + 8, static_cast<std::size_t>(std::min<std::uint64_t>(bytes, 40)));
      chunk.resize(40, '\0');
      format = parse_format(chunk, static_cast<std::uint32_t>(bytes), path);
    }
    offset += 8 + bytes + bytes % 2;
  }
  // What follows is passed over, damaged or not, except for more samples: half a sound is not what the file holds.
  const std::uint64_t end =
      rf64 || claimed == 0 || claimed == open_length ? file_bytes : std::min(file_bytes, std::uint64_t{claimed} + 8);
  for (int chunks = 0; chunks < most_chunks && offset < end && end - offset >= 8 && file_bytes != endless; ++chunks) {
    const std::string head = load(offset, 8);
    if (head.size() < 8) break;
    if (head.starts_with("data")) refuse(ErrorCode::format, path, "two data chunks");
    const std::uint64_t bytes = number<std::uint32_t>(head, 4);
    offset += 8 + bytes + bytes % 2;
  }
  data.format = *format;
  const std::uint64_t frame = format->channels * bytes_of(format->samples);
  if (data.bytes % frame != 0 && !data.open)
    refuse(ErrorCode::format, path, "truncated: {} bytes of samples are not a whole number of frames of {} bytes",
           data.bytes, frame);
  return data;
}

std::string wav_header(const WavFormat& format, std::uint64_t length) {
  const std::size_t width = bytes_of(format.samples), frame = width * format.channels;
  const bool is_float = format.samples == SampleFormat::f32 || format.samples == SampleFormat::f64;
  const bool extensible = format.channels > 2 || format.speakers != 0 || (!is_float && width > 2);
  const auto tag = is_float ? float_tag : pcm_tag;
  const std::uint64_t data_bytes = length * frame;

  std::string chunks;
  chunks += "fmt ";
  put<std::uint32_t>(chunks, extensible ? 40 : is_float ? 18 : 16);
  put<std::uint16_t>(chunks, extensible ? extensible_tag : tag);
  put<std::uint16_t>(chunks, static_cast<std::uint16_t>(format.channels));
  put<std::uint32_t>(chunks, format.rate);
  put<std::uint32_t>(
      chunks, static_cast<std::uint32_t>(std::min<std::uint64_t>(format.rate * std::uint64_t{frame}, open_length)));
  put<std::uint16_t>(chunks, static_cast<std::uint16_t>(frame));
  put<std::uint16_t>(chunks, static_cast<std::uint16_t>(8 * width));
  if (extensible) {
    put<std::uint16_t>(chunks, 22);
    put<std::uint16_t>(chunks, static_cast<std::uint16_t>(8 * width));
    put<std::uint32_t>(chunks, format.speakers);
    put<std::uint16_t>(chunks, tag);
    chunks += guid_tail;
  } else if (is_float) {
    put<std::uint16_t>(chunks, 0);
  }
  if (is_float) {
    chunks += "fact";
    put<std::uint32_t>(chunks, 4);
    put<std::uint32_t>(chunks, static_cast<std::uint32_t>(std::min<std::uint64_t>(length, open_length)));
  }
  const std::uint64_t padded = data_bytes + data_bytes % 2, riff_bytes = 4 + chunks.size() + 8 + padded;
  const bool rf64 = riff_bytes > open_length - 1;

  std::string header = rf64 ? "RF64" : "RIFF";
  put<std::uint32_t>(header, rf64 ? open_length : static_cast<std::uint32_t>(riff_bytes));
  header += "WAVE";
  if (rf64) {
    header += "ds64";
    put<std::uint32_t>(header, 28);
    put<std::uint64_t>(header, riff_bytes + 36);
    put<std::uint64_t>(header, data_bytes);
    put<std::uint64_t>(header, length);
    put<std::uint32_t>(header, 0);
  }
  header += chunks + "data";
  put<std::uint32_t>(header, rf64 ? open_length : static_cast<std::uint32_t>(data_bytes));
  return header;
}

}  // namespace rtf
