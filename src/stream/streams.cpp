#include "stream/streams.h"

#include <algorithm>
#include <type_traits>

#include "core/arguments.h"
#include "core/carver.h"
#include "stream/flush_denormals.h"

namespace rtf::stream {
namespace {

constexpr double epsilon = 1e-5;  // of layer norm, as the trainer has it

}  // namespace

template <class T>
Streams<T>::Impl::Impl(const Model<T>& model_, std::size_t capacity)
    : model(model_), numbers(*model.impl), slots(capacity) {
  const Architecture& a = numbers.architecture;
  const bool pair = a.decoder == Architecture::Decoder::pair;
  x_row = row_size(std::max(pair ? 4 * a.channels : 0, a.features));
  z_row = 2 * numbers.row;
  y_row = row_size(a.outputs);
  states = Workspace(capacity * numbers.stream_bytes);
  const std::size_t bytes = array_bytes<T>(tile_rows * x_row) + 2 * array_bytes<T>(tile_rows * numbers.row) +
                            array_bytes<T>(tile_rows * z_row) + array_bytes<T>(tile_rows * y_row) +
                            array_bytes<double>(tile_rows * numbers.row);
  scratch = Workspace(bytes + workspace_alignment);
  std::fill_n(states.data(), states.size(), std::byte{0});
  std::fill_n(scratch.data(), scratch.size(), std::byte{0});
  Carver carver(scratch, bytes, "stream::Streams");
  x = carver.take<T>(tile_rows * x_row);
  h = carver.take<T>(tile_rows * numbers.row);
  u = carver.take<T>(tile_rows * numbers.row);
  z = carver.take<T>(tile_rows * z_row);
  y = carver.take<T>(tile_rows * y_row);
  wide = carver.take<double>(tile_rows * numbers.row);
}

// --- Arguments ------------------------------------------------------------------------------------------------------

template <class T>
const typename Streams<T>::Impl::Slot& Streams<T>::Impl::check_joined(const char* operation, std::size_t stream) const {
  if (stream >= slots.size())
    fail(ErrorCode::argument, operation, "stream {}; there are streams 0 to {}", stream, slots.size() - 1);
  if (!slots[stream].joined) fail(ErrorCode::argument, operation, "stream {} has not joined", stream);
  return slots[stream];
}
template <class T>
typename Streams<T>::Impl::Slot& Streams<T>::Impl::check_joined(const char* operation, std::size_t stream) {
  return const_cast<Slot&>(std::as_const(*this).check_joined(operation, stream));
}

template <class T>
void Streams<T>::Impl::check_streams(const char* operation, std::span<const std::size_t> streams) {
  ++calls;
  for (const std::size_t stream : streams) {
    Slot& slot = check_joined(operation, stream);
    if (slot.call == calls) fail(ErrorCode::argument, operation, "stream {} is named twice", stream);
    slot.call = calls;
  }
}

template <class T>
void Streams<T>::Impl::check_out(const char* operation, const Signal<T>& out, std::size_t streams,
                                 std::size_t length) const {
  if (numbers.architecture.decoder != Architecture::Decoder::pair) {
    check_signal(operation, "out", out, streams, length, numbers.architecture.outputs);
  } else if (out.batch * out.length * out.channels != 0) {
    fail(ErrorCode::argument, operation, "a decoder of pairs has no answer for one stream: use answer_pair()");
  }
}

template <class T>
void Streams<T>::Impl::check_in(const char* operation, const Signal<const T>& in, std::size_t streams) const {
  if (numbers.architecture.vocabulary > 0)
    fail(ErrorCode::argument, operation, "the model takes tokens of a vocabulary of {}, not numbers",
         numbers.architecture.vocabulary);
  check_signal(operation, "in", in, streams, in.length, numbers.architecture.features);
}

template <class T>
void Streams<T>::Impl::check_in(const char* operation, const Signal<const std::int64_t>& in,
                                std::size_t streams) const {
  const std::size_t vocabulary = numbers.architecture.vocabulary;
  if (vocabulary == 0)
    fail(ErrorCode::argument, operation, "the model takes {} numbers a sample, not tokens",
         numbers.architecture.features);
  check_signal(operation, "tokens", in, streams, in.length, 1);
  for (std::size_t s = 0; s < streams; ++s)
    for (std::size_t t = 0; t < in.length; ++t)
      if (const std::int64_t token = *in.at(s, t, 0); token < 0 || static_cast<std::uint64_t>(token) >= vocabulary)
        fail(ErrorCode::argument, operation, "token {} is outside the vocabulary of {}", token, vocabulary);
}

// --- Rows through the model -----------------------------------------------------------------------------------------

template <class T>
void Streams<T>::Impl::multiply(const Matrix<T>& matrix, const T* from, std::size_t from_row, std::size_t rows, T* to,
                                std::size_t to_row) const {
  numbers.lanes.multiply(matrix.weights, matrix.bias, matrix.inputs, matrix.vectors, from, from_row, rows, to, to_row);
}

template <class T>
void Streams<T>::Impl::encode(const Signal<const T>& in, std::size_t stream, std::size_t t, std::size_t row) {
  T* to = x + row * x_row;
  for (std::size_t c = 0; c < in.channels; ++c) to[c] = *in.at(stream, t, c);
}

template <class T>
void Streams<T>::Impl::encode(const Signal<const std::int64_t>& in, std::size_t stream, std::size_t t,
                              std::size_t row) {
  const auto token = static_cast<std::size_t>(*in.at(stream, t, 0));
  std::copy_n(numbers.embedding + token * numbers.row, numbers.row, h + row * numbers.row);
}

template <class T>
void Streams<T>::Impl::normalize(const NormRows<T>& norm, const T* from, T* to, std::size_t rows) const {
  for (std::size_t r = 0; r < rows; ++r, from += numbers.row, to += numbers.row) {
    if (numbers.architecture.norm == Architecture::Norm::layer) {
      numbers.lanes.layer_norm(from, norm.weight, norm.bias, numbers.architecture.channels, static_cast<T>(epsilon),
                               to);
    } else {
      numbers.lanes.affine(from, norm.weight, norm.bias, numbers.row / numbers.lanes.lanes, to);
    }
  }
}

template <class T>
void Streams<T>::Impl::run_layer(const Layer& layer, const Tile& tile) {
  std::visit(
      [&]<class R>(const LaneLayer<R>& lanes) {
        LaneState<R> of_rows[tile_rows];
        for (std::size_t r = 0; r < tile.rows; ++r)
          of_rows[r] = {reinterpret_cast<R*>(memory(tile.slot[r]) + layer.state_offset),
                        layer.ring && layer.terms > 0 ? tile.samples[r] % layer.terms : 0};
        if constexpr (std::is_same_v<R, T>) {
          lanes.run(lanes.recurrence, of_rows, tile.rows, u, numbers.row);
        } else if constexpr (std::is_same_v<R, double>) {
          std::copy_n(u, tile.rows * numbers.row, wide);
          lanes.run(lanes.recurrence, of_rows, tile.rows, wide, numbers.row);
          for (std::size_t i = 0; i < tile.rows * numbers.row; ++i) u[i] = static_cast<T>(wide[i]);
        }
      },
      layer.lanes);
}

template <class T>
void Streams<T>::Impl::run_blocks(const Tile& tile) {
  const Architecture& a = numbers.architecture;
  const std::size_t row = numbers.row, all = tile.rows * row;
  for (const Block<T>& block : numbers.blocks) {
    if (a.has_norms() && a.prenorm) {
      normalize(block.norm, h, u, tile.rows);
    } else {
      std::copy_n(h, all, u);
    }
    run_layer(block.layer, tile);
    if (a.activation == Architecture::Activation::gelu) numbers.activation.gelu(u, nullptr, all, u);
    if (a.glu) {
      multiply(block.output, u, row, tile.rows, z, z_row);
      for (std::size_t r = 0; r < tile.rows; ++r) {
        T* to = h + r * row;
        numbers.activation.glu(z + r * z_row, z + r * z_row + row, nullptr, a.residual ? to : nullptr, row, to);
      }
    } else if (a.residual) {
      for (std::size_t i = 0; i < all; ++i) h[i] += u[i];
    } else {
      std::copy_n(u, all, h);
    }
    if (a.has_norms() && !a.prenorm) normalize(block.norm, h, h, tile.rows);
  }
}

template <class T>
void Streams<T>::Impl::mean(std::size_t slot, T* row) const {
  const double* total = sums(slot);
  const double count = static_cast<double>(slots[slot].samples);
  for (std::size_t c = 0; c < numbers.row; ++c) row[c] = static_cast<T>(total[c] / count);
}

// h becomes the mean over all samples up to each.
template <class T>
void Streams<T>::Impl::pool(const Tile& tile) {
  for (std::size_t r = 0; r < tile.rows; ++r) {
    double* total = sums(tile.slot[r]);
    T* row = h + r * numbers.row;
    const double count = static_cast<double>(tile.samples[r] + 1);
    for (std::size_t c = 0; c < numbers.row; ++c) {
      total[c] += row[c];
      row[c] = static_cast<T>(total[c] / count);
    }
  }
}

template <class T>
template <class In>
void Streams<T>::Impl::run(const char* operation, std::span<const std::size_t> streams, Signal<const In> in,
                           const Signal<T>* out) {
  check_streams(operation, streams);
  check_in(operation, in, streams.size());
  if (out != nullptr) check_out(operation, *out, streams.size(), in.length);

  const FlushDenormals guard;
  const bool answers = out != nullptr && numbers.architecture.decoder != Architecture::Decoder::pair;
  const std::size_t count = streams.size(), total = count * in.length;
  // One sample of every stream, then the next of every stream: a tile has the samples of each in order of time.
  for (std::size_t first = 0; first < total; first += tile_rows) {
    Tile tile;
    tile.rows = std::min(tile_rows, total - first);
    for (std::size_t r = 0; r < tile.rows; ++r) {
      const std::size_t t = (first + r) / count, s = (first + r) % count;
      tile.slot[r] = streams[s];
      tile.samples[r] = slots[streams[s]].samples++;
      encode(in, s, t, r);
    }
    if constexpr (std::is_same_v<In, T>) multiply(numbers.encoder, x, x_row, tile.rows, h, numbers.row);
    run_blocks(tile);
    if (!answers && !numbers.pools()) continue;
    if (numbers.architecture.has_last_norm()) normalize(numbers.norm, h, h, tile.rows);
    if (numbers.pools()) pool(tile);
    if (!answers) continue;
    multiply(numbers.decoder[0], h, numbers.row, tile.rows, y, y_row);
    for (std::size_t r = 0; r < tile.rows; ++r)
      for (std::size_t o = 0; o < out->channels; ++o)
        *out->at((first + r) % count, (first + r) / count, o) = y[r * y_row + o];
  }
}

template <class T>
void Streams<T>::Impl::clear(std::size_t slot) {
  std::fill_n(memory(slot), numbers.stream_bytes, std::byte{0});
  slots[slot].samples = 0;
}

// --- The public side ------------------------------------------------------------------------------------------------

template <class T>
Streams<T>::Streams(const Model<T>& model, std::size_t capacity) {
  if (capacity == 0) fail(ErrorCode::argument, "stream::Streams", "a capacity of 0; at least 1 stream is needed");
  impl_ = std::make_unique<Impl>(model, capacity);
}
template <class T>
Streams<T>::~Streams() = default;
template <class T>
Streams<T>::Streams(Streams&&) noexcept = default;
template <class T>
Streams<T>& Streams<T>::operator=(Streams&&) noexcept = default;

template <class T>
std::size_t Streams<T>::capacity() const {
  return impl_->slots.size();
}
template <class T>
std::size_t Streams<T>::size() const {
  return impl_->joined;
}
template <class T>
bool Streams<T>::joined(std::size_t stream) const {
  return stream < capacity() && impl_->slots[stream].joined;
}

template <class T>
std::size_t Streams<T>::join() {
  const auto found = std::find_if(impl_->slots.begin(), impl_->slots.end(), [](const auto& s) { return !s.joined; });
  if (found == impl_->slots.end())
    fail(ErrorCode::argument, "stream::join", "all {} streams are taken; one must leave first", capacity());
  found->joined = true;
  ++impl_->joined;
  const auto stream = static_cast<std::size_t>(found - impl_->slots.begin());
  impl_->clear(stream);
  return stream;
}

template <class T>
std::size_t Streams<T>::fork(std::size_t stream) {
  const std::uint64_t samples = impl_->check_joined("stream::fork", stream).samples;
  const std::size_t other = join();
  std::copy_n(impl_->memory(stream), impl_->numbers.stream_bytes, impl_->memory(other));
  impl_->slots[other].samples = samples;
  return other;
}

template <class T>
void Streams<T>::leave(std::size_t stream) {
  impl_->check_joined("stream::leave", stream).joined = false;
  --impl_->joined;
}

template <class T>
void Streams<T>::reset(std::size_t stream) {
  impl_->check_joined("stream::reset", stream);
  impl_->clear(stream);
}

template <class T>
void Streams<T>::step(std::span<const std::size_t> streams, std::span<const T> in, std::span<T> out) {
  constexpr const char* operation = "stream::step";
  const Architecture& a = impl_->numbers.architecture;
  const std::size_t outputs = a.decoder == Architecture::Decoder::pair ? 0 : a.outputs;
  check_count(operation, "in", in.size(), streams.size() * a.features);
  check_count(operation, "out", out.size(), streams.size() * outputs);
  const auto answers = channels_last(out.data(), streams.size(), 1, outputs);
  impl_->run(operation, streams, channels_last(in.data(), streams.size(), 1, a.features), &answers);
}

template <class T>
void Streams<T>::step(std::span<const std::size_t> streams, std::span<const std::int64_t> tokens, std::span<T> out) {
  constexpr const char* operation = "stream::step";
  const Architecture& a = impl_->numbers.architecture;
  const std::size_t outputs = a.decoder == Architecture::Decoder::pair ? 0 : a.outputs;
  check_count(operation, "tokens", tokens.size(), streams.size());
  check_count(operation, "out", out.size(), streams.size() * outputs);
  const auto answers = channels_last(out.data(), streams.size(), 1, outputs);
  impl_->run(operation, streams, channels_last(tokens.data(), streams.size(), 1, 1), &answers);
}

template <class T>
void Streams<T>::process(std::span<const std::size_t> streams, Signal<const T> in, Signal<T> out) {
  impl_->run("stream::process", streams, in, &out);
}
template <class T>
void Streams<T>::process(std::span<const std::size_t> streams, Signal<const std::int64_t> tokens, Signal<T> out) {
  impl_->run("stream::process", streams, tokens, &out);
}
template <class T>
void Streams<T>::prefill(std::span<const std::size_t> streams, Signal<const T> in) {
  impl_->run("stream::prefill", streams, in, nullptr);
}
template <class T>
void Streams<T>::prefill(std::span<const std::size_t> streams, Signal<const std::int64_t> tokens) {
  impl_->run("stream::prefill", streams, tokens, nullptr);
}

template class Streams<float>;
template class Streams<double>;

}  // namespace rtf::stream
