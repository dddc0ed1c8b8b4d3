// Batches one after the other, made ahead of their use where a GPU would wait for them.
#pragma once

#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>

#include "train/task.h"

namespace rtf::train {

class BatchStream {
 public:
  // `make(index)` gives batch `index` below `end`, on the host. For a GPU it is called from a thread, several batches
  // ahead, and what it gives is put in memory from which the device copies by itself.
  BatchStream(std::function<Batch(int64_t)> make, int64_t end, c10::Device device);
  ~BatchStream();
  BatchStream(const BatchStream&) = delete;
  BatchStream& operator=(const BatchStream&) = delete;

  // Any batch; the one after the last taken is the one that is ready. Throws what making it threw.
  Batch take(int64_t index);

 private:
  void start(int64_t index);
  void stop();
  void produce(int64_t index);

  std::function<Batch(int64_t)> make_;
  int64_t end_, next_ = -1;  // `next_` is the front of the queue
  bool ahead_;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Batch> ready_;
  std::exception_ptr failure_;
  bool stopping_ = false;
  std::thread thread_;
};

// Copied without waiting when `batch` is one of a stream for that device.
Batch to_device(const Batch& batch, c10::Device device);

}  // namespace rtf::train
