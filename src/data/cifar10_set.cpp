#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <set>

#include "core/atomic_file.h"
#include "core/printable.h"
#include "core/shuffle.h"
#include "data/image_set.h"
#include "rtf/error.h"

namespace rtf::data {
namespace {

namespace fs = std::filesystem;
constexpr const char* operation = "read_cifar10";
constexpr std::size_t pixels = 32 * 32, classes = 10;

// Records of one label and `planes` planes of 1,024 bytes.
struct Records {
  std::string bytes;
  std::size_t planes;
  std::size_t size() const { return bytes.size() / (1 + planes * pixels); }
};

Records read_records(const std::string& path, std::size_t planes) {
  Records records{read_file(path, operation), planes};
  const std::size_t record = 1 + planes * pixels;
  if (records.bytes.empty() || records.bytes.size() % record != 0) {
    throw Error(ErrorCode::format, operation,
                fmt::format("{}: truncated: its {} bytes are no whole number of records of {}", path,
                            records.bytes.size(), record));
  }
  for (std::size_t i = 0; i < records.size(); ++i) {
    const auto label = static_cast<std::uint8_t>(records.bytes[i * record]);
    if (label >= classes) {
      throw Error(ErrorCode::format, operation,
                  fmt::format("{}, record {}: label {}, expected 0 to {}", path, i + 1, label, classes - 1));
    }
  }
  return records;
}

struct Files {
  std::vector<std::string> training;
  std::string test;
  std::size_t planes;
};

Files find_files(const std::string& path) {
  std::error_code ignored;
  const auto in = [](const fs::path& folder, const std::string& name) { return (folder / name).string(); };
  for (const fs::path& folder : {fs::path(path), fs::path(path) / "cifar10-gray"}) {
    if (fs::exists(folder / "train.bin", ignored)) return {{in(folder, "train.bin")}, in(folder, "test.bin"), 1};
  }
  for (const fs::path& folder : {fs::path(path), fs::path(path) / "cifar-10-batches-bin"}) {
    if (!fs::exists(folder / "data_batch_1.bin", ignored)) continue;
    Files files{{}, in(folder, "test_batch.bin"), 3};
    for (int i = 1; i <= 5; ++i) files.training.push_back(in(folder, fmt::format("data_batch_{}.bin", i)));
    return files;
  }
  // The sets come as archives, which are not read.
  const char* unpack = "unpack it with tar -xf, and name the folder that this makes";
  if (fs::is_regular_file(path, ignored)) {
    throw Error(ErrorCode::io, operation, fmt::format("{} is no folder; if it is an archive, {}", path, unpack));
  }
  std::set<std::string> archives;
  for (const auto& entry : fs::directory_iterator(path, ignored)) {
    const std::string name = entry.path().filename().string();
    if (name.find(".tar") != std::string::npos) archives.insert(printable(name));
  }
  if (!archives.empty()) {
    throw Error(ErrorCode::io, operation,
                fmt::format("{} holds the archive {}: {}", path, fmt::join(archives, ", or "), unpack));
  }
  throw Error(ErrorCode::io, operation,
              fmt::format("{} holds neither data_batch_1.bin to data_batch_5.bin and test_batch.bin nor train.bin and "
                          "test.bin",
                          path));
}

// The test images are those of the last file.
Images load(const std::vector<std::string>& files, std::size_t planes) {
  auto all = std::make_shared<std::vector<Records>>();
  std::size_t training = 0, size = 0;
  for (const std::string& file : files) {
    training = size;
    all->push_back(read_records(file, planes));
    size += all->back().size();
  }
  Images images{split_images(training, training / 10, 0), {}};
  for (std::size_t i = training; i < size; ++i) images.splits[2].push_back(i);

  images.read = [all, planes](std::size_t image, std::span<std::uint8_t> grey) -> std::size_t {
    auto records = all->begin();
    for (; image >= records->size(); ++records) image -= records->size();
    const auto* record = reinterpret_cast<const std::uint8_t*>(records->bytes.data()) + image * (1 + planes * pixels);
    const std::uint8_t* red = record + 1;
    if (planes == 1) {
      std::copy(red, red + pixels, grey.begin());
    } else {
      // The weights of ITU-R 601 in 16 bits, rounded.
      for (std::size_t i = 0; i < pixels; ++i) {
        grey[i] = static_cast<std::uint8_t>(
            (19595u * red[i] + 38470u * red[pixels + i] + 7471u * red[2 * pixels + i] + 32768u) >> 16);
      }
    }
    return record[0];
  };
  return images;
}

}  // namespace

std::array<std::vector<std::size_t>, 3> split_images(std::size_t size, std::size_t val, std::size_t test) {
  const std::vector<std::int64_t> order = shuffled(static_cast<std::int64_t>(size), Random(42));
  std::array<std::vector<std::size_t>, 3> parts;
  for (std::size_t i = 0; i < size; ++i) {
    parts[i < size - val - test ? 0 : i < size - test ? 1 : 2].push_back(static_cast<std::size_t>(order[i]));
  }
  return parts;
}

ImageSet cifar10_set(const std::string& path) {
  const Files found = find_files(path);
  ImageSet set{.name = "image", .rows = 32, .columns = 32, .classes = classes, .files = found.training, .load = {}};
  set.files.push_back(found.test);
  set.load = [files = set.files, planes = found.planes] { return load(files, planes); };
  return set;
}

}  // namespace rtf::data
