#include "stream/state.h"

#include <cmath>
#include <cstring>

#include "core/arguments.h"
#include "core/array_bytes.h"
#include "core/checksum.h"
#include "stream/streams.h"

namespace rtf::stream {
namespace {

constexpr char magic[8] = {'r', 't', 'f', 's', 't', 'a', 't', 'e'};
constexpr std::size_t summed_from = offsetof(StateHeader, checksum) + sizeof(StateHeader::checksum);

std::uint32_t sum_of(std::span<const std::byte> bytes) {
  return crc32(0, bytes.data() + summed_from, bytes.size() - summed_from);
}

// visit(number in memory) for all numbers of a layer's state, in the order of a saved stream.
template <class Visit>
void each_state(const Layer& layer, std::size_t channels, std::uint64_t samples, std::byte* memory, Visit&& visit) {
  std::visit(
      [&]<class R>(const LaneLayer<R>& lanes) {
        R* state = reinterpret_cast<R*>(memory + layer.state_offset);
        const std::size_t vectors = lanes.recurrence.vectors, width = lanes.lanes;
        each_block(vectors, channel_block, [&](std::size_t first, std::size_t count) {
          R* block = state + first * width * layer.terms * layer.states_a_term;
          const std::size_t end = std::min(channels, (first + count) * width);
          for (std::size_t c = first * width; c < end; ++c)
            for (std::size_t k = 0; k < layer.terms * layer.states_a_term; ++k) {
              // The newest sample of a ring lies before the oldest.
              const std::size_t place =
                  layer.ring ? (samples % layer.terms + 2 * layer.terms - 1 - k) % layer.terms : k;
              visit(block[place * count * width + c - first * width]);
            }
        });
      },
      layer.lanes);
}

// The same for all that a stream keeps.
template <class T, class Visit>
void each_number(const typename Model<T>::Impl& numbers, std::uint64_t samples, std::byte* memory, Visit&& visit) {
  const std::size_t channels = numbers.architecture.channels;
  for (const Block<T>& block : numbers.blocks) each_state(block.layer, channels, samples, memory, visit);
  if (!numbers.pools()) return;
  auto* sums = reinterpret_cast<double*>(memory + numbers.sums_offset);
  for (std::size_t c = 0; c < channels; ++c) visit(sums[c]);
}

}  // namespace

template <class T>
bool Streams<T>::finite(std::size_t stream) const {
  const auto& slot = impl_->check_joined("stream::finite", stream);
  bool all = true;
  each_number<T>(*impl_->numbers, slot.samples, impl_->memory(stream),
                 [&](const auto& number) { all = all && std::isfinite(number); });
  return all;
}

template <class T>
void Streams<T>::save(std::size_t stream, std::span<std::byte> bytes) const {
  const auto& slot = impl_->check_joined("stream::save", stream);
  if (bytes.size() != impl_->numbers->saved_bytes)
    fail(ErrorCode::argument, "stream::save", "room for {} bytes; a state of this model has {}", bytes.size(),
         impl_->numbers->saved_bytes);
  StateHeader header{};
  std::memcpy(header.magic, magic, sizeof magic);
  header.version = state_version;
  header.fingerprint = impl_->numbers->fingerprint;
  header.sample_bytes = sizeof(T);
  header.samples = slot.samples;
  std::memcpy(bytes.data(), &header, sizeof header);
  std::byte* at = bytes.data() + sizeof header;
  each_number<T>(*impl_->numbers, slot.samples, impl_->memory(stream), [&](const auto& number) {
    std::memcpy(at, &number, sizeof number);
    at += sizeof number;
  });
  header.checksum = sum_of(bytes);
  std::memcpy(bytes.data(), &header, sizeof header);
}

template <class T>
void Streams<T>::restore(std::size_t stream, std::span<const std::byte> bytes) {
  constexpr const char* operation = "stream::restore";
  auto& slot = impl_->check_joined(operation, stream);
  const auto refuse = [&]<class... Args>(fmt::format_string<Args...> format, Args&&... args) {
    fail(ErrorCode::format, operation, format, std::forward<Args>(args)...);
  };
  StateHeader header;
  if (bytes.size() < sizeof header) refuse("a state of {} bytes; its head alone has {}", bytes.size(), sizeof header);
  std::memcpy(&header, bytes.data(), sizeof header);
  if (std::memcmp(header.magic, magic, sizeof magic) != 0) refuse("these bytes are not a saved stream");
  if (header.version != state_version)
    refuse("a state of version {}; this library reads version {}", std::uint32_t{header.version}, state_version);
  if (header.checksum != sum_of(bytes)) refuse("a damaged state: its checksum does not match its contents");
  if (header.fingerprint != impl_->numbers->fingerprint) refuse("a state of another model");
  if (header.sample_bytes != sizeof(T))
    refuse("a state of arithmetic with {} bytes a number; here it has {}", std::uint32_t{header.sample_bytes},
           sizeof(T));
  if (bytes.size() != impl_->numbers->saved_bytes)
    refuse("a state of {} bytes; this model has {}", bytes.size(), impl_->numbers->saved_bytes);
  impl_->clear(stream);
  slot.samples = header.samples;
  const std::byte* at = bytes.data() + sizeof header;
  each_number<T>(*impl_->numbers, slot.samples, impl_->memory(stream), [&](auto& number) {
    std::memcpy(&number, at, sizeof number);
    at += sizeof number;
  });
}

template bool Streams<float>::finite(std::size_t) const;
template bool Streams<double>::finite(std::size_t) const;
template void Streams<float>::save(std::size_t, std::span<std::byte>) const;
template void Streams<double>::save(std::size_t, std::span<std::byte>) const;
template void Streams<float>::restore(std::size_t, std::span<const std::byte>);
template void Streams<double>::restore(std::size_t, std::span<const std::byte>);

}  // namespace rtf::stream
