// How every command prints a pole radius.
#pragma once

#include <cmath>
#include <cstdio>
#include <string>

namespace rtf::cli {

// The largest modulus of some poles in nine decimals, or how far it is from 1 where those would hide it.
inline std::string radius_text(double radius) {
  const double margin = 1 - radius;
  char text[64];
  if (margin == 0 || !(std::abs(margin) < 1e-7)) {
    std::snprintf(text, sizeof text, std::abs(radius) < 1e6 ? "%.9f" : "%.9e", radius);
  } else {
    std::snprintf(text, sizeof text, "1%c%.2e", margin > 0 ? '-' : '+', std::abs(margin));
  }
  return text;
}

}  // namespace rtf::cli
