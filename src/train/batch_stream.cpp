#include "train/batch_stream.h"

#include <ATen/core/Tensor.h>

#include <string>

#include "rtf/error.h"

namespace rtf::train {
namespace {

Batch pinned(Batch batch) {
  batch.input = batch.input.pin_memory();
  batch.target = batch.target.pin_memory();
  if (batch.lengths) batch.lengths = batch.lengths->pin_memory();
  return batch;
}

}  // namespace

Ahead ahead_for(c10::Device device) { return device.is_cpu() ? Ahead{} : Ahead{.batches = 8, .pinned = true}; }

BatchStream::BatchStream(std::function<Batch(int64_t)> make, int64_t end, Ahead ahead)
    : make_(std::move(make)), end_(end), ahead_(ahead) {}

BatchStream::~BatchStream() { stop(); }

void BatchStream::stop() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  thread_.join();
  ready_.clear();
  failure_ = nullptr;
  stopping_ = false;
}

void BatchStream::start(int64_t index) {
  stop();
  next_ = index;
  thread_ = std::thread([this, index] { produce(index); });
}

void BatchStream::produce(int64_t index) {
  try {
    for (; index < end_; ++index) {
      Batch batch = make_(index);
      if (ahead_.pinned) batch = pinned(std::move(batch));
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return stopping_ || ready_.size() < ahead_.batches; });
      if (stopping_) return;
      ready_.push_back(std::move(batch));
      changed_.notify_all();
    }
  } catch (...) {
    const std::lock_guard lock(mutex_);
    failure_ = std::current_exception();
    changed_.notify_all();
  }
}

Batch BatchStream::take(int64_t index) {
  if (index < 0 || index >= end_)
    throw Error(ErrorCode::argument, "train", "batch " + std::to_string(index) + " of " + std::to_string(end_));
  if (ahead_.batches == 0) return make_(index);
  if (index != next_) start(index);
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return !ready_.empty() || failure_; });
  if (ready_.empty()) std::rethrow_exception(failure_);
  Batch batch = std::move(ready_.front());
  ready_.pop_front();
  ++next_;
  changed_.notify_all();
  return batch;
}

Batch to_device(const Batch& batch, c10::Device device) {
  if (device.is_cpu()) return batch;
  const auto copy = [&](const at::Tensor& tensor) { return tensor.to(device, /*non_blocking=*/true); };
  Batch there{copy(batch.input), copy(batch.target), {}, batch.continues};
  if (batch.lengths) there.lengths = copy(*batch.lengths);
  return there;
}

}  // namespace rtf::train
