#include "train/checkpoint.h"

#include <ATen/Functions.h>
#include <ATen/core/grad_mode.h>
#include <fcntl.h>
#include <unistd.h>

#include <charconv>
#include <cstring>
#include <filesystem>
#include <string_view>
#include <system_error>

#include "core/atomic_file.h"
#include "core/checkpoint_file.h"
#include "core/checkpoint_parts.h"
#include "core/checksum.h"
#include "core/printable.h"
#include "core/safetensors_bytes.h"
#include "rtf/error.h"
#include "rtf/safetensors.h"

namespace rtf::train {
namespace {

namespace fs = std::filesystem;
constexpr std::string_view config_prefix = "config.", shape_prefix = "shape.";  // of metadata

[[noreturn]] void fail(const std::string& path, const std::string& why, ErrorCode code = ErrorCode::format) {
  throw Error(code, "checkpoint", path + ": " + why);
}

std::string shape_text(at::IntArrayRef shape) {
  std::string text = "(";
  for (std::size_t i = 0; i < shape.size(); ++i) text += (i ? ", " : "") + std::to_string(shape[i]);
  return text + ")";
}

// Shortest text that reads back to the same bits.
template <class T>
std::string number_text(T value) {
  char text[64];
  return {text, std::to_chars(text, text + sizeof text, value).ptr};
}

class Metadata {
 public:
  Metadata(const std::map<std::string, std::string>& entries, const std::string& path)
      : entries_(entries), path_(path) {}

  template <class T>
  void read(const char* key, T& value) const {
    const auto found = entries_.find(key);
    if (found == entries_.end()) fail(path_, std::string("its metadata has no '") + key + "': not a checkpoint");
    const std::string& text = found->second;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size()) {
      fail(path_, std::string("its metadata '") + key + "' is '" + printable(text) + "'");
    }
  }

 private:
  const std::map<std::string, std::string>& entries_;
  const std::string& path_;
};

// Every number of a Position that is always there, under its key.
template <class P, class F>
void each_number(P& position, F&& visit) {
  visit("step", position.step);
  visit("epoch", position.epoch);
  visit("batch", position.batch);
  visit("chunk", position.chunk);
  visit("evaluated", position.evaluated);
  visit("best_step", position.best_step);
  visit("loss_sum", position.loss_sum);
  visit("loss_count", position.loss_count);
  visit("seconds", position.seconds);
}

TensorFile to_file(const Checkpoint& checkpoint) {
  TensorFile file;
  for (const auto& [name, tensor] : checkpoint.tensors) {
    Array array;
    for (const int64_t size : tensor.sizes()) array.shape.push_back(static_cast<std::size_t>(size));
    array.type = tensor.scalar_type() == at::kFloat ? DataType::f32 : DataType::f64;
    const at::Tensor values = tensor.detach().to(at::TensorOptions(at::kCPU).dtype(at::kDouble)).contiguous();
    const double* data = values.const_data_ptr<double>();
    array.values.assign(data, data + values.numel());
    file.tensors[name] = std::move(array);
  }
  file.metadata = {{"format", checkpoint_format}};
  for (const auto& [key, value] : checkpoint.config) file.metadata[std::string(config_prefix) + key] = value;
  for (const auto& [key, value] : checkpoint.shape) file.metadata[std::string(shape_prefix) + key] = value;
  each_number(checkpoint.position, [&](const char* key, auto value) { file.metadata[key] = number_text(value); });
  if (checkpoint.position.best) file.metadata["best"] = number_text(*checkpoint.position.best);
  if (checkpoint.evaluated_data) file.metadata["evaluated_data"] = number_text(checkpoint.evaluated_data);
  file.metadata["crc32"] = number_text(checksum(file));
  return file;
}

void sync_folder(const fs::path& folder) {
  const int descriptor = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) return;
  (void)::fsync(descriptor);  // some file systems cannot
  ::close(descriptor);
}

// `target` becomes a second name of `file`, which needs no space on the disk. File systems without hard links copy.
void link_as(const fs::path& file, const fs::path& target) {
  const fs::path temporary = target.string() + ".tmp";
  std::error_code error, ignored;
  fs::remove(temporary, ignored);
  fs::create_hard_link(file, temporary, error);
  if (error) fs::copy_file(file, temporary, error);
  if (!error) fs::rename(temporary, target, error);
  fs::remove(temporary, ignored);  // a rename between two names of one file leaves both
  if (!error) return;
  fail(target.string(), "cannot be written: " + error.message(), ErrorCode::io);
}

constexpr const char* next_file = "next.safetensors.tmp";

}  // namespace

void write_checkpoint(const std::string& folder, const Checkpoint& checkpoint, bool best, std::size_t part_size) {
  const fs::path latest = fs::path(folder) / latest_file, next = fs::path(folder) / next_file;
  {
    const std::string bytes = safetensors_bytes(to_file(checkpoint), latest.string());
    if (part_size > 0 && bytes.size() > part_size) {
      write_parts(next.string(), "step" + std::to_string(checkpoint.position.step), bytes, part_size);
    } else {
      StagedFile(next.string(), bytes, "checkpoint").commit();
    }
  }
  std::error_code error;
  try {
    // Before the rename: a run that goes on from the old latest finds the same best again.
    if (best) link_as(next, fs::path(folder) / best_file);
    if (fs::exists(latest, error)) link_as(latest, fs::path(folder) / previous_file);
    fs::rename(next, latest, error);
    if (error) fail(latest.string(), "cannot be written: " + error.message(), ErrorCode::io);
  } catch (...) {
    fs::remove(next, error);
    throw;
  }
  remove_unused_parts(folder);
  sync_folder(folder);
}

void make_latest(const std::string& folder, const std::string& file) {
  link_as(file, fs::path(folder) / latest_file);
  sync_folder(folder);
}

void remove_temporaries(const std::string& folder) {
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(folder, ignored)) {
    if (entry.path().extension() == ".tmp") fs::remove(entry.path(), ignored);
  }
  remove_unused_parts(folder);
}

Checkpoint read_checkpoint(const std::string& path) {
  const TensorFile file = read_model_or_checkpoint(path);
  check_checkpoint(file, path);
  const Metadata metadata(file.metadata, path);
  Checkpoint checkpoint;
  for (const auto& [key, value] : file.metadata) {
    if (key.starts_with(config_prefix)) checkpoint.config[key.substr(config_prefix.size())] = value;
    if (key.starts_with(shape_prefix)) checkpoint.shape[key.substr(shape_prefix.size())] = value;
  }
  each_number(checkpoint.position, [&](const char* key, auto& value) { metadata.read(key, value); });
  if (file.metadata.contains("best")) metadata.read("best", checkpoint.position.best.emplace());
  if (file.metadata.contains("evaluated_data")) metadata.read("evaluated_data", checkpoint.evaluated_data);

  for (const auto& [name, array] : file.tensors) {
    const std::vector<int64_t> shape(array.shape.begin(), array.shape.end());
    const at::Tensor values = at::empty(shape, at::kDouble);
    if (!array.values.empty()) {
      std::memcpy(values.mutable_data_ptr<double>(), array.values.data(), array.values.size() * sizeof(double));
    }
    checkpoint.tensors.emplace_back(name, array.type == DataType::f32 ? values.to(at::kFloat) : values);
  }
  return checkpoint;
}

void load_tensors(const Checkpoint& checkpoint, const NamedTensors& into, const std::string& prefix,
                  const std::string& path) {
  const at::NoGradGuard no_grad;
  std::map<std::string, at::Tensor> there;
  for (const auto& [name, tensor] : checkpoint.tensors) {
    if (name.starts_with(prefix)) there.emplace(name, tensor);
  }
  const auto differ = [&](const std::string& name, const std::string& how) {
    fail(path, "checkpoint of another model: " + name.substr(prefix == "model." ? prefix.size() : 0) + " " + how,
         ErrorCode::argument);
  };
  // All names and shapes before the first copy: a refused checkpoint changes nothing.
  std::vector<std::pair<at::Tensor, at::Tensor>> copies;
  for (const auto& [name, tensor] : into) {
    if (!name.starts_with(prefix)) continue;
    const auto found = there.find(name);
    if (found == there.end()) differ(name, "is not there");
    if (found->second.sizes() != tensor.sizes()) {
      differ(name, "is " + shape_text(found->second.sizes()) + " there and " + shape_text(tensor.sizes()) + " here");
    }
    copies.emplace_back(tensor, found->second);
    there.erase(found);
  }
  if (!there.empty()) differ(there.begin()->first, "is there and not here");
  for (const auto& [to, from] : copies) to.copy_(from);
}

}  // namespace rtf::train
