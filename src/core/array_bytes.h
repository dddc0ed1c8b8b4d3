// The little-endian numbers of npy and safetensors files, to and from the doubles of an Array.
#pragma once

#include <fmt/format.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/bfloat16.h"
#include "rtf/error.h"
#include "rtf/npy.h"

namespace rtf {

static_assert(std::endian::native == std::endian::little, "file formats are read and written without swapping bytes");

inline std::size_t size_of(DataType type) {
  switch (type) {
    case DataType::int8:
      return 1;
    case DataType::bf16:
      return 2;
    case DataType::f32:
      return 4;
    case DataType::f64:
      break;
  }
  return 8;
}

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

template <class T, class Widen>
void decode_as(std::string_view bytes, std::vector<double>& values, Widen&& widen) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    T value;
    std::memcpy(&value, bytes.data() + i * sizeof(T), sizeof(T));
    values[i] = widen(value);
  }
}

inline std::vector<double> decode_values(std::string_view bytes, DataType type) {
  std::vector<double> values(bytes.size() / size_of(type));
  const auto plain = [](auto value) -> double { return value; };
  switch (type) {
    case DataType::f32:
      decode_as<float>(bytes, values, plain);
      break;
    case DataType::f64:
      decode_as<double>(bytes, values, plain);
      break;
    case DataType::bf16:
      decode_as<std::uint16_t>(bytes, values, from_bfloat16);
      break;
    case DataType::int8:
      decode_as<std::int8_t>(bytes, values, plain);
      break;
  }
  return values;
}

template <class T, class Narrow>
void encode_as(const std::vector<double>& values, char* bytes, Narrow&& to_narrow) {
  for (const double value : values) {
    const T narrow = to_narrow(value);
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

// What a type cannot hold; rounding is none of it, but for whole numbers.
inline void check_range(const Array& array, const std::string& what, const char* operation) {
  const auto refuse = [&](double value, const char* why) {
    throw Error(ErrorCode::argument, operation, fmt::format("{} holds {}, {}", what, value, why));
  };
  for (const double value : array.values) {
    if (array.type == DataType::int8 && !(value >= -128 && value <= 127 && value == std::nearbyint(value)))
      refuse(value, "expected whole numbers from -128 to 127");
    if (!std::isfinite(value)) continue;
    if (array.type == DataType::f32 && std::abs(value) > std::numeric_limits<float>::max())
      refuse(value, "too large for float32");
    if (array.type == DataType::bf16 && !std::isfinite(rounded_to_bfloat16(value)))
      refuse(value, "too large for bfloat16");
  }
}

// Appends the values of `array`; `what` names it in errors.
inline void encode_values(const Array& array, const std::string& what, const char* operation, std::string& bytes) {
  check_values(array.shape, array.values.size(), what, operation);
  check_range(array, what, operation);
  const std::size_t begin = bytes.size();
  bytes.resize(begin + array.values.size() * size_of(array.type));
  char* to = bytes.data() + begin;
  switch (array.type) {
    case DataType::f32:
      encode_as<float>(array.values, to, [](double value) { return static_cast<float>(value); });
      break;
    case DataType::f64:
      encode_as<double>(array.values, to, [](double value) { return value; });
      break;
    case DataType::bf16:
      encode_as<std::uint16_t>(array.values, to, bfloat16_bits);
      break;
    case DataType::int8:
      encode_as<std::int8_t>(array.values, to, [](double value) { return static_cast<std::int8_t>(value); });
      break;
  }
}

}  // namespace rtf
