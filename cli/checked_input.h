// An input of `rtf stream`: samples that a model takes, or one line that says why not.
#pragma once

#include <fmt/format.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "rtf/error.h"
#include "rtf/signal.h"
#include "sample_source.h"

namespace rtf::cli {

// An input with what is read of it checked and in the model's own type: T, or a token.
template <class In>
class Input {
 public:
  Input(const std::string& path, std::unique_ptr<SampleSource> source, std::size_t inputs, std::size_t vocabulary,
        std::size_t block)
      : name_(shown(path)), source_(std::move(source)), vocabulary_(vocabulary), inputs_(inputs) {
    read_.resize(block * inputs);
    samples_.resize(block * inputs);
  }

  const SampleSource& source() const { return *source_; }
  const std::string& name() const { return name_; }

  // The next samples, (1, count, inputs); none at the end. Those before a bad one come first.
  Signal<const In> next() {
    if (!bad_.empty()) throw Error(ErrorCode::argument, "stream", bad_);
    const std::size_t count = source_->read(read_);
    std::size_t good = 0;
    while (good < count * inputs_ && take(good)) ++good;
    position_ += good / inputs_;
    if (good < count * inputs_ && good < inputs_) throw Error(ErrorCode::argument, "stream", bad_);
    return channels_last<const In>(samples_.data(), 1, good / inputs_, inputs_);
  }

 private:
  bool take(std::size_t i) {
    const double value = read_[i];
    if constexpr (std::is_integral_v<In>) {
      if (value >= 0 && value < static_cast<double>(vocabulary_) && value == std::floor(value)) {
        samples_[i] = static_cast<In>(value);
        return true;
      }
      bad_ = fmt::format("{}: sample {} is {}, expected a token, a whole number from 0 to {}", name_, place(i), value,
                         vocabulary_ - 1);
    } else {
      if (std::abs(value) <= std::numeric_limits<In>::max()) {
        samples_[i] = static_cast<In>(value);
        return true;
      }
      bad_ = fmt::format("{}: sample {} holds {}, expected finite values of {}", name_, place(i), value,
                         sizeof(In) == 4 ? "f32" : "f64");
    }
    return false;
  }
  std::uint64_t place(std::size_t i) const { return position_ + i / inputs_; }

  std::string name_, bad_;
  std::unique_ptr<SampleSource> source_;
  std::size_t vocabulary_, inputs_;
  std::vector<double> read_;
  std::vector<In> samples_;
  std::uint64_t position_ = 0;
};

}  // namespace rtf::cli
