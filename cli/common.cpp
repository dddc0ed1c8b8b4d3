#include "common.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <filesystem>

#include "core/atomic_file.h"
#include "core/printable.h"
#include "entry.h"
#include "rtf/error.h"

namespace rtf::cli {

void add_common(CLI::App& command, CommonOptions& options, const std::string& example, const std::string& name,
                const std::string& description) {
  command.add_option(name, options.filter, description)->required()->type_name("");
  command.add_flag("-q,--quiet", options.quiet, "print no notes and no warnings");
  add_command_flags(command, example);
}

CLI::Option* add_count(CLI::App& command, const std::string& name, std::size_t& value, const std::string& description,
                       std::size_t lowest) {
  const auto parse = [&value, name, lowest](const std::string& text) {
    std::size_t parsed = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), parsed);
    if (error != std::errc() || end != text.data() + text.size() || parsed < lowest || parsed > std::size_t{1} << 53) {
      throw CLI::ValidationError(name, fmt::format("'{}' is not a whole number from {} to 2^53", text, lowest));
    }
    value = parsed;
  };
  return command.add_option_function<std::string>(name, parse, description)->type_name("N");
}

CLI::Option* add_output(CLI::App& command, std::string& path, const std::string& description) {
  return command.add_option("-o,--output", path, description)->required()->type_name("FILE");
}

CLI::Option* add_data_type(CLI::App& command, std::string& name, const std::string& description) {
  return command.add_option("--dtype", name, description)->type_name("TYPE")->check(CLI::IsMember({"f64", "f32"}));
}

DataType data_type(const std::string& name) { return name == "f32" ? DataType::f32 : DataType::f64; }

const Coefficients& coefficients(const AnyTransferFunction& filter) {
  return std::visit([](const auto& value) -> const Coefficients& { return value; }, filter);
}

AnyTransferFunction coefficients_or_hint(AnyFilter file, const std::string& path, const std::string& hint) {
  const bool of_other_form = std::holds_alternative<std::vector<System>>(file);
  try {
    return to_coefficients(std::move(file), path);
  } catch (const Error& error) {
    const bool not_held = error.code() == ErrorCode::unsupported || error.code() == ErrorCode::unstable;
    if (!of_other_form || !not_held || hint.empty()) throw;
    throw Error(error.code(), "command", without_operation(error) + "; " + hint);
  }
}

namespace {

bool are_one_file(const std::string& first, const std::string& second) {
  const auto place = [](const std::string& path) {
    return std::filesystem::weakly_canonical(std::filesystem::absolute(path));
  };
  return place(first) == place(second);
}

}  // namespace

void check_result(const CommonOptions& options, const std::string& path, const char* command) {
  check_output(path, command);
  if (are_one_file(options.filter, path)) {
    throw Error(ErrorCode::argument, command, fmt::format("{} is the file that is read; choose another output", path));
  }
}

void require_two_files(const std::string& first, const std::string& second, const std::string& what) {
  if (are_one_file(first, second)) {
    throw Error(ErrorCode::argument, "command", fmt::format("{} is to hold both {}", first, what));
  }
}

void say(const CommonOptions& options, const std::string& line) {
  if (!options.quiet) fmt::print("{}\n", printable(line, line.size()));
}

void warn(const CommonOptions& options, const std::string& command, const std::string& line) {
  if (!options.quiet && !line.empty())
    fmt::print(stderr, "rtf {}: warning: {}\n", command, printable(line, line.size()));
}

std::string table(const std::vector<std::pair<std::string, std::string>>& rows) {
  std::size_t width = 0;
  for (const auto& [label, value] : rows) width = std::max(width, label.size());
  std::string text;
  for (const auto& [label, value] : rows) text += fmt::format("  {:<{}}  {}\n", label, width, value);
  return text;
}

}  // namespace rtf::cli
