// The little-endian numbers of npy and safetensors files, to and from the doubles of an Array.
#pragma once

#include <fmt/format.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "rtf/error.h"
#include "rtf/npy.h"

namespace rtf {

static_assert(std::endian::native == std::endian::little, "file formats are read and written without swapping bytes");

inline std::size_t size_of(DataType type) { return type == DataType::f32 ? 4 : 8; }

// How many values a shape holds, or nothing when that does not fit. Zeros do not hide an overflow.
inline std::optional<std::size_t> element_count(std::span<const std::size_t> shape) {
  std::size_t product = 1;
  bool empty = false;
  for (const std::size_t size : shape) {
    if (size == 0) empty = true;
    if (size != 0 && __builtin_mul_overflow(product, size, &product)) return std::nullopt;
  }
  return empty ? 0 : product;
}

inline std::string shape_text(std::span<const std::size_t> shape) {
  constexpr std::size_t most = 8;  // a file may claim any number of dimensions, a message has one line
  if (shape.size() > most) return fmt::format("({}, ...)", fmt::join(shape.first(most), ", "));
  return fmt::format("({})", fmt::join(shape, ", "));
}

template <class T>
void decode_as(std::string_view bytes, std::vector<double>& values) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    T value;
    std::memcpy(&value, bytes.data() + i * sizeof(T), sizeof(T));
    values[i] = value;
  }
}

inline std::vector<double> decode_values(std::string_view bytes, DataType type) {
  std::vector<double> values(bytes.size() / size_of(type));
  type == DataType::f32 ? decode_as<float>(bytes, values) : decode_as<double>(bytes, values);
  return values;
}

template <class T>
void encode_as(const std::vector<double>& values, char* bytes) {
  for (const double value : values) {
    const T narrow = static_cast<T>(value);
    std::memcpy(bytes, &narrow, sizeof(T));
    bytes += sizeof(T);
  }
}

inline void check_values(std::span<const std::size_t> shape, std::size_t count, const std::string& what,
                         const char* operation) {
  if (element_count(shape) == count) return;
  throw Error(ErrorCode::argument, operation,
              fmt::format("{} has {} values, but shape {}", what, count, shape_text(shape)));
}

// Appends the values of `array`; `what` names it in errors.
inline void encode_values(const Array& array, const std::string& what, const char* operation, std::string& bytes) {
  check_values(array.shape, array.values.size(), what, operation);
  if (array.type == DataType::f32) {
    for (const double value : array.values) {
      if (std::isfinite(value) && std::abs(value) > std::numeric_limits<float>::max()) {
        throw Error(ErrorCode::argument, operation, fmt::format("{} holds {}, too large for float32", what, value));
      }
    }
  }
  const std::size_t begin = bytes.size();
  bytes.resize(begin + array.values.size() * size_of(array.type));
  array.type == DataType::f32 ? encode_as<float>(array.values, bytes.data() + begin)
                              : encode_as<double>(array.values, bytes.data() + begin);
}

}  // namespace rtf
