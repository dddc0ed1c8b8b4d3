#include "rtf/stream.h"

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <type_traits>
#include <variant>
#include <vector>

#include "c_api/border.h"
#include "c_api/model.h"
#include "c_api/samples.h"
#include "rtf/signal.h"

struct rtf_streams {
  std::variant<rtf::stream::Streams<float>, rtf::stream::Streams<double>> streams;
  std::vector<std::size_t> all;  // 0 to capacity - 1: what a null list of streams means
};

namespace rtf::c_api {
namespace {

using stream::Model;
using stream::Streams;

template <class T>
Streams<T>& streams_of(const char* operation, rtf_streams* handle) {
  return of_precision<T>(operation, required(operation, "streams", handle).streams);
}

// On Streams of either type.
template <class Handle, class Use>
rtf_status with_streams(const char* operation, Handle* handle, Use&& use) noexcept {
  return guarded(operation, [&] { std::visit(use, required(operation, "streams", handle).streams); });
}

std::span<const std::size_t> listed(const char* operation, const rtf_streams& handle, const size_t* which,
                                    std::size_t count) {
  if (count > handle.all.size())
    fail(ErrorCode::argument, operation, "{} streams; there are {}", count, handle.all.size());
  return which != nullptr ? std::span(which, count) : std::span(handle.all).first(count);
}

template <class T, class In>
rtf_status step(rtf_streams* handle, const size_t* which, size_t count, const In* in, size_t in_size, T* out,
                size_t out_size) noexcept {
  constexpr const char* operation = "stream::step";
  return guarded(operation, [&] {
    Streams<T>& streams = streams_of<T>(operation, handle);
    streams.step(listed(operation, *handle, which, count), array(operation, input_name<In>, in, in_size),
                 array(operation, "out", out, out_size));
  });
}

template <class T, class In>
rtf_status process(rtf_streams* handle, const size_t* which, size_t count, const In* in, const rtf_layout* in_layout,
                   T* out, const rtf_layout* out_layout) noexcept {
  constexpr const char* operation = "stream::process";
  return guarded(operation, [&] {
    Streams<T>& streams = streams_of<T>(operation, handle);
    streams.process(listed(operation, *handle, which, count), signal_of(operation, input_name<In>, in, in_layout),
                    signal_of(operation, "out", out, out_layout));
  });
}

constexpr const char* prefilling = "stream::prefill";

template <class T, class In>
void prefill(Streams<T>& streams, const rtf_streams& handle, const size_t* which, size_t count, const In* in,
             const rtf_layout* in_layout) {
  streams.prefill(listed(prefilling, handle, which, count), signal_of(prefilling, input_name<In>, in, in_layout));
}

template <class T>
rtf_status prefill(rtf_streams* handle, const size_t* which, size_t count, const T* in,
                   const rtf_layout* in_layout) noexcept {
  return guarded(prefilling, [&] {
    Streams<T>& streams = streams_of<T>(prefilling, handle);
    prefill(streams, *handle, which, count, in, in_layout);
  });
}

template <class T>
rtf_status answer(rtf_streams* handle, size_t stream, T* out, size_t out_size) noexcept {
  constexpr const char* operation = "stream::answer";
  return guarded(operation,
                 [&] { streams_of<T>(operation, handle).answer(stream, array(operation, "out", out, out_size)); });
}

template <class T>
rtf_status answer_pair(rtf_streams* handle, size_t first, size_t second, T* out, size_t out_size) noexcept {
  constexpr const char* operation = "stream::answer_pair";
  return guarded(operation, [&] {
    streams_of<T>(operation, handle).answer_pair(first, second, array(operation, "out", out, out_size));
  });
}

template <class T>
rtf_layout layout_of(const Signal<T>& signal) {
  return {signal.batch,        signal.length,        signal.channels,
          signal.batch_stride, signal.length_stride, signal.channel_stride};
}

}  // namespace
}  // namespace rtf::c_api

using namespace rtf;
using namespace rtf::c_api;

extern "C" {

rtf_status rtf_stream_new(const rtf_model* model, size_t capacity, rtf_streams** streams) {
  constexpr const char* operation = "stream::new";
  return make_handle(operation, streams, [&] {
    return std::visit(
        [&]<class T>(const Model<T>& m) {
          rtf_streams handle{Streams<T>(m, capacity), std::vector<std::size_t>(capacity)};
          std::iota(handle.all.begin(), handle.all.end(), std::size_t{0});
          return handle;
        },
        required(operation, "model", model).model);
  });
}

void rtf_stream_free(rtf_streams* streams) { delete streams; }

rtf_status rtf_stream_capacity(const rtf_streams* streams, size_t* capacity) {
  constexpr const char* operation = "stream::capacity";
  return with_streams(operation, streams,
                      [&](const auto& s) { required(operation, "capacity", capacity) = s.capacity(); });
}

rtf_status rtf_stream_size(const rtf_streams* streams, size_t* size) {
  constexpr const char* operation = "stream::size";
  return with_streams(operation, streams, [&](const auto& s) { required(operation, "size", size) = s.size(); });
}

rtf_status rtf_stream_joined(const rtf_streams* streams, size_t stream, int* joined) {
  constexpr const char* operation = "stream::joined";
  return with_streams(operation, streams,
                      [&](const auto& s) { required(operation, "joined", joined) = s.joined(stream) ? 1 : 0; });
}

rtf_status rtf_stream_join(rtf_streams* streams, size_t* stream) {
  constexpr const char* operation = "stream::join";
  return with_streams(operation, streams, [&](auto& s) {
    size_t& to = required(operation, "stream", stream);
    to = s.join();
  });
}

rtf_status rtf_stream_fork(rtf_streams* streams, size_t stream, size_t* other) {
  constexpr const char* operation = "stream::fork";
  return with_streams(operation, streams, [&](auto& s) {
    size_t& to = required(operation, "other", other);
    to = s.fork(stream);
  });
}

rtf_status rtf_stream_leave(rtf_streams* streams, size_t stream) {
  return with_streams("stream::leave", streams, [&](auto& s) { s.leave(stream); });
}

rtf_status rtf_stream_reset(rtf_streams* streams, size_t stream) {
  return with_streams("stream::reset", streams, [&](auto& s) { s.reset(stream); });
}

rtf_status rtf_stream_step_f32(rtf_streams* streams, const size_t* which, size_t count, const float* in, size_t in_size,
                               float* out, size_t out_size) {
  return step(streams, which, count, in, in_size, out, out_size);
}
rtf_status rtf_stream_step_f64(rtf_streams* streams, const size_t* which, size_t count, const double* in,
                               size_t in_size, double* out, size_t out_size) {
  return step(streams, which, count, in, in_size, out, out_size);
}
rtf_status rtf_stream_step_tokens_f32(rtf_streams* streams, const size_t* which, size_t count, const int64_t* tokens,
                                      size_t tokens_size, float* out, size_t out_size) {
  return step(streams, which, count, tokens, tokens_size, out, out_size);
}
rtf_status rtf_stream_step_tokens_f64(rtf_streams* streams, const size_t* which, size_t count, const int64_t* tokens,
                                      size_t tokens_size, double* out, size_t out_size) {
  return step(streams, which, count, tokens, tokens_size, out, out_size);
}

rtf_layout rtf_channels_last(size_t batch, size_t length, size_t channels) {
  return layout_of(channels_last<const float>(nullptr, batch, length, channels));
}
rtf_layout rtf_length_last(size_t batch, size_t channels, size_t length) {
  return layout_of(length_last<const float>(nullptr, batch, channels, length));
}

rtf_status rtf_stream_process_f32(rtf_streams* streams, const size_t* which, size_t count, const float* in,
                                  const rtf_layout* in_layout, float* out, const rtf_layout* out_layout) {
  return process(streams, which, count, in, in_layout, out, out_layout);
}
rtf_status rtf_stream_process_f64(rtf_streams* streams, const size_t* which, size_t count, const double* in,
                                  const rtf_layout* in_layout, double* out, const rtf_layout* out_layout) {
  return process(streams, which, count, in, in_layout, out, out_layout);
}
rtf_status rtf_stream_process_tokens_f32(rtf_streams* streams, const size_t* which, size_t count, const int64_t* tokens,
                                         const rtf_layout* tokens_layout, float* out, const rtf_layout* out_layout) {
  return process(streams, which, count, tokens, tokens_layout, out, out_layout);
}
rtf_status rtf_stream_process_tokens_f64(rtf_streams* streams, const size_t* which, size_t count, const int64_t* tokens,
                                         const rtf_layout* tokens_layout, double* out, const rtf_layout* out_layout) {
  return process(streams, which, count, tokens, tokens_layout, out, out_layout);
}

rtf_status rtf_stream_prefill_f32(rtf_streams* streams, const size_t* which, size_t count, const float* in,
                                  const rtf_layout* in_layout) {
  return prefill(streams, which, count, in, in_layout);
}
rtf_status rtf_stream_prefill_f64(rtf_streams* streams, const size_t* which, size_t count, const double* in,
                                  const rtf_layout* in_layout) {
  return prefill(streams, which, count, in, in_layout);
}
rtf_status rtf_stream_prefill_tokens(rtf_streams* streams, const size_t* which, size_t count, const int64_t* tokens,
                                     const rtf_layout* tokens_layout) {
  return with_streams(prefilling, streams, [&](auto& s) { prefill(s, *streams, which, count, tokens, tokens_layout); });
}

rtf_status rtf_stream_answer_f32(rtf_streams* streams, size_t stream, float* out, size_t out_size) {
  return answer(streams, stream, out, out_size);
}
rtf_status rtf_stream_answer_f64(rtf_streams* streams, size_t stream, double* out, size_t out_size) {
  return answer(streams, stream, out, out_size);
}
rtf_status rtf_stream_answer_pair_f32(rtf_streams* streams, size_t first, size_t second, float* out, size_t out_size) {
  return answer_pair(streams, first, second, out, out_size);
}
rtf_status rtf_stream_answer_pair_f64(rtf_streams* streams, size_t first, size_t second, double* out, size_t out_size) {
  return answer_pair(streams, first, second, out, out_size);
}

rtf_status rtf_stream_swap(rtf_streams* streams, const rtf_model* model, size_t fade) {
  constexpr const char* operation = "stream::swap";
  return with_streams(operation, streams, [&]<class T>(Streams<T>& s) {
    const auto* next = std::get_if<Model<T>>(&required(operation, "model", model).model);
    if (next == nullptr)
      fail(ErrorCode::argument, operation, "the streams run in {}; load the model with that precision",
           precision_name<T>);
    s.swap(*next, fade);
  });
}

rtf_status rtf_stream_save(const rtf_streams* streams, size_t stream, void* bytes, size_t size) {
  constexpr const char* operation = "stream::save";
  return with_streams(operation, streams, [&](const auto& s) {
    s.save(stream, array(operation, "bytes", static_cast<std::byte*>(bytes), size));
  });
}

rtf_status rtf_stream_restore(rtf_streams* streams, size_t stream, const void* bytes, size_t size) {
  constexpr const char* operation = "stream::restore";
  return with_streams(operation, streams, [&](auto& s) {
    s.restore(stream, array(operation, "bytes", static_cast<const std::byte*>(bytes), size));
  });
}
}
