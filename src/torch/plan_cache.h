// Plans by their sizes: a training run asks for the same few again and again.
#pragma once

#include <map>
#include <memory>
#include <mutex>

namespace rtf::ops {

template <class Key, class Plan>
class PlanCache {
 public:
  template <class Make>
  std::shared_ptr<const Plan> get(const Key& key, Make&& make) {
    const std::lock_guard lock(mutex_);
    if (const auto found = plans_.find(key); found != plans_.end()) return found->second;
    // Ragged lengths make many plans; their transforms are cached below, so starting over costs little.
    if (plans_.size() == most) plans_.clear();
    return plans_.emplace(key, std::make_shared<const Plan>(make())).first->second;
  }

 private:
  static constexpr std::size_t most = 64;
  std::mutex mutex_;
  std::map<Key, std::shared_ptr<const Plan>> plans_;
};

}  // namespace rtf::ops
