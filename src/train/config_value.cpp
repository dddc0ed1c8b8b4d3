#include "train/config_value.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>
#include <type_traits>

#include "train/device_name.h"

namespace rtf::train {
namespace {

// The whole of `text` as a number.
template <class T>
bool parse(const std::string& text, T& value) {
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  return error == std::errc() && stop == end;
}

template <class T>
bool assign_number(const Scalar& from, const Range& range, T& to) {
  T value{};
  if (from.quoted || !parse(from.text, value) || !std::isfinite(static_cast<double>(value)) ||
      !range.holds(static_cast<double>(value))) {
    return false;
  }
  to = value;
  return true;
}

// cuda:N stands for many names.
bool is_choice(const std::string& text, const std::string& choice) {
  return choice == "cuda:N" ? device_number(text).has_value() : text == choice;
}

// Calls f(std::type_identity<T>, member) with the type T of the key.
template <class F>
auto visit_type(const Key& key, F&& f) {
  return std::visit([&]<class T>(const Member<T>& at) { return f(std::type_identity<T>(), at); }, key.member);
}

}  // namespace

bool Range::holds(double value) const {
  return (low_open ? value > low : value >= low) && (high_open ? value < high : value <= high);
}

std::string Range::text() const {
  if (std::isinf(low)) return "";
  const std::string begin = fmt::format("{} {}", low_open ? "above" : "from", low);
  if (std::isinf(high)) return low_open ? begin : begin + " on";
  return fmt::format("{} to {}{}", begin, high_open ? "below " : "", high);
}

std::string type_text(const Key& key) {
  const auto ranged = [&](const char* type) {
    const std::string range = key.range.text();
    return range.empty() ? type : fmt::format("{} {}", type, range);
  };
  return visit_type(key, [&](auto type, const auto&) -> std::string {
    using T = typename decltype(type)::type;
    if constexpr (std::is_same_v<T, bool>) return "true or false";
    if constexpr (std::is_same_v<T, std::string>) {
      return key.choices.empty() ? "text" : fmt::format("one of {}", fmt::join(key.choices, ", "));
    }
    if constexpr (std::is_same_v<T, std::optional<double>>) return ranged("number") + ", or null";
    return ranged(std::is_integral_v<T> ? "integer" : "number");
  });
}

bool assign(const Key& key, Config& config, const Scalar& value) {
  return visit_type(key, [&](auto type, const auto& at) {
    using T = typename decltype(type)::type;
    T& to = at(config);
    if constexpr (std::is_same_v<T, std::optional<double>>) {
      if (value.null) {
        to.reset();
        return true;
      }
      double number = 0;
      if (!assign_number(value, key.range, number)) return false;
      to = number;
      return true;
    } else {
      if (value.null) return false;
      if constexpr (std::is_same_v<T, bool>) {
        if (value.quoted || (value.text != "true" && value.text != "false")) return false;
        to = value.text == "true";
        return true;
      } else if constexpr (std::is_same_v<T, std::string>) {
        const auto& choices = key.choices;
        const auto fits = [&](const std::string& choice) { return is_choice(value.text, choice); };
        if (key.path == "model.init" && value.text.empty()) {
          to.clear();
          return true;
        }
        if (!choices.empty() && std::none_of(choices.begin(), choices.end(), fits)) return false;
        to = value.text;
        return true;
      } else {
        return assign_number(value, key.range, to);
      }
    }
  });
}

std::string value_text(const Key& key, const Config& config) {
  return visit_type(key, [&](auto type, const auto& at) -> std::string {
    using T = typename decltype(type)::type;
    const T& value = at(const_cast<Config&>(config));  // members are of a Config that may change; this one does not
    if constexpr (std::is_same_v<T, std::optional<double>>) {
      return value ? fmt::format("{}", *value) : "null";
    } else if constexpr (std::is_same_v<T, std::string>) {
      // A JSON string is a YAML string; names of choices need no quotes.
      return key.choices.empty() || value.empty() ? nlohmann::json(value).dump() : value;
    } else {
      return fmt::format("{}", value);
    }
  });
}

}  // namespace rtf::train
