// The deployable runtime: a model file run sample by sample. Once a Model and its Streams are made, nothing here
// allocates, locks or calls the system, unless an argument is wrong and an error is thrown.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "rtf/model_file.h"
#include "rtf/signal.h"

namespace rtf::stream {

// Weights laid out for the processor; immutable, so that threads may share it. T, float or double, is the type of the
// arithmetic and of the samples. A copy shares the weights.
template <class T>
class Model {
 public:
  // Throws for float arithmetic with a file of double precision.
  explicit Model(const ModelFile& file);
  static Model load(const std::string& path) { return Model(read_model(path)); }

  const Architecture& architecture() const;
  std::size_t inputs() const;   // numbers of a sample: the features, or 1 token
  std::size_t outputs() const;  // numbers of an answer
  std::size_t weight_bytes() const;
  // Of one saved stream.
  std::size_t state_bytes() const;

  struct Impl;
  std::shared_ptr<const Impl> impl;
};

// Independent streams of one model that advance together or each on its own: weights are read once for all of a call.
// A stream is a number below the capacity. Answers do not depend on which other streams run beside it, nor on how its
// samples are cut into calls, to the last bit. One thread at a time may use a Streams.
template <class T>
class Streams {
 public:
  // Throws for a bidirectional model, which sees whole sequences: Sequences runs it.
  Streams(const Model<T>& model, std::size_t capacity);
  ~Streams();
  Streams(Streams&&) noexcept;
  Streams& operator=(Streams&&) noexcept;

  std::size_t capacity() const;
  std::size_t size() const;  // streams that have joined and not left
  bool joined(std::size_t stream) const;

  std::size_t join();                    // a stream that has seen nothing; throws when all are taken
  std::size_t fork(std::size_t stream);  // another one that goes on from where this one is
  void leave(std::size_t stream);
  void reset(std::size_t stream);

  // One sample of each of `streams`: in (streams, inputs), out (streams, outputs). The answer of Decoder::pool is for
  // all samples so far, that of last and position for this one. Decoder::pair has no answer of a single stream: out is
  // empty, and answer_pair() gives it.
  void step(std::span<const std::size_t> streams, std::span<const T> in, std::span<T> out);
  void step(std::span<const std::size_t> streams, std::span<const std::int64_t> tokens, std::span<T> out);

  // The same for a block: in (streams, length, inputs), out (streams, length, outputs), of any strides. Tokens have
  // one channel.
  void process(std::span<const std::size_t> streams, Signal<const T> in, Signal<T> out);
  void process(std::span<const std::size_t> streams, Signal<const std::int64_t> tokens, Signal<T> out);

  // A block whose answers are not wanted.
  void prefill(std::span<const std::size_t> streams, Signal<const T> in);
  void prefill(std::span<const std::size_t> streams, Signal<const std::int64_t> tokens);

  // For all samples so far: of Decoder::pool, and of Decoder::pair for two streams.
  void answer(std::size_t stream, std::span<T> out);
  void answer_pair(std::size_t first, std::size_t second, std::span<T> out);

  // Another model of the same architecture and realizations under the running streams, which keep their states. For
  // `fade` samples of each stream its answers go over from those of the one model to those of the other; answer() is
  // the new one's. Returns a model that is no longer used, so that its memory is freed where the caller likes.
  Model<T> swap(Model<T> model, std::size_t fade);

  // A sample that is not finite, or one so large that a layer overflows, stays in the state: answers are then no longer
  // finite, until reset() or restore(). finite() is false as long as the state holds such a number.
  bool finite(std::size_t stream) const;

  // model.state_bytes() bytes with a version and a checksum, the same whatever the processor. restore() refuses those
  // of another model and changes nothing then; streams go on from them to the last bit on the same processor.
  void save(std::size_t stream, std::span<std::byte> bytes) const;
  void restore(std::size_t stream, std::span<const std::byte> bytes);

 private:
  template <class U>
  friend class Sequences;
  struct Impl;
  explicit Streams(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// Whole sequences of up to `longest` samples, one after the other, of models of either kind.
template <class T>
class Sequences {
 public:
  Sequences(const Model<T>& model, std::size_t longest);
  ~Sequences();
  Sequences(Sequences&&) noexcept;
  Sequences& operator=(Sequences&&) noexcept;

  // in (batch, length, inputs), length at least 1. Decoder::position and last answer at every sample: out (batch,
  // length, outputs). Decoder::pool answers once a sequence, (batch, 1, outputs), and pair once for sequences i and
  // i + batch / 2, (batch / 2, 1, outputs).
  void process(Signal<const T> in, Signal<T> out);
  void process(Signal<const std::int64_t> tokens, Signal<T> out);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace rtf::stream
