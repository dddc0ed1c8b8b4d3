// Sequential MNIST: the pixels of a digit one after the other, row by row, or in one fixed random order.
#include <ATen/Functions.h>

#include <filesystem>

#include "core/shuffle.h"
#include "data/record_file.h"
#include "rtf/error.h"
#include "rtf/random.h"
#include "train/random_streams.h"
#include "train/tasks/idx_file.h"
#include "train/tasks/objectives.h"
#include "train/tasks/tasks.h"

namespace rtf::train {
namespace {

constexpr int64_t classes = 10;

[[noreturn]] void fail(const std::string& why) { throw Error(ErrorCode::argument, "task", why); }

// Images (count, pixels), bytes, and their labels (count), int64.
struct Digits {
  at::Tensor pixels, labels;
};

Digits read_digits(const std::string& folder, const std::string& prefix) {
  const std::string image_file = prefix + "-images-idx3-ubyte", label_file = prefix + "-labels-idx1-ubyte";
  IdxArray images = read_idx(folder, image_file, 3), labels = read_idx(folder, label_file, 1);
  if (images.shape[0] != labels.shape[0]) {
    fail(folder + ": " + image_file + " holds " + std::to_string(images.shape[0]) + " images, " + label_file + " " +
         std::to_string(labels.shape[0]) + " labels");
  }
  for (const std::uint8_t label : labels.values) {
    if (label >= classes) fail(folder + ": " + label_file + " holds the label " + std::to_string(label));
  }
  const auto count = static_cast<int64_t>(images.shape[0]);
  const auto pixels = static_cast<int64_t>(images.shape[1] * images.shape[2]);
  return {at::from_blob(images.values.data(), {count, pixels}, at::kByte).clone(),
          at::from_blob(labels.values.data(), {count}, at::kByte).to(at::kLong)};
}

class SequentialMnist : public Classification {
 public:
  SequentialMnist(const Config& config, at::ScalarType type) : type_(type) {
    const std::string& folder = config.data.path;
    if (folder.empty()) fail("data.path is empty; smnist needs the folder of MNIST's four idx files");
    const Digits training = read_digits(folder, "train"), test = read_digits(folder, "t10k");
    const int64_t count = training.pixels.size(0), pixels = training.pixels.size(1);
    if (test.pixels.size(1) != pixels) {
      fail(folder + ": training images have " + std::to_string(pixels) + " pixels, test images " +
           std::to_string(test.pixels.size(1)));
    }
    // The last 5,000 of the 60,000 training images validate.
    const int64_t val_size = config.task.val_size ? config.task.val_size : count / 12;
    const int64_t train_size = config.task.train_size ? config.task.train_size : count - val_size;
    if (train_size + val_size > count || train_size < 1 || val_size < 1) {
      fail("task.train_size " + std::to_string(train_size) + " and task.val_size " + std::to_string(val_size) +
           " do not fit the " + std::to_string(count) + " training images of " + folder);
    }
    at::Tensor order = at::arange(pixels, at::kLong);
    if (config.task.permuted) {
      // The same order for every seed: runs are compared on one task.
      const std::vector<int64_t> shuffle = shuffled(pixels, Random(0, 0, RandomStream::pixel_order));
      order = at::tensor(shuffle, at::kLong);
    }
    const auto part = [&](const Digits& digits, int64_t first, int64_t size) {
      return Digits{digits.pixels.narrow(0, first, size).index_select(1, order), digits.labels.narrow(0, first, size)};
    };
    train_ = part(training, 0, train_size);
    val_ = part(training, count - val_size, val_size);
    test_ = part(test, 0, test.pixels.size(0));
  }

  void shape(nn::SequenceModelOptions& model) const override {
    model.vocabulary = 0;
    model.features = 1;
    model.decoder = nn::Decoder::pool;
    model.outputs = classes;
    set_length(model, train_.pixels.size(1));
  }

  std::vector<Split> splits() const override { return {Split::train, Split::val, Split::test}; }
  int64_t size(Split split) const override { return digits(split).labels.size(0); }

  Batch batch(Split split, int64_t, std::span<const int64_t> indices) const override {
    const Digits& from = digits(split);
    const at::Tensor chosen = at::tensor(at::IntArrayRef(indices.data(), indices.size()), at::kLong);
    // Grey values in [0, 1].
    at::Tensor input = from.pixels.index_select(0, chosen).to(type_).div_(255).unsqueeze(2);
    return {.input = input, .target = from.labels.index_select(0, chosen), .lengths = {}, .continues = false};
  }

  std::uint64_t fingerprint() const override {
    data::Fingerprint all;
    for (const Digits* part : {&train_, &val_, &test_}) {
      for (const at::Tensor& values : {part->pixels, part->labels}) {
        const at::Tensor whole = values.contiguous();
        all.add(std::string_view(static_cast<const char*>(whole.const_data_ptr()), whole.nbytes()));
      }
    }
    return all.value();
  }

  std::string selection() const override { return "accuracy"; }
  bool higher_is_better() const override { return true; }

 private:
  const Digits& digits(Split split) const {
    return split == Split::train ? train_ : split == Split::val ? val_ : test_;
  }

  at::ScalarType type_;
  Digits train_, val_, test_;
};

}  // namespace

std::unique_ptr<Task> make_smnist(const Config& config, at::ScalarType type) {
  return std::make_unique<SequentialMnist>(config, type);
}

}  // namespace rtf::train
