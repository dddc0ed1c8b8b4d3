// The tasks of the Long Range Arena: samples out of prepared files, texts padded to one length and images as they are.
#include <ATen/ops/empty.h>

#include <algorithm>
#include <array>
#include <filesystem>

#include "core/shuffle.h"
#include "data/prepared.h"
#include "data/vocabulary.h"
#include "rtf/error.h"
#include "train/tasks/objectives.h"
#include "train/tasks/tasks.h"

namespace rtf::train {
namespace {

[[noreturn]] void fail(const std::string& why) { throw Error(ErrorCode::argument, "task", why); }

// Samples of a record file in three splits, fewer of them where the config says so.
class RecordTask : public Classification {
 public:
  RecordTask(const Config& config, data::RecordFile file) : file_(std::move(file)) {
    // Text has no samples to validate on, and takes those of its test split, as has always been done.
    validates_ = config.task.name == "text" ? 2 : 1;
    if (file_.info().counts[validates_] == 0) {
      fail(config.data.path + ": task " + config.task.name + " has no samples to validate on");
    }
    choose(0, config.task.train_size, "task.train_size");
    choose(validates_, config.task.val_size, "task.val_size");
    if (validates_ == 1) choose(2, 0, "");
  }

  std::vector<Split> splits() const override {
    if (validates_ == 2) return {Split::train, Split::val};
    return {Split::train, Split::val, Split::test};
  }
  int64_t size(Split split) const override { return static_cast<int64_t>(samples(split).size()); }

  std::uint64_t fingerprint() const override { return file_.info().fingerprint; }

  std::string selection() const override { return "accuracy"; }
  bool higher_is_better() const override { return true; }

 protected:
  const data::RecordFile& file() const { return file_; }
  std::size_t sample(Split split, int64_t index) const { return samples(split)[static_cast<std::size_t>(index)]; }

  at::Tensor targets(Split split, std::span<const int64_t> indices) const {
    at::Tensor target = at::empty({static_cast<int64_t>(indices.size())}, at::kLong);
    int64_t* values = target.mutable_data_ptr<int64_t>();
    for (const int64_t index : indices) *values++ = static_cast<int64_t>(file_.label(sample(split, index)));
    return target;
  }

 private:
  const std::vector<std::size_t>& samples(Split split) const {
    return chosen_[split == Split::train ? 0 : split == Split::val ? validates_ : 2];
  }

  // `size` samples of a part in one random order, since files may be sorted by class; 0: all, in the file's order.
  void choose(std::size_t part, int64_t size, const char* key) {
    const auto count = static_cast<int64_t>(file_.info().counts[part]);
    if (size > count) {
      fail(std::string(key) + " is " + std::to_string(size) + ", and the data have " + std::to_string(count) +
           " such samples");
    }
    const std::size_t first = file_.first(part);
    for (int64_t i = 0; i < count; ++i) chosen_[part].push_back(first + static_cast<std::size_t>(i));
    if (size == 0 || size == count) return;
    const std::vector<int64_t> order = shuffled(count, Random(42));
    for (int64_t i = 0; i < size; ++i) {
      chosen_[part][static_cast<std::size_t>(i)] = first + static_cast<std::size_t>(order[static_cast<std::size_t>(i)]);
    }
    chosen_[part].resize(static_cast<std::size_t>(size));
  }

  data::RecordFile file_;
  std::size_t validates_ = 1;  // the part that validation takes
  std::array<std::vector<std::size_t>, 3> chosen_;
};

class TokenTask : public RecordTask {
 public:
  // `length` is the task's own: what texts were cut to.
  TokenTask(const Config& config, data::RecordFile records, int64_t length)
      : RecordTask(config, std::move(records)),
        pad_to_(config.data.pad_to),
        limit_(config.model.length ? config.model.length : length) {
    for (std::size_t i = 0; i < file().size(); ++i) longest_ = std::max(longest_, length_of(i));
  }

  void shape(nn::SequenceModelOptions& model) const override {
    model.vocabulary = static_cast<int64_t>(file().info().vocabulary.size());
    model.decoder = file().info().documents == 2 ? nn::Decoder::pair : nn::Decoder::pool;
    model.outputs = static_cast<int64_t>(file().info().classes);
    if (model.layer.length == 0) model.layer.length = limit_;
    set_length(model, longest_);
  }

  int64_t length(Split split, int64_t index) const override { return length_of(sample(split, index)); }

  // Pairs: document 1 of all, then document 2.
  Batch batch(Split split, int64_t, std::span<const int64_t> indices) const override {
    const std::size_t documents = file().info().documents;
    std::vector<std::span<const std::uint16_t>> texts;
    for (std::size_t d = 0; d < documents; ++d) {
      for (const int64_t index : indices) texts.push_back(file().document(sample(split, index), d));
    }
    std::size_t longest = 1;
    for (const auto& text : texts) longest = std::max(longest, text.size());
    const int64_t padded = (static_cast<int64_t>(longest) + pad_to_ - 1) / pad_to_ * pad_to_;
    const int64_t columns = std::max(std::min(padded, limit_), static_cast<int64_t>(longest));
    const auto rows = static_cast<int64_t>(texts.size());
    at::Tensor input = at::empty({rows, columns}, at::kLong), lengths = at::empty({rows}, at::kLong);
    int64_t *values = input.mutable_data_ptr<int64_t>(), *sizes = lengths.mutable_data_ptr<int64_t>();
    for (const auto& text : texts) {
      *sizes++ = static_cast<int64_t>(text.size());
      std::fill(std::copy(text.begin(), text.end(), values), values + columns, int64_t{data::pad_token});
      values += columns;
    }
    return {.input = input, .target = targets(split, indices), .lengths = lengths, .continues = false};
  }

 private:
  int64_t length_of(std::size_t sample) const {
    std::size_t longest = 0;
    for (std::size_t d = 0; d < file().info().documents; ++d) {
      longest = std::max(longest, file().document(sample, d).size());
    }
    return static_cast<int64_t>(longest);
  }

  int64_t pad_to_, limit_, longest_ = 1;
};

class ImageTask : public RecordTask {
 public:
  // A pixel p becomes (p - mean) / deviation.
  ImageTask(const Config& config, at::ScalarType type, data::RecordFile records, double mean, double deviation)
      : RecordTask(config, std::move(records)), type_(type) {
    for (std::size_t p = 0; p < values_.size(); ++p) values_[p] = (static_cast<double>(p) - mean) / deviation;
  }

  void shape(nn::SequenceModelOptions& model) const override {
    model.vocabulary = 0;
    model.features = 1;
    model.decoder = nn::Decoder::pool;
    model.outputs = static_cast<int64_t>(file().info().classes);
    set_length(model, pixels());
  }

  Batch batch(Split split, int64_t, std::span<const int64_t> indices) const override {
    at::Tensor input = at::empty({static_cast<int64_t>(indices.size()), pixels(), 1}, type_);
    if (type_ == at::kDouble) {
      fill(input.mutable_data_ptr<double>(), split, indices);
    } else {
      fill(input.mutable_data_ptr<float>(), split, indices);
    }
    return {.input = input, .target = targets(split, indices), .lengths = {}, .continues = false};
  }

 private:
  int64_t pixels() const { return static_cast<int64_t>(file().info().rows * file().info().columns); }

  template <class T>
  void fill(T* input, Split split, std::span<const int64_t> indices) const {
    for (const int64_t index : indices) {
      for (const std::uint8_t pixel : file().image(sample(split, index))) *input++ = static_cast<T>(values_[pixel]);
    }
  }

  at::ScalarType type_;
  std::array<double, 256> values_;
};

// A record file that data.path names, or holds under the task's name: generated images.
std::string record_file_of(const std::string& path, const std::string& task) {
  for (const std::string& file : {path, (std::filesystem::path(path) / (task + ".records")).string()}) {
    if (data::is_record_file(file)) return file;
  }
  return {};
}

data::RecordFile images(const Config& config, const std::string& cache) {
  const std::string &path = config.data.path, &task = config.task.name;
  if (task == "image") return prepared(data::cifar10_set(path), cache);
  const std::size_t side = task == "pathx" ? 128 : 32;
  const std::string records = record_file_of(path, task);
  if (records.empty()) return prepared(data::pathfinder_set(path, side), cache);
  data::RecordFile file(records);
  const data::RecordInfo& info = file.info();
  if (info.kind != data::RecordKind::image || info.rows != side || info.columns != side || info.classes != 2) {
    fail(records + ": not images of " + std::to_string(side) + " x " + std::to_string(side) +
         " pixels in two classes, which task " + task + " needs");
  }
  return file;
}

}  // namespace

std::unique_ptr<Task> make_arena(const Config& config, at::ScalarType type) {
  const std::string &task = config.task.name, &path = config.data.path;
  if (path.empty()) fail("data.path is empty; task " + task + " needs its data");
  const std::string cache = config.data.cache.empty() ? data::cache_folder(path) : config.data.cache;
  const auto texts = [&](const data::TextSet& set) {
    return std::make_unique<TokenTask>(config, prepared(set, cache), static_cast<int64_t>(set.longest));
  };
  if (task == "listops") return texts(data::listops_set(path));
  if (task == "text") return texts(data::imdb_set(path));
  if (task == "retrieval") return texts(data::aan_set(path));
  // Grey values of CIFAR-10 have about this mean and deviation; those of Pathfinder are brought to [0, 1] alone.
  const bool centred = task == "image";
  return std::make_unique<ImageTask>(config, type, images(config, cache), centred ? 122.6 : 0, centred ? 61 : 255);
}

}  // namespace rtf::train
