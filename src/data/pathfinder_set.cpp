#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <memory>
#include <sstream>

#include "core/file_errors.h"
#include "core/printable.h"
#include "data/image_set.h"
#include "data/png.h"
#include "data/tsv.h"
#include "rtf/error.h"

namespace rtf::data {
namespace {

namespace fs = std::filesystem;
constexpr const char* operation = "read_pathfinder";

struct Image {
  std::string path;
  std::size_t label;
  std::size_t file, row;  // of the metadata
};

// metadata/<number>.npy in the order of the numbers.
std::vector<std::string> metadata_files(const fs::path& folder) {
  std::vector<std::pair<std::uint64_t, fs::path>> numbered;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (entry.path().extension() != ".npy") continue;
    const std::string stem = entry.path().stem().string();
    std::uint64_t number = 0;
    const auto [end, error] = std::from_chars(stem.data(), stem.data() + stem.size(), number);
    if (error != std::errc() || end != stem.data() + stem.size()) {
      throw Error(ErrorCode::format, operation,
                  fmt::format("{}: expected a number for a name", printable(entry.path().string(), 200)));
    }
    numbered.emplace_back(number, entry.path());
  }
  std::sort(numbered.begin(), numbered.end());
  std::vector<std::string> files;
  for (const auto& [number, path] : numbered) files.push_back(path.string());
  return files;
}

// One image a row: sub-folder, file, number, label, and what it was drawn with.
void read_metadata(const fs::path& root, const std::vector<std::string>& files, std::size_t i,
                   std::vector<Image>& images) {
  const std::string& file = files[i];
  std::ifstream text(file);
  if (!text) throw Error(ErrorCode::io, operation, fmt::format("{}: cannot be opened", file));
  std::string line;
  for (std::size_t row = 1; std::getline(text, line); ++row) {
    std::istringstream words(line);
    std::string folder, name, number, label;
    if (!(words >> folder >> name >> number >> label)) {
      fail_row(operation, file, row, "expected a folder, a file, a number and a label");
    }
    // Messages name the picture.
    if (const std::string shown = printable(folder + "/" + name, 400); shown != folder + "/" + name) {
      fail_row(operation, file, row, fmt::format("'{}' is no name of a picture", shown));
    }
    if (label != "0" && label != "1") {
      fail_row(operation, file, row, fmt::format("the label is '{}', expected 0 or 1", printable(label)));
    }
    images.push_back({(root / folder / name).string(), label == "1" ? std::size_t{1} : std::size_t{0}, i, row});
  }
}

Images load(const fs::path& root, const std::vector<std::string>& files, std::size_t side) {
  auto listed = std::make_shared<std::vector<Image>>();
  for (std::size_t i = 0; i < files.size(); ++i) read_metadata(root, files, i, *listed);
  if (listed->empty()) {
    throw Error(ErrorCode::format, operation, fmt::format("{}: no images", (root / "metadata").string()));
  }
  Images images{split_images(listed->size(), listed->size() / 10, listed->size() / 10), {}};
  images.read = [listed, files, side](std::size_t image, std::span<std::uint8_t> pixels) {
    const Image& from = (*listed)[image];
    const auto refuse = [&](const std::string& why) { fail_row(operation, files[from.file], from.row, why); };
    Picture grey;
    try {
      grey = read_png(from.path);
    } catch (const Error& error) {
      refuse(without_operation(error));
    }
    if (grey.rows != side || grey.columns != side) {
      refuse(fmt::format("{}: {} x {} pixels, expected {} x {}", from.path, grey.rows, grey.columns, side, side));
    }
    std::copy(grey.pixels.begin(), grey.pixels.end(), pixels.begin());
    return from.label;
  };
  return images;
}

}  // namespace

ImageSet pathfinder_set(const std::string& path, std::size_t side) {
  std::error_code ignored;
  fs::path root(path);
  if (!fs::is_directory(root / "metadata", ignored)) root /= "curv_contour_length_14";
  if (!fs::is_directory(root / "metadata", ignored)) {
    throw Error(ErrorCode::io, operation,
                fmt::format("{} holds neither metadata/ and imgs/ nor curv_contour_length_14/ with them", path));
  }
  ImageSet set{.name = side == 32 ? "pathfinder" : "pathx",
               .rows = side,
               .columns = side,
               .classes = 2,
               .files = metadata_files(root / "metadata"),
               .load = {}};
  set.load = [root, files = set.files, side] { return load(root, files, side); };
  return set;
}

}  // namespace rtf::data
