// Labelled grey images as the public files hold them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace rtf::data {

struct Images {
  std::array<std::vector<std::size_t>, 3> splits;  // numbers of the images of train, val and test
  // Writes the pixels of an image, row by row, and returns its label. Several threads may call it.
  std::function<std::size_t(std::size_t image, std::span<std::uint8_t> pixels)> read;
};

struct ImageSet {
  std::string name;
  std::size_t rows = 0, columns = 0;
  std::size_t classes = 2;
  std::vector<std::string> files;  // that say whether it changed
  std::function<Images()> load;
};

// Images 0 .. size - 1 in one random order that is the same for all, cut into parts of these sizes.
std::array<std::vector<std::size_t>, 3> split_images(std::size_t size, std::size_t val, std::size_t test);

// The public binary batches, data_batch_{1..5}.bin and test_batch.bin, made grey; or train.bin and test.bin, records
// of a label and 1,024 grey pixels. A tenth of the training images validates.
ImageSet cifar10_set(const std::string& path);
// The public layout: metadata/<number>.npy, which is text, and the PNG files that it names; 80, 10 and 10 of 100.
ImageSet pathfinder_set(const std::string& path, std::size_t side);

}  // namespace rtf::data
