// Samples as C hands them over: their precision, and where they lie.
#pragma once

#include <cstdint>
#include <type_traits>
#include <variant>

#include "c_api/border.h"
#include "rtf/signal.h"

namespace rtf::c_api {

template <class T>
constexpr const char* precision_name = std::is_same_v<T, float> ? "f32" : "f64";
template <class In>
constexpr const char* input_name = std::is_same_v<In, std::int64_t> ? "tokens" : "in";

// What a handle holds, Runs<float> or Runs<double>, where it is of the precision of the function that was called.
template <class T, template <class> class Runs>
Runs<T>& of_precision(const char* operation, std::variant<Runs<float>, Runs<double>>& held) {
  auto* found = std::get_if<Runs<T>>(&held);
  using Other = std::conditional_t<std::is_same_v<T, float>, double, float>;
  if (found == nullptr)
    fail(ErrorCode::argument, operation, "the model was loaded as {0}: call the function that ends in _{0}",
         precision_name<Other>);
  return *found;
}

// NULL and NULL is an empty block.
template <class T>
Signal<T> signal_of(const char* operation, const char* what, T* data, const rtf_layout* layout) {
  if (layout == nullptr) {
    if (data != nullptr) fail(ErrorCode::argument, operation, "{} has no layout", what);
    return {};
  }
  if (layout->batch > 0 && layout->length > 0 && layout->channels > 0) required(operation, what, data);
  return {data,
          layout->batch,
          layout->length,
          layout->channels,
          layout->batch_stride,
          layout->length_stride,
          layout->channel_stride};
}

}  // namespace rtf::c_api
