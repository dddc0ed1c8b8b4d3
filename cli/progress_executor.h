// A bar on the terminal while the tasks of an operation run.
#pragma once

#include <atomic>

#include "core/progress_bar.h"
#include "rtf/executor.h"

namespace rtf::cli {

// Runs on another executor and shows how many of its tasks are done.
class ProgressExecutor : public Executor {
 public:
  explicit ProgressExecutor(Executor& inner, bool quiet) : inner_(inner), bar_(quiet) {}

  std::size_t workers() const override { return inner_.workers(); }

  void run(std::size_t tasks, Task task, void* context) override {
    std::atomic<std::size_t> done = 0;
    parallel_for(inner_, tasks, [&](std::size_t i, std::size_t worker) {
      task(context, i, worker);
      bar_.draw(++done, tasks);
    });
  }

 private:
  Executor& inner_;
  ProgressBar bar_;
};

}  // namespace rtf::cli
