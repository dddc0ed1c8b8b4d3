// Record files: samples back as they were added, and every kind of damage refused.
#include "data/record_file.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>

#include "core/checksum.h"
#include "expect_refusal.h"
#include "temporary_folder.h"

namespace rtf::data {
namespace {

using rtf::test::TemporaryFolder;
using rtf::testing::expect_refusal;

struct Images {
  RecordInfo info;
  std::vector<std::vector<std::uint8_t>> pixels;
  std::vector<std::size_t> labels;
};

Images write_images(const std::string& path, std::mt19937& random, std::array<std::size_t, 3> counts) {
  Images images;
  images.info.rows = 1 + random() % 50;
  images.info.columns = 1 + random() % 50;
  images.info.classes = 1 + random() % 300;
  images.info.counts = counts;
  images.info.fingerprint = std::uint64_t{random()} << 32 | random();
  RecordWriter writer(path, images.info);
  for (std::size_t i = 0; i < images.info.samples(); ++i) {
    images.pixels.emplace_back(images.info.rows * images.info.columns);
    for (auto& pixel : images.pixels.back()) pixel = static_cast<std::uint8_t>(random());
    images.labels.push_back(random() % images.info.classes);
    writer.add_image(images.pixels.back(), images.labels.back());
  }
  writer.commit();
  return images;
}

struct Texts {
  RecordInfo info;
  std::vector<std::vector<std::uint16_t>> documents;
  std::vector<std::size_t> labels;
};

Texts write_texts(const std::string& path, std::mt19937& random, std::size_t documents) {
  Texts texts;
  texts.info.kind = RecordKind::tokens;
  texts.info.documents = documents;
  texts.info.classes = 10;
  texts.info.vocabulary = {"<pad>", "", std::string("\0\n", 2), "\xc3\xa9"};
  while (texts.info.vocabulary.size() < 700) texts.info.vocabulary.push_back(std::to_string(random()));
  texts.info.counts = {random() % 20, random() % 5, random() % 5};
  RecordWriter writer(path, texts.info);
  for (std::size_t i = 0; i < texts.info.samples(); ++i) {
    std::vector<std::span<const std::uint16_t>> sample;
    const std::size_t first = texts.documents.size();
    for (std::size_t d = 0; d < documents; ++d) {
      texts.documents.emplace_back(random() % 3 == 0 ? 0 : random() % 9000);
      for (auto& token : texts.documents.back()) token = static_cast<std::uint16_t>(random() % 700);
    }
    for (std::size_t d = 0; d < documents; ++d) sample.push_back(texts.documents[first + d]);
    texts.labels.push_back(random() % 10);
    writer.add_tokens(sample, texts.labels.back());
  }
  writer.commit();
  return texts;
}

TEST(RecordFile, ImagesComeBack) {
  const TemporaryFolder folder;
  std::mt19937 random(1);
  for (int round = 0; round < 8; ++round) {
    const std::string path = folder.file("images.records");
    const Images images = write_images(path, random, {random() % 900, random() % 9, random() % 9});
    RecordFile opened(path);
    const RecordFile file = std::move(opened);
    EXPECT_TRUE(is_record_file(path));
    EXPECT_EQ(file.info().rows, images.info.rows);
    EXPECT_EQ(file.info().columns, images.info.columns);
    EXPECT_EQ(file.info().classes, images.info.classes);
    EXPECT_EQ(file.info().counts, images.info.counts);
    EXPECT_EQ(file.info().fingerprint, images.info.fingerprint);
    EXPECT_EQ(file.first(2), images.info.counts[0] + images.info.counts[1]);
    ASSERT_EQ(file.size(), images.pixels.size());
    for (std::size_t i = 0; i < file.size(); ++i) {
      EXPECT_TRUE(std::ranges::equal(file.image(i), images.pixels[i]));
      EXPECT_EQ(file.label(i), images.labels[i]);
    }
  }
  EXPECT_EQ(folder.file_count(), 1u);
}

TEST(RecordFile, DocumentsComeBack) {
  const TemporaryFolder folder;
  std::mt19937 random(2);
  for (int round = 0; round < 8; ++round) {
    const std::string path = folder.file("texts.records");
    const std::size_t documents = 1 + random() % 2;
    const Texts texts = write_texts(path, random, documents);
    const RecordFile file(path);
    EXPECT_EQ(file.info().vocabulary, texts.info.vocabulary);
    ASSERT_EQ(file.size(), texts.labels.size());
    for (std::size_t i = 0; i < texts.documents.size(); ++i)
      EXPECT_TRUE(std::ranges::equal(file.document(i / documents, i % documents), texts.documents[i]));
    for (std::size_t i = 0; i < file.size(); ++i) EXPECT_EQ(file.label(i), texts.labels[i]);
  }
}

TEST(RecordFile, NothingStaysWithoutCommit) {
  const TemporaryFolder folder;
  RecordInfo info;
  info.rows = info.columns = 1;
  info.classes = 2;
  info.counts = {2, 0, 0};
  {
    RecordWriter writer(folder.file("half.records"), info);
    writer.add_image(std::vector<std::uint8_t>{7}, 1);
    expect_refusal("is to hold 2 samples and got 1", [&] { writer.commit(); });
  }
  EXPECT_EQ(folder.file_count(), 0u);
}

TEST(RecordFile, WriterRefusesWhatTheFileCannotHold) {
  const TemporaryFolder folder;
  RecordInfo info;
  info.rows = info.columns = 2;
  info.classes = 2;
  info.counts = {1, 0, 0};
  const std::vector<std::uint8_t> pixels(4);
  RecordWriter writer(folder.file("r"), info);
  expect_refusal("an image has 3 values; 4 are needed", [&] { writer.add_image(std::span(pixels).first(3), 0); });
  expect_refusal("sample 0 has label 2 of 2 classes", [&] { writer.add_image(pixels, 2); });
  expect_refusal("0 are needed", [&] { writer.add_tokens(std::vector<std::span<const std::uint16_t>>(1), 0); });
  writer.add_image(pixels, 1);
  expect_refusal("one more", [&] { writer.add_image(pixels, 1); });
  info.rows = 0;
  expect_refusal("no record file holds", [&] { RecordWriter(folder.file("r"), info); });
  RecordInfo text;
  text.kind = RecordKind::tokens;
  text.documents = 1;
  text.classes = 2;
  text.counts = {1, 0, 0};
  text.vocabulary = {"a", "b"};
  RecordWriter tokens(folder.file("t"), text);
  const std::vector<std::uint16_t> document = {1, 0, 2};
  const std::vector<std::span<const std::uint16_t>> sample = {document};
  expect_refusal("sample 0 has token 2; the vocabulary has 2", [&] { tokens.add_tokens(sample, 0); });
}

TEST(RecordFile, RefusesDamage) {
  const TemporaryFolder folder;
  std::mt19937 random(3);
  const std::string path = folder.file("r.records"), damaged = folder.file("damaged");
  write_images(path, random, {40, 5, 5});
  const std::string bytes = test::read_bytes(path);
  const auto refuses = [&](const std::string& with, const std::string& why) {
    test::write_bytes(damaged, with);
    expect_refusal("[rtf::read_records] " + damaged + ": " + why, [&] { RecordFile{damaged}; });
  };
  refuses("", "it is no record file");
  refuses("Source\tTarget\n", "it is no record file");
  refuses(bytes.substr(0, 100), "the record file is truncated: it has 100 bytes");
  refuses(bytes.substr(0, bytes.size() - 64), "the record file is truncated");
  refuses(bytes + "x", "the record file has 1 bytes behind its end");
  for (int round = 0; round < 200; ++round) {
    std::string flipped = bytes;
    const std::size_t at = 12 + random() % (bytes.size() - 12);
    flipped[at] = static_cast<char>(flipped[at] ^ (1 << random() % 8));
    refuses(flipped, at < 128 ? "the header is damaged: its checksum differs"
                              : "the records are damaged: their checksum differs");
  }
  std::string newer = bytes;
  newer[8] = 2;
  refuses(newer, "version 2 of record files is newer than this program, which reads 1");
  expect_refusal("cannot read " + folder.file("none"), [&] { RecordFile{folder.file("none")}; });
  expect_refusal("it is not a regular file", [&] { RecordFile{folder.file("")}; });
}

// A header with a right checksum and wrong numbers: whatever they are, no access leaves the file.
TEST(RecordFile, RefusesHeadersThatLie) {
  const TemporaryFolder folder;
  std::mt19937_64 random(4);
  std::mt19937 samples(5);
  for (const bool image : {true, false}) {
    const std::string path = folder.file("r.records");
    image ? void(write_images(path, samples, {4, 1, 1})) : void(write_texts(path, samples, 2));
    const std::string bytes = test::read_bytes(path);
    for (int round = 0; round < 200; ++round) {
      std::string lying = bytes;
      const std::size_t at = 24 + 8 * (random() % 13);
      std::uint64_t number = random() >> random() % 64;
      if (random() % 2) {
        std::memcpy(&number, &lying[at], 8);
        number += random() % 5 - 2;
      }
      std::memcpy(&lying[at], &number, 8);
      const std::uint32_t sum = crc32(0, &lying[16], 128 - 16);
      std::memcpy(&lying[12], &sum, 4);
      test::write_bytes(path, lying);
      try {
        const RecordFile file(path);
        std::size_t total = 0;
        for (std::size_t i = 0; i < file.size(); ++i) {
          total += file.label(i);
          if (image) total += file.image(i).back();
          for (std::size_t d = 0; !image && d < file.info().documents; ++d)
            for (const std::uint16_t token : file.document(i, d)) total += token;
        }
        EXPECT_GE(total, 0u);
      } catch (const Error& error) {
        EXPECT_EQ(std::string(error.what()).rfind("[rtf::read_records] " + path, 0), 0u) << error.what();
      }
    }
  }
}

TEST(Fingerprint, TellsPiecesApart) {
  EXPECT_NE(Fingerprint().add("ab").add("c").value(), Fingerprint().add("a").add("bc").value());
  EXPECT_NE(Fingerprint().add("").value(), Fingerprint().value());
  EXPECT_EQ(Fingerprint().add("a").add(3).value(), Fingerprint().add("a").add(3).value());
  EXPECT_NE(Fingerprint().add(std::uint64_t{3}).value(), Fingerprint().add(std::uint64_t{4}).value());
}

}  // namespace
}  // namespace rtf::data
