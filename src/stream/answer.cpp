// Answers for all samples so far, outside of a step.
#include <algorithm>

#include "core/arguments.h"
#include "stream/flush_denormals.h"
#include "stream/streams.h"

namespace rtf::stream {
namespace {

template <class Slot>
void check_seen(const char* operation, const Slot& slot, std::size_t stream) {
  if (slot.samples == 0) fail(ErrorCode::argument, operation, "stream {} has seen no sample", stream);
}

}  // namespace

template <class T>
void Streams<T>::answer(std::size_t stream, std::span<T> out) {
  constexpr const char* operation = "stream::answer";
  const auto& numbers = *impl_->numbers;
  const Architecture& a = numbers.architecture;
  check_seen(operation, impl_->check_joined(operation, stream), stream);
  if (a.decoder != Architecture::Decoder::pool)
    fail(ErrorCode::argument, operation, "the decoder is {}; pool is needed", name(a.decoder));
  check_count(operation, "out", out.size(), a.outputs);
  const FlushDenormals guard;
  impl_->mean(stream, impl_->h);
  impl_->multiply(numbers.decoder[0], impl_->h, numbers.row, 1, impl_->y, impl_->y_row);
  std::copy_n(impl_->y, a.outputs, out.data());
}

template <class T>
void Streams<T>::answer_pair(std::size_t first, std::size_t second, std::span<T> out) {
  constexpr const char* operation = "stream::answer_pair";
  const auto& numbers = *impl_->numbers;
  const Architecture& a = numbers.architecture;
  check_seen(operation, impl_->check_joined(operation, first), first);
  check_seen(operation, impl_->check_joined(operation, second), second);
  if (a.decoder != Architecture::Decoder::pair)
    fail(ErrorCode::argument, operation, "the decoder is {}; pair is needed", name(a.decoder));
  check_count(operation, "out", out.size(), a.outputs);
  const FlushDenormals guard;
  const std::size_t channels = a.channels;
  T *one = impl_->h, *two = impl_->h + numbers.row, *features = impl_->x;
  impl_->mean(first, one);
  impl_->mean(second, two);
  for (std::size_t c = 0; c < channels; ++c) {
    features[c] = one[c];
    features[channels + c] = two[c];
    features[2 * channels + c] = one[c] - two[c];
    features[3 * channels + c] = one[c] * two[c];
  }
  impl_->multiply(numbers.decoder[0], features, impl_->x_row, 1, impl_->u, numbers.row);
  numbers.activation.gelu(impl_->u, nullptr, numbers.row, impl_->u);
  impl_->multiply(numbers.decoder[1], impl_->u, numbers.row, 1, impl_->y, impl_->y_row);
  std::copy_n(impl_->y, a.outputs, out.data());
}

template void Streams<float>::answer(std::size_t, std::span<float>);
template void Streams<double>::answer(std::size_t, std::span<double>);
template void Streams<float>::answer_pair(std::size_t, std::size_t, std::span<float>);
template void Streams<double>::answer_pair(std::size_t, std::size_t, std::span<double>);

}  // namespace rtf::stream
