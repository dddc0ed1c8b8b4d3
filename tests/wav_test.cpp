#include "rtf/wav.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <filesystem>

#include "core/wav_header.h"
#include "random_filter.h"
#include "temporary_folder.h"

namespace rtf {
namespace {

constexpr SampleFormat formats[] = {SampleFormat::pcm16, SampleFormat::pcm24, SampleFormat::pcm32, SampleFormat::f32,
                                    SampleFormat::f64};

void write(const std::string& path, const WavFormat& format, const std::vector<double>& samples) {
  WavWriter writer(path, format, samples.size() / format.channels);
  writer.write(samples);
  writer.commit();
}

TEST(Wav, EveryFormatComesBackInPiecesOfAnySize) {
  test::TemporaryFolder folder;
  testing::RandomFilters random(1);
  for (int round = 0; round < 100; ++round) {
    const WavFormat format{random.integer(1, 9), static_cast<std::uint32_t>(random.integer(1, 400000)),
                           formats[random.integer(0, 4)], static_cast<std::uint32_t>(random.integer(0, 1) * 3)};
    const std::size_t frames = random.integer(0, 300);
    std::vector<double> samples = random.normals(frames * format.channels), back;
    // Values that the format holds exactly: multiples of its step inside full scale, or floats.
    for (double& value : samples) {
      const double scale = std::ldexp(1.0, 8 * static_cast<int>(bytes_of(format.samples)) - 1);
      if (format.samples == SampleFormat::f32)
        value = static_cast<float>(value);
      else if (format.samples != SampleFormat::f64)
        value = std::round(std::clamp(0.4 * value, -1.0, 0.99) * scale) / scale;
    }
    const std::string path = folder.file("s.wav");
    {
      WavWriter writer(path, format, frames);
      for (std::size_t at = 0; at < samples.size();) {
        const std::size_t count = std::min(samples.size() - at, random.integer(0, 40) * format.channels);
        writer.write(std::span(samples).subspan(at, count));
        at += count;
      }
      EXPECT_EQ(writer.clipped(), 0u);
      writer.commit();
    }
    WavReader reader(path);
    EXPECT_EQ(reader.format().channels, format.channels);
    EXPECT_EQ(reader.format().rate, format.rate);
    EXPECT_EQ(reader.format().samples, format.samples);
    EXPECT_EQ(reader.format().speakers, format.speakers);
    EXPECT_EQ(reader.length(), frames);
    std::vector<double> piece(random.integer(1, 50) * format.channels + format.channels - 1);
    while (const std::size_t got = reader.read(piece))
      back.insert(back.end(), piece.begin(), piece.begin() + static_cast<std::ptrdiff_t>(got * format.channels));
    EXPECT_EQ(back, samples) << name(format.samples);
    EXPECT_EQ(std::filesystem::file_size(path) % 2, 0u);
  }
}

TEST(Wav, PcmIsRoundedToEvenAndClipped) {
  test::TemporaryFolder folder;
  const double step = std::ldexp(1.0, -15);
  WavWriter writer(folder.file("s.wav"), {1, 8000, SampleFormat::pcm16}, 8);
  writer.write(std::vector{0.5 * step, 1.5 * step, -0.5 * step, -1.0, 1 - step, 1.0, -1 - step, std::nan("")});
  EXPECT_EQ(writer.clipped(), 3u);
  writer.commit();
  std::vector<double> back(8);
  EXPECT_EQ(WavReader(folder.file("s.wav")).read(back), 8u);
  EXPECT_EQ(back, (std::vector{0.0, 2 * step, 0.0, -1.0, 1 - step, 1 - step, -1.0, 0.0}));
}

TEST(Wav, NothingStaysWithoutCommit) {
  test::TemporaryFolder folder;
  const std::string path = folder.file("s.wav");
  {
    WavWriter writer(path, {2, 8000, SampleFormat::f32}, 3);
    writer.write(std::vector<double>(4));
    EXPECT_EQ(test::error_of([&] { writer.write(std::vector<double>(4)); }),
              "[rtf::write_wav] " + path + ": 4 samples after 2 of 3 frames of 2 channels");
    EXPECT_EQ(test::error_of([&] { writer.write(std::vector<double>(1)); }),
              "[rtf::write_wav] " + path + ": 1 samples after 2 of 3 frames of 2 channels");
    EXPECT_EQ(test::error_of([&] { writer.commit(); }), "[rtf::write_wav] " + path + ": 2 of 3 frames were written");
  }
  EXPECT_EQ(folder.file_count(), 0u);
  EXPECT_EQ(test::error_of([&] {
              WavWriter(path, {0, 8000}, 1);
            }),
            "[rtf::write_wav] " + path + ": 0 channels of pcm16; a frame holds 1 to 65535 bytes");
  EXPECT_EQ(folder.file_count(), 0u);
}

TEST(Wav, BeyondFourGigabytesItIsRf64) {
  // Sparse, so that it takes no room: the header, then a hole, then one frame at the end.
  test::TemporaryFolder folder;
  const std::string path = folder.file("s.wav");
  constexpr std::uint64_t limit = std::uint64_t{1} << 32;
  for (const std::uint64_t frames : {limit / 6 - 100, limit / 6 + 100}) {
    const WavFormat format{2, 48000, SampleFormat::pcm24};
    const std::string header = wav_header(format, frames);
    EXPECT_EQ(header.substr(0, 4), 6 * frames > limit ? "RF64" : "RIFF");
    test::write_bytes(path, header);
    std::filesystem::resize_file(path, header.size() + 6 * frames);
    EXPECT_EQ(WavReader(path).length(), frames);
  }
}

TEST(Wav, ASecondDataChunkIsRefusedAndOtherChunksArePassedOver) {
  test::TemporaryFolder folder;
  const std::string path = folder.file("s.wav");
  write(path, {1, 8000, SampleFormat::pcm16}, {0.25, 0.5, 0.75});
  const std::string sound = test::read_bytes(path);
  // The length in the second word covers the chunks, or leaves them outside.
  const auto write_with = [&](const std::string& chunks, bool inside) {
    std::string bytes = sound + chunks;
    const auto claimed = static_cast<std::uint32_t>((inside ? bytes : sound).size() - 8);
    std::memcpy(bytes.data() + 4, &claimed, 4);
    test::write_bytes(path, bytes);
  };
  const std::string list("LIST\x03\0\0\0abc\0", 12), data("data\x02\0\0\0xy", 10);
  for (const std::string& chunks : {list, list + list + "dat", std::string("junk\xff\xff\xff\xff", 8) + data}) {
    write_with(chunks, true);
    EXPECT_EQ(WavReader(path).length(), 3u);
  }
  write_with(data, false);
  EXPECT_EQ(WavReader(path).length(), 3u);
  for (const std::string& chunks : {data, list + data}) {
    write_with(chunks, true);
    EXPECT_EQ(test::error_of([&] { WavReader reader(path); }), "[rtf::read_wav] " + path + ": two data chunks");
  }
}

TEST(Wav, DamagedFilesAreReadOrRefused) {
  test::TemporaryFolder folder;
  for (const SampleFormat format : {SampleFormat::pcm16, SampleFormat::f32, SampleFormat::pcm24}) {
    write(folder.file("good.wav"), {2, 44100, format}, std::vector<double>(20, 0.25));
    test::expect_survives_damage(
        test::read_bytes(folder.file("good.wav")), folder.file("bad.wav"),
        [](const std::string& path) {
          WavReader reader(path);
          std::vector<double> samples(reader.format().channels * 64);
          while (reader.read(samples) > 0) {
          }
        },
        600);
  }
}

}  // namespace
}  // namespace rtf
