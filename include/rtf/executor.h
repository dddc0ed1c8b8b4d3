// Who runs the work. An operation cuts itself into tasks that do not depend on the number of workers,
// so the thread count never changes a bit of a result.
#pragma once

#include <cstddef>
#include <memory>
#include <type_traits>

namespace rtf {

class Executor {
 public:
  using Task = void (*)(void* context, std::size_t task, std::size_t worker);

  virtual ~Executor() = default;
  virtual std::size_t workers() const = 0;
  // Calls task(context, i, w) for every i < tasks; no two calls at once share a worker w < workers().
  virtual void run(std::size_t tasks, Task task, void* context) = 0;
};

template <class F>
void parallel_for(Executor& executor, std::size_t tasks, F&& body) {
  using Body = std::remove_reference_t<F>;
  executor.run(
      tasks, [](void* context, std::size_t task, std::size_t worker) { (*static_cast<Body*>(context))(task, worker); },
      const_cast<void*>(static_cast<const void*>(&body)));
}

// A pool of `threads` workers; the calling thread is one of them. Not re-entrant from its own tasks.
std::unique_ptr<Executor> make_thread_pool(std::size_t threads);

// The pool used when no executor is named. Its size is the environment's RTF_THREADS, else the number of cores.
Executor& default_executor();
// Puts another executor in its place, such as the pool of the program around; not while an operation runs on it.
void set_default_executor(std::unique_ptr<Executor> executor);
// A pool of our own of this size in its place: not while an operation runs on it.
void set_threads(std::size_t threads);
std::size_t threads();

}  // namespace rtf
