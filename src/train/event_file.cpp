#include "train/event_file.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <chrono>
#include <filesystem>

#include "rtf/error.h"

namespace rtf::train {
namespace {

constexpr const char* operation = "event_file";
constexpr const char* prefix = "events.out.tfevents.";
constexpr std::size_t buffer_bytes = 1 << 16;

// CRC-32C (Castagnoli), which zlib does not have.
constexpr auto crc_table = [] {
  std::array<uint32_t, 256> table{};
  for (uint32_t i = 0; i < 256; ++i) {
    uint32_t value = i;
    for (int bit = 0; bit < 8; ++bit) value = value >> 1 ^ (value & 1 ? 0x82f63b78u : 0u);
    table[i] = value;
  }
  return table;
}();

// TFRecord stores it rotated and shifted, because a CRC of bytes that hold their CRC is weak.
uint32_t masked_crc(const std::string& bytes) {
  uint32_t crc = ~0u;
  for (const char c : bytes) crc = crc_table[(crc ^ static_cast<unsigned char>(c)) & 0xff] ^ crc >> 8;
  return std::rotr(~crc, 15) + 0xa282ead8u;
}

template <class T>
std::string little_endian(T value) {
  std::string bytes;
  for (std::size_t i = 0; i < sizeof(T); ++i) bytes += static_cast<char>(value >> (8 * i));
  return bytes;
}

// A protobuf message, field after field. Every number that is used here is below 16, so that a key is one byte.
class Message {
 public:
  Message& integer(int field, int64_t value) {
    key(field, 0);
    varint(static_cast<uint64_t>(value));
    return *this;
  }
  Message& real(int field, double value) {
    key(field, 1);
    bytes_ += little_endian(std::bit_cast<uint64_t>(value));
    return *this;
  }
  Message& real(int field, float value) {
    key(field, 5);
    bytes_ += little_endian(std::bit_cast<uint32_t>(value));
    return *this;
  }
  Message& text(int field, const std::string& value) {
    key(field, 2);
    varint(value.size());
    bytes_ += value;
    return *this;
  }
  Message& message(int field, const Message& value) { return text(field, value.bytes_); }
  const std::string& bytes() const { return bytes_; }

 private:
  void key(int field, int wire_type) { bytes_ += static_cast<char>(field << 3 | wire_type); }
  void varint(uint64_t value) {
    for (; value >= 128; value >>= 7) bytes_ += static_cast<char>(value | 128);
    bytes_ += static_cast<char>(value);
  }

  std::string bytes_;
};

double wall_time() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

// tensorflow.Event: wall_time 1, step 2, file_version 3, summary 5, session_log 7.
Message event(int64_t step) {
  Message message;
  return message.real(1, wall_time()).integer(2, step);
}

// tensorflow.Summary: value 1.
std::string summary_event(int64_t step, const Message& value) {
  return event(step).message(5, Message().message(1, value)).bytes();
}

// TensorBoard reads the files of a folder in the order of their names: the seconds go up even when two starts share
// one.
std::string new_path(const std::string& folder) {
  auto seconds = static_cast<long long>(wall_time());
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(folder, ignored)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with(prefix)) continue;
    seconds = std::max(seconds, std::strtoll(name.c_str() + std::char_traits<char>::length(prefix), nullptr, 10) + 1);
  }
  std::array<char, 256> host{};
  if (::gethostname(host.data(), host.size() - 1) != 0 || host[0] == '\0') host = {"localhost"};
  return fmt::format("{}/{}{:010}.{}.{}", folder, prefix, seconds, host.data(), ::getpid());
}

}  // namespace

EventFile::EventFile(const std::string& folder, std::optional<int64_t> resumed) : file_(new_path(folder), operation) {
  add(Message().real(1, wall_time()).text(3, "brain.Event:2").bytes());
  if (resumed) {
    constexpr int64_t start = 1;  // tensorflow.SessionLog: status 1. Points from its step on are forgotten.
    add(event(*resumed + 1).message(7, Message().integer(1, start)).bytes());
  }
  flush();
}

EventFile::~EventFile() {
  try {
    flush();
  } catch (const Error&) {
  }
}

void EventFile::scalar(const std::string& tag, int64_t step, double value) {
  // Summary.Value: tag 1, simple_value 2.
  add(summary_event(step, Message().text(1, tag).real(2, static_cast<float>(value))));
}

void EventFile::text(const std::string& tag, int64_t step, const std::string& markdown) {
  // Summary.Value: tag 1, tensor 8, metadata 9; TensorProto: dtype 1 (string: 7), tensor_shape 2, string_val 8.
  const Message shape = Message().message(2, Message().integer(1, 1));
  const Message tensor = Message().integer(1, 7).message(2, shape).text(8, markdown);
  const Message metadata = Message().message(1, Message().text(1, "text"));
  add(summary_event(step, Message().text(1, tag + "/text_summary").message(8, tensor).message(9, metadata)));
}

void EventFile::flush() {
  file_.append(buffer_);
  buffer_.clear();
}

void EventFile::add(const std::string& event) {
  const std::string length = little_endian(static_cast<uint64_t>(event.size()));
  buffer_ += length + little_endian(masked_crc(length)) + event + little_endian(masked_crc(event));
  if (buffer_.size() >= buffer_bytes) flush();
}

}  // namespace rtf::train
