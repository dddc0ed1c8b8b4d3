// What the subcommands share: their registration, options that recur, and small checks.
#pragma once

#include <CLI/CLI.hpp>
#include <cstddef>
#include <memory>
#include <string>

#include "core/file_errors.h"
#include "rtf/error.h"
#include "rtf/filter_file.h"
#include "rtf/kernel.h"
#include "rtf/npy.h"

namespace rtf::cli {

// `argv` is handed on where rtf-train serves a word of `rtf bench`.
void add_bench(CLI::App& app, char** argv);
void add_convert(CLI::App& app);
void add_correct(CLI::App& app);
void add_data(CLI::App& app);
void add_filter(CLI::App& app);
void add_fit(CLI::App& app);
void add_freqz(CLI::App& app);
void add_info(CLI::App& app);
void add_kernel(CLI::App& app);
void add_plot(CLI::App& app);
void add_poles(CLI::App& app);
void add_reduce(CLI::App& app);
void add_stabilize(CLI::App& app);
void add_stream(CLI::App& app);
void add_wrap(CLI::App& app);

struct CommonOptions {
  std::string filter;  // the file that the command is about
  bool quiet = false;
};

// The file, --quiet, --version and an example in --help.
void add_common(CLI::App& command, CommonOptions& options, const std::string& example,
                const std::string& name = "FILTER",
                const std::string& description = "filter file: JSON, or safetensors by its suffix");

// A subcommand whose options live in an Options of its own; `run` is called when the whole line has been parsed.
template <class Options>
CLI::App& add_command(CLI::App& app, const std::string& name, const std::string& description,
                      const std::string& example, void (*add_options)(CLI::App&, Options&),
                      void (*run)(const Options&)) {
  auto options = std::make_shared<Options>();
  CLI::App& command = *app.add_subcommand(name, description);
  add_common(command, *options, example);
  add_options(command, *options);
  command.callback([options, run] { run(*options); });
  return command;
}

// An option that takes a whole number from `lowest` on.
CLI::Option* add_count(CLI::App& command, const std::string& name, std::size_t& value, const std::string& description,
                       std::size_t lowest = 1);
CLI::Option* add_output(CLI::App& command, std::string& path, const std::string& description);
CLI::Option* add_data_type(CLI::App& command, std::string& name, const std::string& description);

DataType data_type(const std::string& name);

const Coefficients& coefficients(const AnyTransferFunction& filter);

// to_coefficients(), whose refusal of channels that doubles do not hold so ends with a hint at what can be done.
AnyTransferFunction coefficients_or_hint(AnyFilter file, const std::string& path, const std::string& hint);

// Throws when `path` cannot be written, or when it is the file that the command is about: what it writes is no filter.
void check_result(const CommonOptions& options, const std::string& path, const char* command);

// Throws when both names lead to one file.
void require_two_files(const std::string& first, const std::string& second, const std::string& what);

// The search for max |H| solves eigenvalue problems of the order's size: half a second here, a minute at order 1024.
inline constexpr std::size_t largest_order_with_norms = 256;

// The line that says what was done, on standard output.
void say(const CommonOptions& options, const std::string& line);
void warn(const CommonOptions& options, const std::string& command, const std::string& line);

// "  label   value" rows for people.
std::string table(const std::vector<std::pair<std::string, std::string>>& rows);

}  // namespace rtf::cli
