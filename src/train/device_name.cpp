#include "train/device_name.h"

#include <charconv>
#include <string_view>

namespace rtf::train {

std::optional<int> device_number(const std::string& name) {
  if (name == "cpu") return -1;
  if (name == "cuda") return 0;
  constexpr std::string_view front = "cuda:";
  if (!name.starts_with(front)) return {};
  unsigned number = 0;
  const char* end = name.data() + name.size();
  const auto [stop, error] = std::from_chars(name.data() + front.size(), end, number);
  if (error != std::errc() || stop != end || number > 127) return {};
  return static_cast<int>(number);
}

}  // namespace rtf::train
