#include "data/record_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <system_error>
#include <utility>

#include "core/arguments.h"
#include "data/record_format.h"
#include "rtf/executor.h"

namespace rtf::data {
namespace {

constexpr const char* reading = "read_records";

std::string describe(int error) { return std::generic_category().message(error); }

}  // namespace

Records::Records(std::span<const std::byte> bytes, const std::string& path) {
  const auto refuse = [&]<class... Args>(fmt::format_string<Args...> format, Args&&... args) {
    fail(ErrorCode::format, reading, "{}: {}", path, fmt::format(format, std::forward<Args>(args)...));
  };
  RecordHeader header{};
  const std::size_t size = bytes.size();
  std::copy_n(bytes.begin(), std::min(size, sizeof header), reinterpret_cast<std::byte*>(&header));
  if (size < sizeof record_magic || std::memcmp(header.magic, record_magic, sizeof record_magic) != 0)
    refuse("it is no record file");
  if (size < sizeof header) refuse("the record file is truncated: it has {} bytes", size);
  if (header.version > record_version)
    refuse("version {} of record files is newer than this program, which reads {}", header.version, record_version);
  if (header.version < record_version) refuse("there is no version {} of record files", header.version);
  if (header.header_checksum != checksum_of(header)) refuse("the header is damaged: its checksum differs");

  info_.kind = static_cast<RecordKind>(header.kind);
  info_.rows = header.rows;
  info_.columns = header.columns;
  info_.documents = header.documents;
  info_.classes = header.classes;
  std::copy(std::begin(header.counts), std::end(header.counts), info_.counts.begin());
  info_.fingerprint = header.fingerprint;
  const bool image = info_.kind == RecordKind::image;
  if (!within_bounds(info_) || header.vocabulary > most_numbers || header.vocabulary_bytes > most_values ||
      header.values > most_values)
    refuse("the header says what no record file holds");
  if (image && header.values != info_.samples() * header.rows * header.columns)
    refuse("{} pixels for {} images of {} x {}", header.values, info_.samples(), header.rows, header.columns);
  const RecordParts parts = parts_of(info_, header.values, header.vocabulary_bytes);
  if (size < parts.end) refuse("the record file is truncated: it has {} of {} bytes", size, parts.end);
  if (size > parts.end) refuse("the record file has {} bytes behind its end", size - parts.end);

  const auto* content = bytes.data() + parts.values;
  const std::size_t content_bytes = size - parts.values;
  std::vector<std::uint32_t> sums((content_bytes + record_block - 1) / record_block);
  parallel_for(default_executor(), sums.size(), [&](std::size_t i, std::size_t) {
    sums[i] = crc32(0, content + i * record_block, std::min(record_block, content_bytes - i * record_block));
  });
  if (crc32(0, sums.data(), sums.size() * sizeof(std::uint32_t)) != header.content_checksum)
    refuse("the records are damaged: their checksum differs");

  const std::size_t samples = info_.samples();
  labels_ = {reinterpret_cast<const std::uint16_t*>(bytes.data() + parts.labels), samples};
  for (std::size_t i = 0; i < samples; ++i)
    if (labels_[i] >= info_.classes) refuse("sample {} has label {} of {} classes", i, labels_[i], info_.classes);
  const auto* text = reinterpret_cast<const char*>(bytes.data() + parts.vocabulary);
  for (std::uint64_t at = 0, left = header.vocabulary; left > 0; --left) {
    std::uint32_t length = 0;
    if (header.vocabulary_bytes - at >= sizeof length) std::memcpy(&length, text + at, sizeof length);
    if (header.vocabulary_bytes - at < sizeof length + std::uint64_t{length}) refuse("the vocabulary is cut short");
    info_.vocabulary.emplace_back(text + at + sizeof length, length);
    at += sizeof length + length;
  }
  if (image) {
    pixels_ = {reinterpret_cast<const std::uint8_t*>(content), header.values};
    return;
  }
  tokens_ = {reinterpret_cast<const std::uint16_t*>(content), header.values};
  ends_ = {reinterpret_cast<const std::uint64_t*>(bytes.data() + parts.ends), samples * info_.documents};
  if (!std::is_sorted(ends_.begin(), ends_.end()) || (ends_.empty() ? 0 : ends_.back()) != header.values)
    refuse("its documents do not follow one another");
  constexpr std::size_t piece = record_block / sizeof(std::uint16_t);
  std::atomic<bool> known = true;
  parallel_for(default_executor(), (tokens_.size() + piece - 1) / piece, [&](std::size_t i, std::size_t) {
    for (const std::uint16_t token : tokens_.subspan(i * piece, std::min(piece, tokens_.size() - i * piece)))
      if (token >= info_.vocabulary.size()) known = false;
  });
  if (!known) refuse("it has tokens that its vocabulary of {} does not", info_.vocabulary.size());
}

std::size_t Records::first(std::size_t split) const {
  std::size_t sum = 0;
  for (std::size_t s = 0; s < split; ++s) sum += info_.counts[s];
  return sum;
}

std::span<const std::uint8_t> Records::image(std::size_t sample) const {
  const std::size_t pixels = info_.rows * info_.columns;
  return pixels_.subspan(sample * pixels, pixels);
}

std::span<const std::uint16_t> Records::document(std::size_t sample, std::size_t document) const {
  const std::size_t i = sample * info_.documents + document, begin = i == 0 ? 0 : ends_[i - 1];
  return tokens_.subspan(begin, ends_[i] - begin);
}

void RecordFile::Unmap::operator()(const std::byte* bytes) const { ::munmap(const_cast<std::byte*>(bytes), size); }

RecordFile::RecordFile(const std::string& path) {
  const auto refuse = [&](const std::string& why) {
    throw Error(ErrorCode::io, reading, fmt::format("cannot read {}: {}", path, why));
  };
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) refuse(describe(errno));
  struct stat status {};
  const bool regular = ::fstat(descriptor, &status) == 0 && S_ISREG(status.st_mode);
  const std::size_t size = regular ? static_cast<std::size_t>(status.st_size) : 0;
  // An empty file cannot be mapped.
  void* mapped = size > 0 ? ::mmap(nullptr, size, PROT_READ, MAP_SHARED, descriptor, 0) : nullptr;
  const int error = errno;
  ::close(descriptor);
  if (!regular) refuse("it is not a regular file");
  if (mapped == MAP_FAILED) refuse(describe(error));
  bytes_ = {static_cast<const std::byte*>(mapped), Unmap{size}};
  static_cast<Records&>(*this) = Records({bytes_.get(), size}, path);
}

bool is_record_file(const std::string& path) {
  char bytes[sizeof record_magic] = {};
  std::ifstream(path, std::ios::binary).read(bytes, sizeof bytes);
  return std::memcmp(bytes, record_magic, sizeof bytes) == 0;
}

}  // namespace rtf::data
