#include "stream/streams.h"

#include <algorithm>
#include <utility>

#include "core/arguments.h"
#include "core/carver.h"

namespace rtf::stream {

template <class T>
Streams<T>::Impl::Impl(const Model<T>& model, std::size_t capacity)
    : sides{{model, {}}, {model, {}}}, numbers(model.impl.get()), slots(capacity) {
  const Architecture& a = numbers->architecture;
  const bool pair = a.decoder == Architecture::Decoder::pair;
  x_row = row_size(std::max(pair ? 4 * a.channels : 0, model.inputs()));
  z_row = 2 * numbers->row;
  y_row = row_size(a.outputs);
  for (Side& side : sides) {
    side.states = Workspace(memory_product(capacity, numbers->stream_bytes));
    std::fill_n(side.states.data(), side.states.size(), std::byte{0});
  }
  select(0);
  const std::size_t bytes = array_bytes<T>(tile_rows * x_row) + 2 * array_bytes<T>(tile_rows * numbers->row) +
                            array_bytes<T>(tile_rows * z_row) + 2 * array_bytes<T>(tile_rows * y_row) +
                            array_bytes<double>(tile_rows * numbers->row);
  scratch = Workspace(bytes + workspace_alignment);
  std::fill_n(scratch.data(), scratch.size(), std::byte{0});
  Carver carver(scratch, bytes, "stream::Streams");
  x = carver.take<T>(tile_rows * x_row);
  h = carver.take<T>(tile_rows * numbers->row);
  u = carver.take<T>(tile_rows * numbers->row);
  z = carver.take<T>(tile_rows * z_row);
  y = carver.take<T>(tile_rows * y_row);
  before = carver.take<T>(tile_rows * y_row);
  wide = carver.take<double>(tile_rows * numbers->row);
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
  if (numbers->architecture.decoder != Architecture::Decoder::pair) {
    check_signal(operation, "out", out, streams, length, numbers->architecture.outputs);
  } else if (out.batch * out.length * out.channels != 0) {
    fail(ErrorCode::argument, operation, "a decoder of pairs has no answer for one stream: use answer_pair()");
  }
}

template <class T>
void Streams<T>::Impl::check_in(const char* operation, const Signal<const T>& in, std::size_t streams) const {
  if (numbers->architecture.vocabulary > 0)
    fail(ErrorCode::argument, operation, "the model takes tokens of a vocabulary of {}, not numbers",
         numbers->architecture.vocabulary);
  check_signal(operation, "in", in, streams, in.length, numbers->architecture.features);
}

template <class T>
void Streams<T>::Impl::check_in(const char* operation, const Signal<const std::int64_t>& in,
                                std::size_t streams) const {
  const std::size_t vocabulary = numbers->architecture.vocabulary;
  if (vocabulary == 0)
    fail(ErrorCode::argument, operation, "the model takes {} numbers a sample, not tokens",
         numbers->architecture.features);
  check_signal(operation, "tokens", in, streams, in.length, 1);
  for (std::size_t s = 0; s < streams; ++s)
    for (std::size_t t = 0; t < in.length; ++t)
      if (const std::int64_t token = *in.at(s, t, 0); token < 0 || static_cast<std::uint64_t>(token) >= vocabulary)
        fail(ErrorCode::argument, operation, "token {} is outside the vocabulary of {}", token, vocabulary);
}

template <class T>
void Streams<T>::Impl::select(std::size_t side) {
  numbers = sides[side].model.impl.get();
  states = sides[side].states.data();
}

template <class T>
void Streams<T>::Impl::end_fade(Slot& slot) {
  if (slot.fade > 0) --fading;
  slot.fade = 0;
}

template <class T>
void Streams<T>::Impl::clear(std::size_t slot) {
  std::fill_n(memory(slot), numbers->stream_bytes, std::byte{0});
  slots[slot].samples = 0;
  end_fade(slots[slot]);
}

// --- The public side ------------------------------------------------------------------------------------------------

template <class T>
Streams<T>::Streams(const Model<T>& model, std::size_t capacity) {
  if (capacity == 0) fail(ErrorCode::argument, "stream::Streams", "a capacity of 0; at least 1 stream is needed");
  if (model.architecture().bidirectional)
    fail(ErrorCode::unsupported, "stream::Streams",
         "a bidirectional model sees the whole sequence: it cannot be streamed");
  impl_ = std::make_unique<Impl>(model, capacity);
}
template <class T>
Streams<T>::Streams(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
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
  const auto from = impl_->check_joined("stream::fork", stream);
  const std::size_t other = join(), bytes = impl_->numbers->stream_bytes;
  for (const auto& side : impl_->sides)
    std::copy_n(side.states.data() + stream * bytes, bytes, side.states.data() + other * bytes);
  impl_->slots[other] = from;
  if (from.fade > 0) ++impl_->fading;
  return other;
}

template <class T>
void Streams<T>::leave(std::size_t stream) {
  auto& slot = impl_->check_joined("stream::leave", stream);
  impl_->end_fade(slot);
  slot.joined = false;
  --impl_->joined;
}

template <class T>
void Streams<T>::reset(std::size_t stream) {
  impl_->check_joined("stream::reset", stream);
  impl_->clear(stream);
}

template <class T>
template <class In>
void Streams<T>::Impl::step(std::span<const std::size_t> streams, std::span<const In> in, const char* name,
                            std::size_t inputs, std::span<T> out) {
  constexpr const char* operation = "stream::step";
  const Architecture& a = numbers->architecture;
  const std::size_t outputs = a.decoder == Architecture::Decoder::pair ? 0 : a.outputs;
  check_count(operation, name, in.size(), streams.size() * inputs);
  check_count(operation, "out", out.size(), streams.size() * outputs);
  const auto answers = channels_last(out.data(), streams.size(), 1, outputs);
  run(operation, streams, channels_last(in.data(), streams.size(), 1, inputs), &answers);
}

template <class T>
void Streams<T>::step(std::span<const std::size_t> streams, std::span<const T> in, std::span<T> out) {
  impl_->step(streams, in, "in", impl_->numbers->architecture.features, out);
}
template <class T>
void Streams<T>::step(std::span<const std::size_t> streams, std::span<const std::int64_t> tokens, std::span<T> out) {
  impl_->step(streams, tokens, "tokens", 1, out);
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
