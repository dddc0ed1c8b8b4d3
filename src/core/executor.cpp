#include "rtf/executor.h"

#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdlib>
#include <exception>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "rtf/error.h"

namespace rtf {
namespace {

class ThreadPool final : public Executor {
 public:
  explicit ThreadPool(std::size_t count) : count_(count) {
    try {
      for (std::size_t worker = 1; worker < count; ++worker) threads_.emplace_back([this, worker] { serve(worker); });
    } catch (const std::exception& error) {
      stop();  // those that did start wait on members that are about to go
      throw Error(ErrorCode::unsupported, "make_thread_pool",
                  "the system gave " + std::to_string(threads_.size() + 1) + " of " + std::to_string(count) +
                      " threads: " + error.what());
    }
  }

  ~ThreadPool() override { stop(); }

  std::size_t workers() const override { return count_; }

  void run(std::size_t tasks, Task task, void* context) override {
    const std::lock_guard one_at_a_time(callers_);
    if (tasks <= 1 || threads_.empty()) {
      for (std::size_t i = 0; i < tasks; ++i) task(context, i, 0);
      return;
    }
    {
      const std::lock_guard lock(mutex_);
      task_ = task;
      context_ = context;
      tasks_ = tasks;
      next_ = 0;
      open_ = true;
      ++generation_;
    }
    wake_.notify_all();
    work(0);
    // Of few tasks none may be left when a thread wakes up: only those that came in time are waited for.
    std::unique_lock lock(mutex_);
    open_ = false;
    done_.wait(lock, [this] { return busy_ == 0; });
    if (failure_) std::rethrow_exception(std::exchange(failure_, nullptr));
  }

 private:
  void stop() {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    wake_.notify_all();
    for (std::thread& thread : threads_) thread.join();
  }

  void serve(std::size_t worker) {
    std::size_t seen = 0;
    std::unique_lock lock(mutex_);
    while (true) {
      wake_.wait(lock, [&] { return stopping_ || (open_ && generation_ != seen); });
      if (stopping_) return;
      seen = generation_;
      ++busy_;
      lock.unlock();
      work(worker);
      lock.lock();
      if (--busy_ == 0) done_.notify_one();
    }
  }

  void work(std::size_t worker) {
    try {
      for (std::size_t i = next_++; i < tasks_; i = next_++) task_(context_, i, worker);
    } catch (...) {
      const std::lock_guard lock(mutex_);
      failure_ = std::current_exception();
      next_ = tasks_;
    }
  }

  const std::size_t count_;
  std::vector<std::thread> threads_;
  std::mutex callers_, mutex_;
  std::condition_variable wake_, done_;
  Task task_ = nullptr;
  void* context_ = nullptr;
  std::size_t tasks_ = 0, busy_ = 0, generation_ = 0;
  std::atomic<std::size_t> next_ = 0;
  std::exception_ptr failure_;
  bool open_ = false, stopping_ = false;
};

std::size_t initial_threads() {
  const char* wanted = std::getenv("RTF_THREADS");
  if (wanted == nullptr || *wanted == '\0') return std::max(1u, std::thread::hardware_concurrency());
  char* end = nullptr;
  const long count = std::strtol(wanted, &end, 10);
  if (*end != '\0' || count < 1 || count > 4096)
    throw Error(ErrorCode::argument, "threads",
                "RTF_THREADS is '" + std::string(wanted) + "'; it must be a number from 1 to 4096");
  return static_cast<std::size_t>(count);
}

std::mutex pool_mutex;
std::size_t threads_before_fork = 0;  // of a pool that a fork() has left without threads
std::unique_ptr<Executor>& pool();

// A child of fork() has none of the threads. The pool is left as it is, since its locks cannot be destroyed any more.
void leave_pool() {
  if (const auto* own = dynamic_cast<const ThreadPool*>(pool().get())) {
    threads_before_fork = own->workers();
    (void)pool().release();
  }
  pool_mutex.unlock();
}

std::unique_ptr<Executor>& pool() {
  static std::unique_ptr<Executor> instance = [] {
    ::pthread_atfork([] { pool_mutex.lock(); }, [] { pool_mutex.unlock(); }, leave_pool);
    return make_thread_pool(initial_threads());
  }();
  return instance;
}

}  // namespace

std::unique_ptr<Executor> make_thread_pool(std::size_t threads) {
  if (threads == 0) throw Error(ErrorCode::argument, "make_thread_pool", "threads is 0; it must be at least 1");
  return std::make_unique<ThreadPool>(threads);
}

Executor& default_executor() {
  const std::lock_guard lock(pool_mutex);
  if (!pool()) pool() = make_thread_pool(threads_before_fork);
  return *pool();
}

void set_default_executor(std::unique_ptr<Executor> executor) {
  if (!executor) throw Error(ErrorCode::argument, "set_default_executor", "the executor is null");
  const std::lock_guard lock(pool_mutex);
  pool().swap(executor);
}

void set_threads(std::size_t threads) { set_default_executor(make_thread_pool(threads)); }

std::size_t threads() { return default_executor().workers(); }

}  // namespace rtf
