// Where the time of a run goes, part by part.
#pragma once

#include <array>
#include <chrono>
#include <string>
#include <vector>

namespace rtf::train {

// `device` is a GPU's steps, whose parts the host cannot tell apart.
enum class Part { data, forward, backward, optimizer, device, evaluation, checkpoint, logging };

class Profile {
 public:
  // Counts the time until it goes out of scope.
  class Scope {
   public:
    Scope(Profile& profile, Part part) : seconds_(profile.seconds_[static_cast<std::size_t>(part)]) {}
    ~Scope() { seconds_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count(); }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    double& seconds_;
    std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
  };

  // One training step: data, both passes, optimiser and logging.
  void add_step(double seconds) { steps_.push_back(static_cast<float>(seconds)); }

  // Seconds and share of each part, and of the rest of the time since construction; the median of the steps after the
  // first, which warms up.
  std::string table() const;

 private:
  std::array<double, 8> seconds_{};
  std::vector<float> steps_;
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

}  // namespace rtf::train
