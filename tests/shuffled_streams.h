// Sequences through streams that advance each at its own pace, cut, saved, restored and joined by others at random.
#pragma once

#include <algorithm>
#include <cstddef>
#include <random>
#include <span>
#include <stdexcept>
#include <vector>

#include "rtf/stream.h"

namespace rtf::testing {

template <class T>
class Shuffled {
 public:
  // `wanted`: (batch, length, outputs), of pairs (batch / 2, outputs); it must outlive this.
  Shuffled(const stream::Model<T>& model, std::size_t batch, std::size_t length, std::span<const T> wanted,
           unsigned seed)
      : model_(model), batch_(batch), length_(length), wanted_(wanted), seed_(seed) {}

  // Throws unless the answers are `wanted` to the last bit. samples: (batch, length, inputs).
  template <class In>
  void check(const In* samples) const {
    std::mt19937 random(seed_);
    const auto integer = [&](std::size_t low, std::size_t high) {
      return std::uniform_int_distribution<std::size_t>(low, high)(random);
    };
    const bool pair = model_.architecture().decoder == Architecture::Decoder::pair;
    const std::size_t inputs = model_.inputs(), outputs = pair ? 0 : model_.outputs();
    stream::Streams<T> streams(model_, batch_ + 2);
    std::vector<std::size_t> stream(batch_), seen(batch_, 0);
    for (std::size_t& one : stream) one = streams.join();
    std::vector<std::byte> saved(model_.state_bytes());
    std::vector<T> out;
    while (true) {
      std::vector<std::size_t> unfinished;
      for (std::size_t s = 0; s < batch_; ++s)
        if (seen[s] < length_) unfinished.push_back(s);
      if (unfinished.empty()) break;
      const std::size_t s = unfinished[integer(0, unfinished.size() - 1)];
      if (integer(0, 2) == 0) {  // to another place, through bytes
        streams.save(stream[s], saved);
        const std::size_t place = streams.join();
        streams.leave(stream[s]);
        streams.restore(place, saved);
        stream[s] = place;
      }
      std::vector<std::size_t> named = {stream[s]};
      if (integer(0, 1) == 0) named.insert(named.begin(), streams.join());  // a guest that hears the same
      const std::size_t count = integer(1, std::min(length_ - seen[s], integer(0, 1) == 0 ? 3 : length_ / 3 + 1));
      const In* from = samples + (s * length_ + seen[s]) * inputs;
      auto in = channels_last(from, named.size(), count, inputs);
      in.batch_stride = 0;
      if (integer(0, 2) == 0) {
        streams.prefill(named, in);
      } else {
        out.resize(named.size() * count * outputs);
        streams.process(named, in, channels_last(out.data(), named.size(), count, outputs));
        const T* mine = out.data() + (named.size() - 1) * count * outputs;
        const T* right = wanted_.data() + (s * length_ + seen[s]) * outputs;
        if (!std::equal(mine, mine + count * outputs, right))
          throw std::runtime_error("streams that are cut, saved and joined give other answers");
      }
      seen[s] += count;
      if (named.size() == 2) streams.leave(named[0]);
    }
    out.resize(model_.outputs());
    for (std::size_t p = 0; pair && p < batch_ / 2; ++p) {
      streams.answer_pair(stream[p], stream[batch_ / 2 + p], out);
      if (!std::equal(out.begin(), out.end(), wanted_.data() + p * out.size()))
        throw std::runtime_error("pairs that are cut, saved and joined give other answers");
    }
  }

 private:
  const stream::Model<T>& model_;
  std::size_t batch_, length_;
  std::span<const T> wanted_;
  unsigned seed_;
};

}  // namespace rtf::testing
