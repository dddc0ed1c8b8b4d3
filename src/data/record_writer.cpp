#include <cstring>
#include <utility>

#include "core/arguments.h"
#include "data/record_format.h"

namespace rtf::data {
namespace {

constexpr const char* writing = "write_records";

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
  file_.append(std::string(padded(sizeof(RecordHeader)), '\0'));
  block_.reserve(record_block);
}

void RecordWriter::append(const void* bytes, std::size_t size) {
  const auto* at = static_cast<const char*>(bytes);
  while (size > 0) {
    const std::size_t taken = std::min(size, record_block - block_.size());
    block_.insert(block_.end(), at, at + taken);
    at += taken;
    size -= taken;
    if (block_.size() < record_block) continue;
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

  RecordHeader header{};
  std::memcpy(header.magic, record_magic, sizeof record_magic);
  header.version = record_version;
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
  header.header_checksum = checksum_of(header);
  file_.overwrite(0, {reinterpret_cast<const char*>(&header), sizeof header});
  file_.commit();
}

}  // namespace rtf::data
