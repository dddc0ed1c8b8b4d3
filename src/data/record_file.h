// Labelled samples that lie ready in one memory-mapped file: images of one size, or sequences of tokens.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/atomic_file.h"

namespace rtf::data {

enum class RecordKind : std::uint32_t {
  image = 1,   // rows x columns bytes a sample
  tokens = 2,  // one or two documents a sample, each any number of tokens
};

// What a record file says of its samples.
struct RecordInfo {
  RecordKind kind = RecordKind::image;
  std::size_t rows = 0, columns = 0;       // of an image
  std::size_t documents = 0;               // of a sample of tokens
  std::size_t classes = 0;                 // labels are below it
  std::vector<std::string> vocabulary;     // token i is written vocabulary[i]
  std::array<std::size_t, 3> counts = {};  // train, val and test: the order of the samples
  std::uint64_t fingerprint = 0;           // of source and settings: another one means that the file is out of date

  std::size_t samples() const { return counts[0] + counts[1] + counts[2]; }
};

// A hash of source and settings, piece after piece; 64-bit FNV-1a, each piece with its length.
class Fingerprint {
 public:
  Fingerprint& add(std::string_view bytes);
  Fingerprint& add(std::uint64_t number);
  std::uint64_t value() const { return value_; }

 private:
  void mix(std::string_view bytes);

  std::uint64_t value_ = 0xcbf29ce484222325;
};

// Samples are added in the order of the splits; commit() gives the file its name, and without it nothing stays.
class RecordWriter {
 public:
  RecordWriter(const std::string& path, RecordInfo info);

  void add_image(std::span<const std::uint8_t> pixels, std::size_t label);
  // documents[d] are the tokens of document d.
  void add_tokens(std::span<const std::span<const std::uint16_t>> documents, std::size_t label);
  void commit();

 private:
  void add(const void* bytes, std::size_t size, std::size_t label);
  void append(const void* bytes, std::size_t size);
  void pad();

  std::string path_;
  RecordInfo info_;
  StagedFile file_;
  std::vector<std::uint64_t> ends_;  // of the documents, in tokens
  std::vector<std::uint16_t> labels_;
  std::vector<char> block_;            // appended, not yet written
  std::vector<std::uint32_t> blocks_;  // the checksum of each block written
  std::uint64_t written_ = 0;
};

// Samples where they lie in the bytes of a record file, which must outlive it. Everything is checked: samples are what
// info() says.
class Records {
 public:
  Records() = default;
  // `path` is for messages. The bytes begin at a multiple of 8.
  Records(std::span<const std::byte> bytes, const std::string& path);

  const RecordInfo& info() const { return info_; }
  std::size_t size() const { return info_.samples(); }
  // The number of the first sample of a split: 0 train, 1 val, 2 test.
  std::size_t first(std::size_t split) const;

  std::size_t label(std::size_t sample) const { return labels_[sample]; }
  std::span<const std::uint8_t> image(std::size_t sample) const;
  std::span<const std::uint16_t> document(std::size_t sample, std::size_t document) const;

 private:
  RecordInfo info_;
  std::span<const std::uint8_t> pixels_;
  std::span<const std::uint16_t> tokens_, labels_;
  std::span<const std::uint64_t> ends_;
};

// A file mapped into memory, and its records.
class RecordFile : public Records {
 public:
  explicit RecordFile(const std::string& path);

 private:
  struct Unmap {
    std::size_t size;
    void operator()(const std::byte* bytes) const;
  };
  std::unique_ptr<const std::byte, Unmap> bytes_;
};

// Whether a file begins as a record file does; false where it cannot be read.
bool is_record_file(const std::string& path);

}  // namespace rtf::data
