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

// How batches are made before they are asked for.
struct Ahead {
  std::size_t batches = 0;  // that wait at most, made by a thread; 0: none, and no thread
  bool pinned = false;      // put in memory from which a GPU copies by itself
};
Ahead ahead_for(c10::Device device);

class BatchStream {
 public:
  // `make(index)` gives batch `index` below `end`, on the host.
  BatchStream(std::function<Batch(int64_t)> make, int64_t end, Ahead ahead);
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
  Ahead ahead_;

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
