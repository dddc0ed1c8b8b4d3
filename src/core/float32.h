// A double as float32 holds it.
#pragma once

namespace rtf {

// Through memory: GCC 12 drops the rounding of one of several values that it packs into a vector.
inline double rounded_to_float32(double value) {
  const volatile float narrow = static_cast<float>(value);
  return narrow;
}

}  // namespace rtf
