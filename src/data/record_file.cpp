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
#include "core/checksum.h"
#include "rtf/executor.h"

// In a file, one after the other and each at a multiple of 64 bytes: header, pixels or tokens, ends of the documents,
// labels, vocabulary. Numbers are little-endian.

namespace rtf::data {
namespace {

constexpr const char* reading = "read_records";
constexpr const char* writing = "write_records";
constexpr char magic[8] = {'r', 't', 'f', 'd', 'a', 't', 'a', '\n'};
constexpr std::uint32_t current_version = 1;
constexpr std::size_t alignment = 64;
// The checksum of the content is that of the checksums of these pieces, so that all cores can take it.
constexpr std::size_t block_bytes = std::size_t{1} << 20;

struct Header {
  char magic[8];
  std::uint32_t version;
  std::uint32_t header_checksum;  // of what follows in the header
  std::uint32_t content_checksum;
  std::uint32_t kind;
  std::uint64_t rows, columns, documents, classes, counts[3];
  std::uint64_t values;  // pixels or tokens
  std::uint64_t vocabulary, vocabulary_bytes;
  std::uint64_t fingerprint;
  std::uint64_t unused[2];
};
static_assert(sizeof(Header) == 128);

std::uint32_t sum_of(const Header& header) {
  constexpr std::size_t from = offsetof(Header, content_checksum);
  return crc32(0, reinterpret_cast<const char*>(&header) + from, sizeof header - from);
}

std::uint64_t padded(std::uint64_t size) { return (size + alignment - 1) / alignment * alignment; }

// Where the parts of a file begin.
struct Parts {
  std::uint64_t values, ends, labels, vocabulary, end;
};

Parts parts_of(const RecordInfo& info, std::uint64_t values, std::uint64_t vocabulary_bytes) {
  const bool image = info.kind == RecordKind::image;
  Parts parts{};
  parts.values = padded(sizeof(Header));
  parts.ends = parts.values + padded(values * (image ? 1 : sizeof(std::uint16_t)));
  parts.labels = parts.ends + padded(image ? 0 : info.samples() * info.documents * sizeof(std::uint64_t));
  parts.vocabulary = parts.labels + padded(info.samples() * sizeof(std::uint16_t));
  parts.end = parts.vocabulary + padded(vocabulary_bytes);
  return parts;
}

constexpr std::uint64_t most_numbers = 65536;  // labels and tokens have 16 bits
constexpr std::uint64_t most_values = std::uint64_t{1} << 48;

// Sums and products of numbers within these bounds do not overflow.
bool within_bounds(const RecordInfo& info) {
  constexpr std::uint64_t longest_side = 1 << 14, most_samples = std::uint64_t{1} << 32;
  const auto between = [](std::uint64_t lowest, std::uint64_t value, std::uint64_t highest) {
    return lowest <= value && value <= highest;
  };
  const bool shape = info.kind == RecordKind::image
                         ? between(1, info.rows, longest_side) && between(1, info.columns, longest_side)
                         : info.kind == RecordKind::tokens && between(1, info.documents, 2);
  return shape && between(1, info.classes, most_numbers) &&
         std::all_of(info.counts.begin(), info.counts.end(), [&](auto n) { return n <= most_samples; });
}

std::string describe(int error) { return std::generic_category().message(error); }

}  // namespace

Fingerprint& Fingerprint::add(std::string_view bytes) {
  add(std::uint64_t{bytes.size()});
  mix(bytes);
  return *this;
}

Fingerprint& Fingerprint::add(std::uint64_t number) {
  mix({reinterpret_cast<const char*>(&number), sizeof number});
  return *this;
}

void Fingerprint::mix(std::string_view bytes) {
  for (const char byte : bytes) value_ = (value_ ^ static_cast<unsigned char>(byte)) * 0x100000001b3;
}

RecordWriter::RecordWriter(const std::string& path, RecordInfo info)
    : path_(path), info_(std::move(info)), file_(path, writing) {
  if (!within_bounds(info_) || info_.vocabulary.size() > most_numbers)
    fail(ErrorCode::argument, writing, "{}: no record file holds samples of this shape and number", path_);
  file_.append(std::string(padded(sizeof(Header)), '\0'));
  block_.reserve(block_bytes);
}

void RecordWriter::append(const void* bytes, std::size_t size) {
  const auto* at = static_cast<const char*>(bytes);
  while (size > 0) {
    const std::size_t taken = std::min(size, block_bytes - block_.size());
    block_.insert(block_.end(), at, at + taken);
    at += taken;
    size -= taken;
    if (block_.size() < block_bytes) continue;
    blocks_.push_back(crc32(0, block_.data(), block_.size()));
    file_.append({block_.data(), block_.size()});
    written_ += block_.size();
    block_.clear();
  }
}

void RecordWriter::pad() {
  const std::string zeros(padded(written_ + block_.size()) - written_ - block_.size(), '\0');
  append(zeros.data(), zeros.size());
}

void RecordWriter::add(const void* bytes, std::size_t size, std::size_t label) {
  if (labels_.size() == info_.samples())
    fail(ErrorCode::argument, writing, "{} is to hold {} samples, and here is one more", path_, info_.samples());
  if (label >= info_.classes)
    fail(ErrorCode::argument, writing, "{}: sample {} has label {} of {} classes", path_, labels_.size(), label,
         info_.classes);
  labels_.push_back(static_cast<std::uint16_t>(label));
  append(bytes, size);
}

void RecordWriter::add_image(std::span<const std::uint8_t> pixels, std::size_t label) {
  check_count(writing, "an image", pixels.size(),
              info_.kind == RecordKind::image ? info_.rows * info_.columns : std::size_t{0});
  add(pixels.data(), pixels.size(), label);
}

void RecordWriter::add_tokens(std::span<const std::span<const std::uint16_t>> documents, std::size_t label) {
  check_count(writing, "a sample of documents", documents.size(),
              info_.kind == RecordKind::tokens ? info_.documents : std::size_t{0});
  for (const auto& document : documents)
    for (const std::uint16_t token : document)
      if (token >= info_.vocabulary.size())
        fail(ErrorCode::argument, writing, "{}: sample {} has token {}; the vocabulary has {}", path_, labels_.size(),
             token, info_.vocabulary.size());
  add(nullptr, 0, label);
  for (const auto& document : documents) {
    append(document.data(), document.size_bytes());
    ends_.push_back((ends_.empty() ? 0 : ends_.back()) + document.size());
  }
}

void RecordWriter::commit() {
  if (labels_.size() != info_.samples())
    fail(ErrorCode::argument, writing, "{} is to hold {} samples and got {}", path_, info_.samples(), labels_.size());
  const bool image = info_.kind == RecordKind::image;
  std::string vocabulary;
  for (const std::string& token : info_.vocabulary) {
    const auto size = static_cast<std::uint32_t>(token.size());
    vocabulary.append(reinterpret_cast<const char*>(&size), sizeof size).append(token);
  }
  pad();
  append(ends_.data(), ends_.size() * sizeof(std::uint64_t));
  pad();
  append(labels_.data(), labels_.size() * sizeof(std::uint16_t));
  pad();
  append(vocabulary.data(), vocabulary.size());
  pad();
  if (!block_.empty()) {
    blocks_.push_back(crc32(0, block_.data(), block_.size()));
    file_.append({block_.data(), block_.size()});
  }

  Header header{};
  std::memcpy(header.magic, magic, sizeof magic);
  header.version = current_version;
  header.kind = static_cast<std::uint32_t>(info_.kind);
  header.rows = info_.rows;
  header.columns = info_.columns;
  header.documents = info_.documents;
  header.classes = info_.classes;
  std::copy(info_.counts.begin(), info_.counts.end(), header.counts);
  header.values = image ? info_.samples() * info_.rows * info_.columns : ends_.empty() ? 0 : ends_.back();
  header.vocabulary = info_.vocabulary.size();
  header.vocabulary_bytes = vocabulary.size();
  header.fingerprint = info_.fingerprint;
  header.content_checksum = crc32(0, blocks_.data(), blocks_.size() * sizeof(std::uint32_t));
  header.header_checksum = sum_of(header);
  file_.overwrite(0, {reinterpret_cast<const char*>(&header), sizeof header});
  file_.commit();
}

RecordFile::RecordFile(const std::string& path) {
  const auto refuse = [&](const std::string& why) {
    throw Error(ErrorCode::io, reading, fmt::format("cannot read {}: {}", path, why));
  };
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) refuse(describe(errno));
  struct stat status {};
  const bool regular = ::fstat(descriptor, &status) == 0 && S_ISREG(status.st_mode);
  size_ = regular ? static_cast<std::size_t>(status.st_size) : 0;
  void* mapped = size_ > 0 ? ::mmap(nullptr, size_, PROT_READ, MAP_SHARED, descriptor, 0) : nullptr;
  const int error = errno;
  ::close(descriptor);
  if (!regular) refuse("it is not a regular file");
  if (mapped == MAP_FAILED) refuse(describe(error));
  bytes_ = static_cast<const std::byte*>(mapped);
  try {
    check(path);
  } catch (...) {
    unmap();
    throw;
  }
}

void RecordFile::check(const std::string& path) {
  const auto refuse = [&]<class... Args>(fmt::format_string<Args...> format, Args&&... args) {
    fail(ErrorCode::format, reading, "{}: {}", path, fmt::format(format, std::forward<Args>(args)...));
  };
  Header header{};
  if (bytes_) std::memcpy(&header, bytes_, std::min(size_, sizeof header));  // an empty file is not mapped
  if (size_ < sizeof magic || std::memcmp(header.magic, magic, sizeof magic) != 0) refuse("it is no record file");
  if (size_ < sizeof header) refuse("the record file is truncated: it has {} bytes", size_);
  if (header.version > current_version)
    refuse("version {} of record files is newer than this program, which reads {}", header.version, current_version);
  if (header.version < current_version) refuse("there is no version {} of record files", header.version);
  if (header.header_checksum != sum_of(header)) refuse("the header is damaged: its checksum differs");

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
  const Parts parts = parts_of(info_, header.values, header.vocabulary_bytes);
  if (size_ < parts.end) refuse("the record file is truncated: it has {} of {} bytes", size_, parts.end);
  if (size_ > parts.end) refuse("the record file has {} bytes behind its end", size_ - parts.end);

  const auto* content = bytes_ + parts.values;
  const std::size_t content_bytes = size_ - parts.values;
  std::vector<std::uint32_t> sums((content_bytes + block_bytes - 1) / block_bytes);
  parallel_for(default_executor(), sums.size(), [&](std::size_t i, std::size_t) {
    sums[i] = crc32(0, content + i * block_bytes, std::min(block_bytes, content_bytes - i * block_bytes));
  });
  if (crc32(0, sums.data(), sums.size() * sizeof(std::uint32_t)) != header.content_checksum)
    refuse("the records are damaged: their checksum differs");

  const std::size_t samples = info_.samples();
  labels_ = {reinterpret_cast<const std::uint16_t*>(bytes_ + parts.labels), samples};
  for (std::size_t i = 0; i < samples; ++i)
    if (labels_[i] >= info_.classes) refuse("sample {} has label {} of {} classes", i, labels_[i], info_.classes);
  const auto* text = reinterpret_cast<const char*>(bytes_ + parts.vocabulary);
  for (std::uint64_t at = 0, left = header.vocabulary; left > 0; --left) {
    std::uint32_t size = 0;
    if (header.vocabulary_bytes - at >= sizeof size) std::memcpy(&size, text + at, sizeof size);
    if (header.vocabulary_bytes - at < sizeof size + std::uint64_t{size}) refuse("the vocabulary is cut short");
    info_.vocabulary.emplace_back(text + at + sizeof size, size);
    at += sizeof size + size;
  }
  if (image) {
    pixels_ = {reinterpret_cast<const std::uint8_t*>(content), header.values};
    return;
  }
  tokens_ = {reinterpret_cast<const std::uint16_t*>(content), header.values};
  ends_ = {reinterpret_cast<const std::uint64_t*>(bytes_ + parts.ends), samples * info_.documents};
  if (!std::is_sorted(ends_.begin(), ends_.end()) || (ends_.empty() ? 0 : ends_.back()) != header.values)
    refuse("its documents do not follow one another");
  constexpr std::size_t piece = block_bytes / sizeof(std::uint16_t);
  std::atomic<bool> known = true;
  parallel_for(default_executor(), (tokens_.size() + piece - 1) / piece, [&](std::size_t i, std::size_t) {
    for (const std::uint16_t token : tokens_.subspan(i * piece, std::min(piece, tokens_.size() - i * piece)))
      if (token >= info_.vocabulary.size()) known = false;
  });
  if (!known) refuse("it has tokens that its vocabulary of {} does not", info_.vocabulary.size());
}

void RecordFile::unmap() {
  if (bytes_) ::munmap(const_cast<std::byte*>(bytes_), size_);
  bytes_ = nullptr;
}

RecordFile::~RecordFile() { unmap(); }

RecordFile::RecordFile(RecordFile&& other) noexcept
    : info_(std::move(other.info_)),
      bytes_(std::exchange(other.bytes_, nullptr)),
      size_(other.size_),
      pixels_(other.pixels_),
      tokens_(other.tokens_),
      labels_(other.labels_),
      ends_(other.ends_) {}

RecordFile& RecordFile::operator=(RecordFile&& other) noexcept {
  std::swap(info_, other.info_);
  std::swap(bytes_, other.bytes_);
  std::swap(size_, other.size_);
  std::swap(pixels_, other.pixels_);
  std::swap(tokens_, other.tokens_);
  std::swap(labels_, other.labels_);
  std::swap(ends_, other.ends_);
  return *this;
}

std::size_t RecordFile::first(std::size_t split) const {
  std::size_t sum = 0;
  for (std::size_t s = 0; s < split; ++s) sum += info_.counts[s];
  return sum;
}

std::span<const std::uint8_t> RecordFile::image(std::size_t sample) const {
  const std::size_t pixels = info_.rows * info_.columns;
  return pixels_.subspan(sample * pixels, pixels);
}

std::span<const std::uint16_t> RecordFile::document(std::size_t sample, std::size_t document) const {
  const std::size_t i = sample * info_.documents + document, begin = i == 0 ? 0 : ends_[i - 1];
  return tokens_.subspan(begin, ends_[i] - begin);
}

bool is_record_file(const std::string& path) {
  char bytes[sizeof magic] = {};
  std::ifstream(path, std::ios::binary).read(bytes, sizeof bytes);
  return std::memcmp(bytes, magic, sizeof magic) == 0;
}

}  // namespace rtf::data
