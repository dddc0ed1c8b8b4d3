// JSON from files that may be hostile: no duplicate keys, no deep nesting, one-line errors.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "core/printable.h"
#include "rtf/error.h"

namespace rtf {

// `where` names the text in errors, for example its path.
inline nlohmann::json parse_json(std::string_view text, const std::string& where, const char* operation) {
  using nlohmann::json;
  constexpr int max_depth = 8;
  // The parser takes a zero byte for the end of the text and would not see what follows.
  if (const std::size_t at = text.find('\0'); at != text.npos)
    throw Error(ErrorCode::format, operation, fmt::format("{}: not valid JSON: byte {} is 0", where, at));
  std::vector<std::set<std::string>> keys;  // of the objects now open
  const auto inspect = [&](int depth, json::parse_event_t event, json& parsed) {
    if (depth > max_depth) {
      throw Error(ErrorCode::format, operation, fmt::format("{}: JSON nested deeper than {} levels", where, max_depth));
    }
    if (event == json::parse_event_t::object_start) keys.emplace_back();
    if (event == json::parse_event_t::object_end) keys.pop_back();
    if (event == json::parse_event_t::key && !keys.back().insert(parsed.get<std::string>()).second) {
      throw Error(ErrorCode::format, operation,
                  fmt::format("{}: key '{}' appears twice", where, printable(parsed.get<std::string>())));
    }
    return true;
  };
  try {
    return json::parse(text.begin(), text.end(), inspect);
  } catch (const json::parse_error& error) {
    // The library's own tag and quotation go; what stands at the place is more telling, cut short and made printable.
    std::string_view why = error.what();
    why.remove_prefix(std::min(why.size(), why.find("] ") + 2));
    std::string line(why.substr(0, why.find("; last read")));
    if (error.byte >= 1 && error.byte <= text.size()) {
      line += fmt::format(", near '{}'", text.substr(error.byte - 1, 12));
    }
    for (char& c : line) {
      if (static_cast<unsigned char>(c) < 0x20 || static_cast<unsigned char>(c) >= 0x7f) c = '?';
    }
    throw Error(ErrorCode::format, operation, fmt::format("{}: not valid JSON: {}", where, line));
  } catch (const json::exception& error) {  // a number beyond the range of double
    const std::string_view why = error.what();
    throw Error(ErrorCode::format, operation,
                fmt::format("{}: not valid JSON: {:.100}", where, why.substr(why.find("] ") + 2)));
  }
}

// A value as one short line, for messages.
inline std::string json_text(const nlohmann::json& value) {
  std::string text = value.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
  if (text.size() > 40) text = text.substr(0, 37) + "...";
  return text;
}

}  // namespace rtf
