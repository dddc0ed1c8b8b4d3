#include "train/caching_allocator.h"

#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <mutex>
#include <unordered_map>

#include "rtf/workspace.h"

namespace rtf::train {
namespace {

constexpr std::size_t smallest = 1 << 20;  // smaller tensors are left to torch's own allocator
constexpr std::size_t unit = 1 << 16;      // sizes are rounded up to it

class CachingAllocator final : public c10::Allocator {
 public:
  explicit CachingAllocator(c10::Allocator* small) : small_(small) {}

  c10::DataPtr allocate(std::size_t bytes) override {
    if (bytes < smallest) return small_->allocate(bytes);
    void* data = take((bytes + unit - 1) / unit * unit);
    return {data, data, &give_back, c10::Device(c10::DeviceType::CPU)};
  }

  // For those who keep bare pointers, as oneDNN does behind some of torch's operators: finds out whose a block is.
  c10::DeleterFnPtr raw_deleter() const override { return &give_back_any; }
  void copy_data(void* to, const void* from, std::size_t count) const override { std::memcpy(to, from, count); }

 private:
  void* take(std::size_t bytes) {
    const std::lock_guard lock(mutex_);
    // A block up to an eighth too large will do; ragged batches differ by that much.
    auto found = free_.lower_bound(bytes);
    if (found == free_.end() || found->first > bytes + bytes / 8) {
      Workspace fresh(bytes);
      live_ += bytes;
      most_live_ = std::max(most_live_, live_);
      void* data = fresh.data();
      used_.emplace(data, std::move(fresh));
      return data;
    }
    live_ += found->first;
    most_live_ = std::max(most_live_, live_);
    cached_ -= found->first;
    Workspace block = std::move(found->second);
    free_.erase(found);
    void* data = block.data();
    used_.emplace(data, std::move(block));
    return data;
  }

  void put(void* data) {
    const std::lock_guard lock(mutex_);
    const auto found = used_.find(data);
    const std::size_t bytes = found->second.size();
    live_ -= bytes;
    cached_ += bytes;
    free_.emplace(bytes, std::move(found->second));
    used_.erase(found);
    // Never more in all than an eighth above what was once in use at the same time.
    while (!free_.empty() && live_ + cached_ > most_live_ + most_live_ / 8) {
      const auto largest = std::prev(free_.end());
      cached_ -= largest->first;
      free_.erase(largest);
    }
  }

  bool is_ours(void* data) {
    const std::lock_guard lock(mutex_);
    return used_.contains(data);
  }

  static void give_back(void* data);
  static void give_back_any(void* data);

  c10::Allocator* small_;
  std::mutex mutex_;
  std::unordered_map<void*, Workspace> used_;
  std::multimap<std::size_t, Workspace> free_;
  std::size_t live_ = 0, most_live_ = 0, cached_ = 0;
};

// Lives until the process ends: tensors in static variables are freed after everything else.
CachingAllocator& instance() {
  static auto* allocator = new CachingAllocator(c10::GetDefaultCPUAllocator());
  return *allocator;
}

void CachingAllocator::give_back(void* data) { instance().put(data); }

void CachingAllocator::give_back_any(void* data) {
  if (instance().is_ours(data)) return instance().put(data);
  instance().small_->raw_deallocate(data);
}

}  // namespace

void cache_tensor_memory() { c10::SetCPUAllocator(&instance(), /*priority=*/1); }

}  // namespace rtf::train
