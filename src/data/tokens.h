// Texts as tokens in a record file.
#pragma once

#include <exception>
#include <mutex>
#include <string>

#include "data/text_set.h"
#include "rtf/executor.h"

namespace rtf::data {

// Reads the set twice, once for its vocabulary and once for its tokens, and writes the record file.
void write_tokens(const TextSet& set, const std::string& path, std::uint64_t fingerprint);

// parallel_for() on the default executor, where work(i, worker) may throw: the failure of the smallest i is thrown.
template <class F>
void in_parallel(std::size_t count, F&& work) {
  std::mutex mutex;
  std::exception_ptr failure;
  std::size_t failed = count;
  parallel_for(default_executor(), count, [&](std::size_t i, std::size_t worker) {
    try {
      work(i, worker);
    } catch (...) {
      const std::lock_guard lock(mutex);
      if (i < failed) {
        failed = i;
        failure = std::current_exception();
      }
    }
  });
  if (failure) std::rethrow_exception(failure);
}

}  // namespace rtf::data
